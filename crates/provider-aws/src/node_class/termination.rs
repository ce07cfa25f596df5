//! The end of a node class: first its claims, then what was made for it in AWS, then its finalizer.

use std::time::Duration;

use karpenter_api::{EC2NodeClass, NodeClaim, labels};
use karpenter_provider::{Notice, Severity};
use kube::Api;

use super::{Next, NodeClassController, Step, has_finalizer, is_status};
use crate::objects::class_subject;

const TELL_AGAIN: Duration = Duration::from_secs(600);
const SHOWN: usize = 5;

impl NodeClassController {
    pub(super) async fn terminate(&self, class: &EC2NodeClass) -> Step {
        if !has_finalizer(class) {
            return Ok(Next::Never);
        }
        let name = class.metadata.name.clone().unwrap_or_default();
        let users = self.users(&name).await?;
        if !users.is_empty() {
            self.parts.recorder.publish(Notice {
                subject: class_subject(class),
                severity: Severity::Normal,
                reason: "WaitingOnNodeClaimTermination",
                message: format!("Waiting on NodeClaim termination for {}", shortened(&users)),
                dedupe: Vec::new(),
            });
            return Ok(Next::After(TELL_AGAIN));
        }
        if !self.parts.settings.isolated_vpc {
            let deleted = self.parts.profiles.delete_of(class, (self.parts.now)()).await;
            deleted.map_err(|error| format!("deleting instance profiles, {error}"))?;
        }
        let deleted = self.parts.launch_templates.delete_of(&name).await;
        deleted.map_err(|error| format!("deleting launch templates, {error}"))?;
        let mut finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != labels::EC2NODECLASS_TERMINATION_FINALIZER);
        match self.patch_finalizers(class, &finalizers).await {
            Ok(_) => {}
            Err(error) if is_status(&error, 409) => return Ok(Next::AGAIN),
            Err(error) if is_status(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        self.parts.observer.node_class_gone(&name);
        self.validation.forget(&name, (self.parts.now)());
        Ok(Next::Never)
    }

    async fn users(&self, class: &str) -> Result<Vec<String>, kube::Error> {
        let claims = Api::<NodeClaim>::all(self.client.clone()).list(&Default::default()).await?;
        let mut names: Vec<String> = claims
            .items
            .into_iter()
            .filter(|claim| {
                let reference = &claim.spec.node_class_ref;
                reference.name == class && reference.kind == "EC2NodeClass"
            })
            .filter_map(|claim| claim.metadata.name)
            .collect();
        names.sort();
        Ok(names)
    }
}

fn shortened(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{shown} and {more} other(s)"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_lists_are_cut() {
        // covers: AWS-NC-12
        let names = |n: usize| (0..n).map(|n| format!("c{n}")).collect::<Vec<_>>();
        assert_eq!(super::shortened(&names(5)), "c0, c1, c2, c3, c4");
        assert_eq!(super::shortened(&names(7)), "c0, c1, c2, c3, c4 and 2 other(s)");
    }
}
