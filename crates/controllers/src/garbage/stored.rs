//! NodeClaims as the API server itself has them, asked for before a machine is terminated that seems to be nobody's.
//!
//! A machine is a leak after thirty seconds, and a watch may have been silent for ninety before anybody notices. A claim
//! that somebody else wrote in that time, a replica that led until a moment ago, would lose its machine undrained.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_index::{Kind, Object, Unreadable};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::write::{escape, request};

const PAGE: u32 = 500;
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) claims: Vec<Arc<NodeClaim>>,
    pub(super) unreadable: Vec<Arc<Unreadable>>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// Asks without a resource version, which is answered with what is true now. What the watch has not told yet goes into
/// the index too.
pub(super) async fn claims(context: &Context) -> Result<Stored> {
    let path = Kind::NodeClaim.path(&context.index.node_class_kind());
    let (mut stored, mut from) = (Stored::default(), String::new());
    loop {
        let asked =
            context.client.request_text(request("GET", &format!("{path}?limit={PAGE}{from}"), None, Vec::new()));
        let text = timeout(DEADLINE, asked).await;
        let text = text.map_err(|_| Error::other("listing the NodeClaims: no answer in time"))??;
        let page: Page<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        for item in page.items {
            match serde_json::from_str::<NodeClaim>(item.get()) {
                Ok(claim) => {
                    context.saw(Object::from(claim.clone()));
                    stored.claims.push(Arc::new(claim));
                }
                Err(error) => {
                    let one = Unreadable::of(Kind::NodeClaim, item.get(), error.to_string());
                    context.saw_unreadable(one.clone());
                    stored.unreadable.push(Arc::new(one));
                }
            }
        }
        match page.metadata.next.filter(|next| !next.is_empty()) {
            Some(next) => from = format!("&continue={}", escape(&next)),
            None => return Ok(stored),
        }
    }
}
