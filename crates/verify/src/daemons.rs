//! The daemon pods a node will run besides what is planned for it.

use karpenter_core::pod::NodeTerm;
use karpenter_core::world::DaemonSet;
use karpenter_core::{PodShape, Taint, World};

use crate::amounts::Amounts;
use crate::labels::{self, Labelled};
use crate::tolerations;

/// A DaemonSet as its next pod will look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Daemon<'w> {
    pub(crate) name: &'w str,
    pub(crate) shape: &'w PodShape,
    terms: &'w [NodeTerm],
}

pub(crate) fn of(world: &World) -> Vec<Daemon<'_>> {
    let asks_for_ignored_devices =
        |daemon: &Daemon<'_>| daemon.shape.wants_devices && world.settings.ignore_device_requests;
    let all = world.daemon_sets.iter().map(|set| representative(world, set));
    all.filter(|daemon| !asks_for_ignored_devices(daemon)).collect()
}

/// The newest pod tells what admission made of the template; where its own node affinity pins it, the template's counts.
fn representative<'w>(world: &'w World, set: &'w DaemonSet) -> Daemon<'w> {
    let controlled = |pod: &&karpenter_core::Pod| {
        let by_set = |owner: &karpenter_core::pod::Owner| owner.controller && owner.uid == set.uid;
        pod.namespace == set.namespace && pod.owners.iter().any(by_set)
    };
    let newest =
        world.pods.iter().filter(controlled).max_by(|a, b| a.created.cmp(&b.created).then_with(|| b.uid.cmp(&a.uid)));
    let shape: &PodShape = newest.map_or(&*set.template, |pod| &*pod.shape);
    let terms =
        if set.required_node_affinity.is_empty() { &shape.required_node_affinity } else { &set.required_node_affinity };
    Daemon { name: &set.name, shape, terms }
}

impl<'w> Daemon<'w> {
    pub(crate) fn runs_on(&self, world: &World, taints: &[Taint], on: &impl Labelled) -> bool {
        let words = &world.vocabulary;
        tolerations::hard(taints, &self.shape.tolerations).is_none()
            && labels::node_selector_holds(words, &self.shape.node_selector, on)
            && (self.terms.is_empty() || self.terms.iter().any(|term| labels::expressions_hold(words, term, on)))
    }

    /// Keys that decide where it runs.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'w str> {
        let terms = self.terms.iter().flat_map(|term| &term.expressions);
        let selected = self.shape.node_selector.keys().map(String::as_str);
        selected.chain(terms.map(|expression| &*expression.key))
    }
}

/// What these daemons ask for together.
pub(crate) fn requests<'w>(daemons: impl IntoIterator<Item = Daemon<'w>>) -> Amounts<'w> {
    let mut sum = Amounts::default();
    daemons.into_iter().for_each(|daemon| sum.add(&daemon.shape.requests));
    sum
}
