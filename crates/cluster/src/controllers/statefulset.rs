//! StatefulSets: numbered pods with their own claims, made, updated and removed in order.

use super::replicas::{
    self, available_in, controller_ref, is_available, is_finished, is_ready, is_terminating, scaled,
};
use super::revisions::{self, History};
use crate::key::Key;
use crate::op::{Event, Op, Source, Step};
use crate::selector::Selector;
use crate::world::{Object, World};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const SOURCE: Source = Source::Controller("statefulset-controller");
const REVISION: &str = "controller-revision-hash";

struct View<'a> {
    world: &'a World,
    set: &'a Arc<StatefulSet>,
    spec: &'a StatefulSetSpec,
    object: Object,
    pods: BTreeMap<i32, Arc<Pod>>,
    history: History,
    now: Timestamp,
    ops: Vec<Op>,
}

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(set) = world.stateful_sets.get(key) else { return Step::done() };
    let Some(spec) = &set.spec else { return Step::done() };
    let object = Object::StatefulSet(set.clone());
    let claimed = replicas::claim_pods(world, &object, &Selector::new(Some(&spec.selector)));
    let data = revisions::data(&spec.template);
    let history = revisions::history(world, &object, &data);
    let mut view = View {
        world,
        set,
        spec,
        pods: claimed.pods.into_iter().filter_map(|p| Some((ordinal(set, &p)?, p))).collect(),
        history,
        now,
        ops: claimed.ops,
        object,
    };
    if set.metadata.deletion_timestamp.is_some() {
        return Step::done();
    }
    let collisions = set.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0);
    let labels = json!(spec.selector.match_labels);
    if let Some(record) = revisions::record(&view.object, &view.history, &data, &labels, collisions) {
        view.ops.push(record);
        return Step::ops(view.ops); // The answer brings the revision's name, and with it us.
    }
    let Some(update) = view.history.current.clone() else { return Step::ops(view.ops) };
    let current = view.current_revision(&update);
    view.manage(&current, &update);
    let status = view.status(&current, &update);
    if set.status.as_ref() != Some(&status) {
        let mut updated = (**set).clone();
        updated.status = Some(status);
        view.ops.push(Op::UpdateStatus(Object::from(updated)));
    }
    let in_use =
        view.pods.values().map(|p| revision_of(p)).chain([label_of(&current), label_of(&update)]).collect::<Vec<_>>();
    view.ops.extend(revisions::prune(&view.history, &in_use, spec.revision_history_limit.unwrap_or(10)));
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let soon = view
        .pods
        .values()
        .filter(|_| min_ready > 0)
        .filter_map(|p| available_in(p, min_ready, now))
        .filter(|d| !d.is_zero())
        .min();
    Step::ops(view.ops).again(soon)
}

/// The number in a pod's name, if it is one of the set's.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let rest = crate::key::name(&pod.metadata).strip_prefix(crate::key::name(&set.metadata))?;
    rest.strip_prefix('-')?.parse().ok()
}

/// Unlike the pods of a daemon set, these carry the revision's whole name.
fn label_of(revision: &ControllerRevision) -> String {
    crate::key::name(&revision.metadata).into()
}

fn revision_of(pod: &Pod) -> String {
    pod.metadata.labels.as_ref().and_then(|l| l.get(REVISION)).cloned().unwrap_or_default()
}

