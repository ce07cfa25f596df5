//! The switch that stops all voluntary disruption: an annotation on the controller's ConfigMap.

use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_index::facts;

use crate::context::Context;
use crate::error::Error;
use crate::write::request;

/// Whether somebody asked for it. A ConfigMap that is not there, or that we may not read, asks for nothing.
pub(super) async fn is_asked(context: &Context) -> bool {
    let Some((namespace, name)) = &context.settings.config_map else { return false };
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    match context.client.request::<ConfigMap>(request("GET", &path, None, Vec::new())).await {
        Ok(found) => facts::is_paused(found.metadata.annotations.as_ref()),
        Err(kube::Error::Api(status))
            if [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN].iter().any(|code| status.code == code.as_u16()) =>
        {
            false
        }
        Err(error) => {
            let error = Error::from(error);
            tracing::warn!(%error, "the ConfigMap that may pause disruption cannot be read");
            false
        }
    }
}
