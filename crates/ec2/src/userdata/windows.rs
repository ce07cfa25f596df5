//! Windows: a PowerShell block that ends by calling the image's bootstrap script.

use super::kubelet_args::{Reader, kubelet_args};
use super::quoting::powershell;
use super::{Bootstrap, UserDataError, custom_text};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cluster = bootstrap.cluster;
    let mut text = "<powershell>\n".to_owned();
    if let Some(custom) = custom_text(bootstrap) {
        text.push_str(custom);
        text.push('\n');
    }
    text.push_str(
        "[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n\
         & $EKSBootstrapScriptFile",
    );
    let (name, endpoint) = (powershell(&cluster.name), powershell(&cluster.endpoint));
    text.push_str(&format!(" -EKSClusterName {name} -APIServerEndpoint {endpoint}"));
    if let Some(ca) = &cluster.ca_bundle {
        text.push_str(&format!(" -Base64ClusterCA {}", powershell(ca)));
    }
    text.push_str(&format!(" -KubeletExtraArgs {}", powershell(&kubelet_args(bootstrap)?.join(" "))));
    if let Some(dns) = (Reader { settings: bootstrap.kubelet }).cluster_dns()? {
        text.push_str(&format!(" -DNSClusterIP {}", powershell(dns)));
    }
    text.push_str("\n</powershell>");
    Ok(text)
}
