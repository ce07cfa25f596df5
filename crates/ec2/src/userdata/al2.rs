//! Amazon Linux 2: a MIME document whose last part runs the image's bootstrap script.

use std::net::Ipv6Addr;

use super::kubelet_args::{Reader, kubelet_args};
use super::mime::{self, Document, Part, SHELL_SCRIPT};
use super::quoting::bash;
use super::{Bootstrap, Rendered, UserDataError, custom_text, looks_like_mime};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<Rendered, UserDataError> {
    let Document { mut parts, notes } = match custom_text(bootstrap) {
        Some(text) if looks_like_mime(text) => mime::read(text)?,
        Some(text) => Document { parts: vec![Part::new(SHELL_SCRIPT, text)], notes: Vec::new() },
        None => Document { parts: Vec::new(), notes: Vec::new() },
    };
    parts.push(Part::new(SHELL_SCRIPT, script(bootstrap)?));
    Ok(Rendered { text: mime::write(&parts), notes })
}

fn script(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cluster = bootstrap.cluster;
    let kubelet = Reader { settings: bootstrap.kubelet };
    let ca = cluster.ca_bundle.as_ref().map(|ca| format!("--b64-cluster-ca {}", bash(ca))).unwrap_or_default();
    let mut options = Vec::new();
    if let Some(dns) = kubelet.cluster_dns()? {
        if dns.parse::<Ipv6Addr>().is_ok_and(|address| address.to_ipv4_mapped().is_none()) {
            options.push("--ip-family ipv6".to_owned());
        }
        options.push(format!("--dns-cluster-ip {}", bash(dns)));
    }
    if kubelet.integer("maxPods")?.is_some() {
        // The script would compute a limit of its own.
        options.push("--use-max-pods false".to_owned());
    }
    options.push(format!("--kubelet-extra-args {}", bash(&kubelet_args(bootstrap)?.join(" "))));
    if bootstrap.raid0 {
        options.push("--local-disks raid0".to_owned());
    }
    let mut script = format!(
        "#!/bin/bash -xe\n\
         exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n\
         /etc/eks/bootstrap.sh {} --apiserver-endpoint {} {ca}",
        bash(&cluster.name),
        bash(&cluster.endpoint)
    );
    for option in options {
        script.push_str(" \\\n");
        script.push_str(&option);
    }
    Ok(script)
}