impl View<'_> {
    fn first(&self) -> i32 {
        self.spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0)
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn current_revision(&self, update: &Arc<ControllerRevision>) -> Arc<ControllerRevision> {
        let name = self.set.status.as_ref().and_then(|s| s.current_revision.clone());
        let found = self.history.revisions.iter().find(|r| r.metadata.name == name);
        found.unwrap_or(update).clone()
    }

    fn healthy(&self, pod: &Pod) -> bool {
        is_ready(pod) && !is_terminating(pod) && replicas::phase(pod) == "Running"
    }

    fn available(&self, pod: &Pod) -> bool {
        self.healthy(pod) && is_available(pod, self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    fn manage(&mut self, current: &Arc<ControllerRevision>, update: &Arc<ControllerRevision>) {
        let one_by_one = self.spec.pod_management_policy.as_deref() != Some("Parallel");
        let wanted = self.first()..self.first().saturating_add(self.replicas());
        for n in wanted.clone() {
            match self.pods.get(&n).cloned() {
                None => {
                    self.create(n, current, update);
                    if one_by_one {
                        return;
                    }
                }
                Some(pod) if is_finished(&pod) => {
                    if !is_terminating(&pod) {
                        self.delete(&pod, "RecreatingTerminatedPod");
                    }
                    if one_by_one {
                        return;
                    }
                }
                Some(pod) => {
                    // A pod whose claims were lost with a namespace or by hand gets them again.
                    self.create_claims(n);
                    if one_by_one && (is_terminating(&pod) || !self.available(&pod)) {
                        return;
                    }
                }
            }
        }
        let condemned: Vec<Arc<Pod>> =
            self.pods.iter().rev().filter(|(n, _)| !wanted.contains(n)).map(|(_, p)| p.clone()).collect();
        for pod in condemned {
            if is_terminating(&pod) {
                if one_by_one {
                    return;
                }
                continue;
            }
            self.delete(&pod, "SuccessfulDelete");
            if one_by_one {
                return;
            }
        }
        self.update(update, &wanted.collect::<Vec<_>>());
    }

    /// Replaces pods of older revisions, the highest number first, as far as the strategy allows.
    fn update(&mut self, update: &Arc<ControllerRevision>, wanted: &[i32]) {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let partition = rolling.and_then(|r| r.partition).unwrap_or(0);
        let most =
            rolling.and_then(|r| r.max_unavailable.as_ref()).map_or(1, |m| scaled(m, self.replicas(), false).max(1));
        let mut unavailable =
            wanted.iter().filter(|n| self.pods.get(n).is_none_or(|p| !self.available(p))).count() as i32;
        let hash = label_of(update);
        let from = self.first() + partition;
        for n in wanted.iter().rev().filter(|n| **n >= from) {
            let Some(pod) = self.pods.get(n).cloned() else { continue };
            if revision_of(&pod) != hash && !is_terminating(&pod) {
                let down = !self.available(&pod);
                if !down && unavailable >= most {
                    return;
                }
                self.delete(&pod, "SuccessfulDelete");
                unavailable += i32::from(!down);
                if unavailable >= most {
                    return;
                }
            } else if !self.available(&pod) && most == 1 {
                return; // One at a time: the last replacement must work first.
            }
        }
    }

    fn create(&mut self, n: i32, current: &Arc<ControllerRevision>, update: &Arc<ControllerRevision>) {
        self.create_claims(n);
        let partition =
            self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref()?.partition).unwrap_or(0);
        // Below the partition the old version is kept, even for pods made anew.
        let old = n < self.first() + partition && label_of(current) != label_of(update);
        let revision = if old { current } else { update };
        let template = old.then(|| template_of(revision)).flatten().unwrap_or_else(|| self.spec.template.clone());
        let name = self.pod_name(n);
        let mut pod = replicas::pod_from(&template, &self.object);
        pod.metadata.generate_name = None;
        pod.metadata.name = Some(name.clone());
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(REVISION.into(), label_of(revision));
        labels.insert("statefulset.kubernetes.io/pod-name".into(), name.clone());
        labels.insert("apps.kubernetes.io/pod-index".into(), n.to_string());
        let claims: Vec<(String, String)> = self.claim_names(n);
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(name.clone());
        spec.subdomain = self.spec.service_name.clone().filter(|s| !s.is_empty());
        let volumes = spec.volumes.get_or_insert_default();
        for (volume, claim) in claims {
            volumes.retain(|v| v.name != volume);
            let source = PersistentVolumeClaimVolumeSource { claim_name: claim, read_only: None };
            volumes.push(Volume { name: volume, persistent_volume_claim: Some(source), ..Volume::default() });
        }
        let set = crate::key::name(&self.set.metadata);
        let message = format!("Create Pod {name} in StatefulSet {set} successful");
        self.ops.push(Op::Create(Object::from(pod)));
        self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, "SuccessfulCreate", message)));
    }

    fn pod_name(&self, n: i32) -> String {
        format!("{}-{n}", crate::key::name(&self.set.metadata))
    }

    /// Volume and claim of each claim template.
    fn claim_names(&self, n: i32) -> Vec<(String, String)> {
        let templates = self.spec.volume_claim_templates.iter().flatten();
        let pod = self.pod_name(n);
        templates
            .map(|t| (crate::key::name(&t.metadata).to_owned(), format!("{}-{pod}", crate::key::name(&t.metadata))))
            .collect()
    }

    fn create_claims(&mut self, n: i32) {
        let names = self.claim_names(n);
        let set = crate::key::name(&self.set.metadata).to_owned();
        let deleted_with_set =
            self.spec.persistent_volume_claim_retention_policy.as_ref().and_then(|p| p.when_deleted.as_deref())
                == Some("Delete");
        for (template, (_, name)) in self.spec.volume_claim_templates.iter().flatten().zip(names) {
            if self.world.claims.get(&Key::of(&self.set.metadata).sibling(&name)).is_some() {
                continue;
            }
            let mut claim: PersistentVolumeClaim = template.clone();
            claim.status = None;
            claim.metadata.name = Some(name.clone());
            claim.metadata.namespace = self.set.metadata.namespace.clone();
            let labels = claim.metadata.labels.get_or_insert_default();
            labels.extend(self.spec.selector.match_labels.clone().unwrap_or_default());
            if deleted_with_set {
                claim.metadata.owner_references = Some(vec![controller_ref(&self.object)]);
            }
            self.ops.push(Op::Create(Object::from(claim)));
            let message = format!("Create Claim {name} Pod {} in StatefulSet {set} success", self.pod_name(n));
            self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, "SuccessfulCreate", message)));
        }
    }

    fn delete(&mut self, pod: &Arc<Pod>, reason: &'static str) {
        let (pod_name, set) = (crate::key::name(&pod.metadata), crate::key::name(&self.set.metadata));
        let message = if reason == "RecreatingTerminatedPod" {
            format!(
                "StatefulSet {}/{set} is recreating terminated Pod {pod_name}",
                crate::key::namespace(&pod.metadata)
            )
        } else {
            format!("Delete Pod {pod_name} in StatefulSet {set} successful")
        };
        self.release_claims(pod);
        self.ops.push(Op::delete(&Object::Pod(pod.clone())));
        self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, reason, message)));
    }

    /// With `whenScaled: Delete`, a condemned pod takes its claims with it.
    fn release_claims(&mut self, pod: &Arc<Pod>) {
        let policy = self.spec.persistent_volume_claim_retention_policy.as_ref();
        let Some(n) = ordinal(self.set, pod) else { return };
        let condemned = n < self.first() || n >= self.first() + self.replicas();
        if !condemned || policy.and_then(|p| p.when_scaled.as_deref()) != Some("Delete") {
            return;
        }
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid});
        for (_, name) in self.claim_names(n) {
            let key = Key::of(&self.set.metadata).sibling(&name);
            if self.world.claims.get(&key).is_some() {
                let body = json!({"metadata": {"ownerReferences": [owner]}});
                let kind = crate::world::Kind::PersistentVolumeClaim;
                self.ops.push(Op::Patch { kind, key, subresource: "", style: crate::op::Style::Strategic, body });
            }
        }
    }

    fn status(&self, current: &ControllerRevision, update: &ControllerRevision) -> StatefulSetStatus {
        let count = |test: &dyn Fn(&Pod) -> bool| {
            i32::try_from(self.pods.values().filter(|p| test(p)).count()).unwrap_or(i32::MAX)
        };
        let some = |n: i32| (n > 0).then_some(n);
        let (current_hash, update_hash) = (label_of(current), label_of(update));
        let updated = count(&|p| revision_of(p) == update_hash && !is_terminating(p));
        let ready = count(&|p| self.healthy(p));
        let replicas = count(&|_| true);
        let done = updated == self.replicas() && ready == self.replicas() && replicas == self.replicas();
        let (shown, on_current) = if done {
            (update, updated)
        } else {
            (current, count(&|p| revision_of(p) == current_hash && !is_terminating(p)))
        };
        StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas,
            ready_replicas: some(ready),
            available_replicas: Some(count(&|p| self.available(p))),
            current_replicas: some(on_current),
            updated_replicas: some(updated),
            current_revision: shown.metadata.name.clone(),
            update_revision: update.metadata.name.clone(),
            collision_count: Some(self.set.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0)),
            conditions: self.set.status.as_ref().and_then(|s| s.conditions.clone()),
        }
    }
}

fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}
