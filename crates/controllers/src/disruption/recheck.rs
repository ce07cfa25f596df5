//! Whether what drift found still holds after a search that took long.

use std::sync::Arc;

use karpenter_disruption::Command;
use karpenter_disruption::validation::Validation;

use super::Disruption;
use super::picture::Picture;
use crate::compute::compute;
use crate::context::Context;

impl Disruption {
    /// What drift found is carried out at once, and the search may have taken minutes, in which watches went on: pods came
    /// that nobody may move, nodes were promised to others, budgets were used up. Where the cluster may be another by now,
    /// each command has to hold in it. Answers the cluster in which they do. Nothing while it is not wholly known.
    pub(super) async fn still_drifted(
        &self,
        context: &Context,
        picture: &Arc<Picture>,
        commands: Vec<Command>,
    ) -> Option<(Arc<Picture>, Vec<Command>)> {
        if commands.is_empty() || picture.is_current(context) {
            return Some((picture.clone(), commands));
        }
        let now = Arc::new(Picture::take(context, &self.commands).await?);
        let (policy, found, seen) = (self.policy(context), commands.clone(), now.clone());
        let holds: Vec<bool> = compute(context, move || {
            let snapshot = seen.snapshot();
            let mut validation = Validation::new(&snapshot, &policy, &found);
            found.iter().map(|command| validation.validate(command).refused.is_none()).collect()
        })
        .await;
        let dropped = holds.iter().filter(|holds| !**holds).count();
        if dropped > 0 {
            tracing::debug!(dropped, "drifted nodes stay for now, the cluster has moved on while they were looked at");
        }
        let held = commands.into_iter().zip(holds).filter_map(|(command, holds)| holds.then_some(command));
        Some((now, held.collect()))
    }
}

#[cfg(test)]
mod tests;
