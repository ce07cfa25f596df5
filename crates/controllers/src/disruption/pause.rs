//! The switch that stops all voluntary disruption: an annotation on the controller's ConfigMap.
//!
//! It fails closed: while it cannot be read it stays as it was, and as long as it never was read disruption pauses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_index::facts;

use crate::context::Context;
use crate::error::Error;
use crate::write::request;

#[derive(Debug, Default)]
pub(super) struct PauseSwitch {
    /// What was last read.
    paused: Mutex<Option<bool>>,
    /// Under upstream's roles we may not look at all, which is worth saying once.
    said_forbidden: AtomicBool,
}

impl PauseSwitch {
    pub(super) fn is_on(&self) -> bool {
        self.paused().unwrap_or(true)
    }

    /// Looks how it stands now. A ConfigMap that is not there, or that we may not read, asks for nothing.
    pub(super) async fn look(&self, context: &Context) {
        let read = match &context.settings.config_map {
            Some((namespace, name)) => self.read(context, namespace, name).await,
            None => Some(false),
        };
        if read.is_some() {
            *self.paused() = read;
        }
    }

    async fn read(&self, context: &Context, namespace: &str, name: &str) -> Option<bool> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        match context.client.request::<ConfigMap>(request("GET", &path, None, Vec::new())).await {
            Ok(found) => Some(facts::is_paused(found.metadata.annotations.as_ref())),
            Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() => Some(false),
            Err(kube::Error::Api(status)) if status.code == StatusCode::FORBIDDEN.as_u16() => {
                if !self.said_forbidden.swap(true, Ordering::Relaxed) {
                    let why = &status.message;
                    tracing::info!(namespace, name, why, "disruption cannot be paused by a ConfigMap we may not read");
                }
                Some(false)
            }
            Err(error) => {
                let error = Error::from(error).to_string();
                tracing::warn!(namespace, name, error, "the ConfigMap that may pause disruption cannot be read");
                None
            }
        }
    }

    fn paused(&self) -> MutexGuard<'_, Option<bool>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
