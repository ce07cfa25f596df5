//! The API server alone on a loopback port: `serve PORT KUBECONFIG [--rbac]`.

use std::path::PathBuf;

use karpenter_apiserver::{ApiServer, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().ok_or("the port is missing")?.parse()?;
    let kubeconfig = PathBuf::from(arguments.next().ok_or("the kubeconfig's path is missing")?);
    let rbac = arguments.next().as_deref() == Some("--rbac");
    let server = ApiServer::new(Options { rbac, ..Options::new() });
    let listening = server.listen(port).await?;
    listening.write_kubeconfig(&kubeconfig)?;
    println!("export KUBECONFIG={}", kubeconfig.display());
    std::future::pending::<()>().await;
    Ok(())
}
