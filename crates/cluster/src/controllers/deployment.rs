//! Deployments: one ReplicaSet per version of the template, and moving replicas between them.

use super::replicas::{adopt, controller_ref, created, is_finished};
use super::revisions::hash;
use super::rollout::{self, Bounds, available, is_recreate, total, wanted};
use crate::clock::{later, until, wire};
use crate::key::{Key, annotation, uid};
use crate::op::{Event, Op, Source, Step};
use crate::selector::Selector;
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a deployment that mean nothing on its sets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    "deployment.kubernetes.io/revision-history",
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
const SOURCE: Source = Source::Controller("deployment-controller");

/// One look at a deployment.
struct View<'a> {
    world: &'a World,
    deployment: &'a Arc<Deployment>,
    object: Object,
    new: Option<Arc<ReplicaSet>>,
    /// All others, oldest first.
    old: Vec<Arc<ReplicaSet>>,
    now: Timestamp,
    ops: Vec<Op>,
}

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(deployment) = world.deployments.get(key) else { return Step::done() };
    let Some(spec) = &deployment.spec else { return Step::done() };
    let object = Object::Deployment(deployment.clone());
    if Selector::new(Some(&spec.selector)).is_empty() {
        return Step::done();
    }
    let (sets, ops) = claim_sets(world, deployment, &object);
    let template = without_hash(&spec.template);
    let (mut same, mut old): (Vec<_>, Vec<_>) = sets
        .into_iter()
        .partition(|s| s.spec.as_ref().and_then(|s| s.template.as_ref()).is_some_and(|t| without_hash(t) == template));
    let newest = |s: &Arc<ReplicaSet>| (created(&s.metadata), s.metadata.name.clone());
    same.sort_by_key(newest);
    let new = (!same.is_empty()).then(|| same.remove(0));
    old.extend(same);
    old.sort_by_key(newest);
    let mut view = View { world, deployment, object, new, old, now, ops };
    if deployment.metadata.deletion_timestamp.is_some() {
        return view.finish();
    }
    let paused = spec.paused == Some(true);
    if view.scaled() {
        view.scale();
    } else if paused {
        // A paused deployment follows its size only.
    } else if is_recreate(deployment) {
        view.recreate();
    } else {
        view.roll();
    }
    if !paused && view.complete() {
        view.clean_up();
    }
    view.finish()
}

fn claim_sets(world: &World, deployment: &Deployment, object: &Object) -> (Vec<Arc<ReplicaSet>>, Vec<Op>) {
    let selector = Selector::new(deployment.spec.as_ref().map(|s| &s.selector));
    let owned = world.children(uid(&deployment.metadata), Kind::ReplicaSet).filter_map(|k| world.replica_sets.get(k));
    let mut sets: Vec<Arc<ReplicaSet>> = owned.cloned().collect();
    let mut ops = Vec::new();
    for key in world.orphans(Kind::ReplicaSet, crate::key::namespace(&deployment.metadata)) {
        let Some(set) = world.replica_sets.get(key) else { continue };
        if set.metadata.deletion_timestamp.is_none()
            && selector.matches(set.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()))
        {
            ops.push(adopt(&Object::ReplicaSet(set.clone()), object));
            sets.push(set.clone());
        }
    }
    sets.retain(|s| s.metadata.deletion_timestamp.is_none());
    (sets, ops)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|m| m.labels.as_mut()) {
        labels.remove(HASH);
    }
    if let Some(meta) = template.metadata.as_mut() {
        meta.labels = meta.labels.take().filter(|l| !l.is_empty());
        meta.creation_timestamp = None;
    }
    template
}

fn number(set: &ReplicaSet, key: &str) -> Option<i32> {
    annotation(&set.metadata, key)?.parse().ok()
}

fn revision(meta: &ObjectMeta) -> i64 {
    annotation(meta, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

impl View<'_> {
    fn replicas(&self) -> i32 {
        self.deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
    }

    fn all(&self) -> Vec<&Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new).collect()
    }

    fn active(&self) -> Vec<Arc<ReplicaSet>> {
        self.all().into_iter().filter(|s| wanted(s) > 0).cloned().collect()
    }

    /// Whether the deployment's size changed since its sets were last sized.
    fn scaled(&self) -> bool {
        let replicas = self.replicas();
        self.active().iter().any(|s| number(s, DESIRED).is_some_and(|d| d != replicas))
    }

    fn scale(&mut self) {
        let active = self.active();
        let replicas = self.replicas();
        if let [only] = active.as_slice() {
            let only = only.clone();
            self.resize(&only, replicas);
            return;
        }
        if self.new.as_ref().is_some_and(|n| self.saturated(n)) {
            for set in self.old.clone() {
                self.resize(&set, 0);
            }
            return;
        }
        if is_recreate(self.deployment) {
            return;
        }
        let most_before = |s: &ReplicaSet| {
            number(s, MAX)
                .filter(|m| *m > 0)
                .unwrap_or_else(|| self.deployment.status.as_ref().and_then(|s| s.replicas).unwrap_or(0))
        };
        for (i, size) in rollout::proportional(self.deployment, &active, most_before) {
            self.resize(&active[i], size);
        }
    }

    fn saturated(&self, set: &ReplicaSet) -> bool {
        wanted(set) == self.replicas()
            && number(set, DESIRED) == Some(self.replicas())
            && available(set) == self.replicas()
    }

    fn roll(&mut self) {
        let Some(new) = self.new.clone() else {
            let size = rollout::new_size(self.deployment, &self.all(), 0);
            self.create_new(size);
            return;
        };
        self.refresh_new(&new);
        let size = if wanted(&new) > self.replicas() {
            self.replicas()
        } else {
            rollout::new_size(self.deployment, &self.all(), wanted(&new))
        };
        if size != wanted(&new) {
            self.resize(&new, size);
            return;
        }
        let old: Vec<&Arc<ReplicaSet>> = self.old.iter().collect();
        let sizes = rollout::old_sizes(self.deployment, Some(&new), &old);
        for (set, size) in self.old.clone().iter().zip(sizes) {
            self.resize(set, size);
        }
    }

    fn recreate(&mut self) {
        let running = self.old.iter().any(|s| wanted(s) > 0);
        for set in self.old.clone() {
            self.resize(&set, 0);
        }
        let lingering = self.old.iter().any(|s| self.world.pods_of(uid(&s.metadata)).any(|p| !is_finished(p)));
        if running || lingering {
            return;
        }
        match self.new.clone() {
            None => self.create_new(self.replicas()),
            Some(new) => {
                self.refresh_new(&new);
                self.resize(&new, self.replicas());
            }
        }
    }

    fn create_new(&mut self, size: i32) {
        let Some(spec) = &self.deployment.spec else { return };
        let collisions = self.deployment.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0);
        let hash = hash(&without_hash(&spec.template), collisions);
        let key = Key::of(&self.deployment.metadata)
            .sibling(&format!("{}-{hash}", crate::key::name(&self.deployment.metadata)));
        if self.world.replica_sets.get(&key).is_some() {
            // Somebody else's set has the name: count up, which changes the hash.
            let mut updated = (**self.deployment).clone();
            updated.status.get_or_insert_default().collision_count = Some(collisions + 1);
            self.ops.push(Op::UpdateStatus(Object::from(updated)));
            return;
        }
        let mut template = spec.template.clone();
        template.metadata.get_or_insert_default().labels.get_or_insert_default().insert(HASH.into(), hash.clone());
        let labels = template.metadata.as_ref().and_then(|m| m.labels.clone());
        let mut selector = spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(HASH.into(), hash);
        let last = self.old.iter().map(|s| revision(&s.metadata)).max().unwrap_or(0);
        let mut annotations = self.copied_annotations();
        annotations.insert(REVISION.into(), (last + 1).to_string());
        self.size_annotations(&mut annotations);
        let set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(key.name.to_string()),
                namespace: self.deployment.metadata.namespace.clone(),
                labels,
                annotations: Some(annotations),
                owner_references: Some(vec![controller_ref(&self.object)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(size),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        self.ops.push(Op::Create(Object::from(set)));
        if size > 0 {
            self.tell_scaled("up", &key.name.clone(), 0, size);
        }
        self.set_revision(last + 1);
    }

    fn copied_annotations(&self) -> BTreeMap<String, String> {
        let mut copied = self.deployment.metadata.annotations.clone().unwrap_or_default();
        copied.retain(|k, _| !NOT_COPIED.contains(&k.as_str()));
        copied
    }

    fn size_annotations(&self, annotations: &mut BTreeMap<String, String>) {
        annotations.insert(DESIRED.into(), self.replicas().to_string());
        annotations.insert(MAX.into(), (self.replicas() + Bounds::of(self.deployment).surge).to_string());
    }

    /// An old set that became the new one again is the latest revision.
    fn refresh_new(&mut self, new: &Arc<ReplicaSet>) {
        let last = self.old.iter().map(|s| revision(&s.metadata)).max().unwrap_or(0);
        let mine = revision(&new.metadata);
        let mut updated = (**new).clone();
        let annotations = updated.metadata.annotations.get_or_insert_default();
        annotations.extend(self.copied_annotations());
        if mine <= last {
            annotations.insert(REVISION.into(), (last + 1).to_string());
            if mine > 0 {
                let history = annotations.entry("deployment.kubernetes.io/revision-history".into()).or_default();
                let text = if history.is_empty() { mine.to_string() } else { format!("{history},{mine}") };
                *history = text;
            }
        }
        let min_ready = self.deployment.spec.as_ref().and_then(|s| s.min_ready_seconds);
        if let Some(spec) = updated.spec.as_mut() {
            spec.min_ready_seconds = min_ready;
        }
        if updated != **new {
            // The version must not go stale between this write and a resize that follows.
            self.new = Some(Arc::new(updated.clone()));
            self.ops.push(Op::Update(Object::from(updated)));
        }
        self.set_revision(mine.max(last + i64::from(mine <= last)));
    }

    fn set_revision(&mut self, revision_now: i64) {
        if revision(&self.deployment.metadata) == revision_now {
            return;
        }
        // By way of the status, which leaves the generation alone: nobody asked for anything new.
        let body = serde_json::json!({"metadata": {"annotations": {REVISION: revision_now.to_string()}}});
        let (key, style) = (Key::of(&self.deployment.metadata), crate::op::Style::Merge);
        self.ops.push(Op::Patch { kind: Kind::Deployment, key, subresource: "status", style, body });
    }

    fn resize(&mut self, set: &Arc<ReplicaSet>, size: i32) {
        let mut updated = (**set).clone();
        self.size_annotations(updated.metadata.annotations.get_or_insert_default());
        let before = wanted(set);
        if let Some(spec) = updated.spec.as_mut() {
            spec.replicas = Some(size);
        }
        if updated == **set {
            return;
        }
        let mut sizes = BTreeMap::new();
        self.size_annotations(&mut sizes);
        let mut body = serde_json::json!({"metadata": {"uid": set.metadata.uid, "annotations": sizes}});
        if size != before {
            body["spec"] = serde_json::json!({"replicas": size});
        }
        let key = Key::of(&set.metadata);
        let name = key.name.to_string();
        self.ops.push(Op::Patch { kind: Kind::ReplicaSet, key, subresource: "", style: crate::op::Style::Merge, body });
        if size != before {
            self.tell_scaled(if size > before { "up" } else { "down" }, &name, before, size);
        }
    }

    fn tell_scaled(&mut self, direction: &str, name: &str, from: i32, to: i32) {
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, "ScalingReplicaSet", message)));
    }

    fn complete(&self) -> bool {
        let Some(status) = &self.deployment.status else { return false };
        let replicas = self.replicas();
        status.updated_replicas.unwrap_or(0) == replicas
            && status.replicas.unwrap_or(0) == replicas
            && status.available_replicas.unwrap_or(0) == replicas
            && status.observed_generation >= self.deployment.metadata.generation
    }

    fn clean_up(&mut self) {
        let limit = self.deployment.spec.as_ref().and_then(|s| s.revision_history_limit).unwrap_or(10);
        let idle = |s: &&Arc<ReplicaSet>| {
            let status = s.status.as_ref();
            wanted(s) == 0
                && status.is_some_and(|st| st.replicas == 0)
                && status.and_then(|st| st.observed_generation) >= s.metadata.generation
        };
        let mut cleanable: Vec<Arc<ReplicaSet>> = self.old.iter().filter(idle).cloned().collect();
        cleanable.sort_by_key(|s| (revision(&s.metadata), created(&s.metadata)));
        let extra = self.old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        for set in cleanable.into_iter().take(extra) {
            self.ops.push(Op::delete(&Object::ReplicaSet(set)));
        }
    }

    fn finish(mut self) -> Step {
        let (status, again) = self.status();
        if self.deployment.status.as_ref() != Some(&status) {
            let mut updated = (**self.deployment).clone();
            updated.status = Some(status);
            let body = serde_json::json!({"status": updated.status});
            let key = Key::of(&self.deployment.metadata);
            let replaced =
                self.ops.iter().any(|op| matches!(op, Op::Patch { kind: Kind::Deployment, .. } | Op::UpdateStatus(_)));
            // The object may just have been written above, so its version is not known here.
            self.ops.push(if replaced {
                Op::Patch { kind: Kind::Deployment, key, subresource: "status", style: crate::op::Style::Merge, body }
            } else {
                Op::UpdateStatus(Object::from(updated))
            });
        }
        Step::ops(self.ops).again(again)
    }

    fn status(&self) -> (DeploymentStatus, Option<Duration>) {
        let all = self.all();
        let sum = |f: &dyn Fn(&ReplicaSet) -> i32| all.iter().map(|s| f(s)).sum::<i32>();
        let ready = sum(&|s| s.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0));
        let available_now = sum(&|s| available(s));
        let replicas = sum(&|s| s.status.as_ref().map_or(0, |s| s.replicas));
        let terminating = sum(&|s| s.status.as_ref().and_then(|s| s.terminating_replicas).unwrap_or(0));
        let updated = self.new.as_ref().and_then(|n| n.status.as_ref()).map_or(0, |s| s.replicas);
        let unavailable = (total(&all) - available_now).max(0);
        let some = |n: i32| (n > 0).then_some(n);
        let before = self.deployment.status.clone().unwrap_or_default();
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: some(replicas),
            updated_replicas: some(updated),
            ready_replicas: some(ready),
            available_replicas: some(available_now),
            unavailable_replicas: some(unavailable),
            terminating_replicas: Some(terminating),
            collision_count: before.collision_count,
            conditions: before.conditions.clone(),
        };
        let enough = available_now >= self.replicas() - Bounds::of(self.deployment).unavailable;
        let (reason, message) = if enough {
            ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        self.set_condition(
            &mut status,
            "Available",
            if enough { "True" } else { "False" },
            reason,
            message.into(),
            false,
        );
        let again = self.progress(&before, &mut status);
        (status, again)
    }

    /// Whether the rollout moves, is done, or hangs; answers when to look again for the deadline.
    fn progress(&self, before: &DeploymentStatus, status: &mut DeploymentStatus) -> Option<Duration> {
        let deadline = self.deployment.spec.as_ref().and_then(|s| s.progress_deadline_seconds).unwrap_or(600);
        if deadline == i32::MAX || self.deployment.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let current = before.conditions.iter().flatten().find(|c| c.type_ == "Progressing");
        let reason = current.and_then(|c| c.reason.as_deref());
        if self.deployment.spec.as_ref().is_some_and(|s| s.paused == Some(true)) {
            if reason != Some("ProgressDeadlineExceeded") {
                self.set_condition(
                    status,
                    "Progressing",
                    "Unknown",
                    "DeploymentPaused",
                    "Deployment is paused".into(),
                    false,
                );
            }
            return None;
        }
        if reason == Some("DeploymentPaused") {
            // The pause must not count as time without progress.
            self.set_condition(
                status,
                "Progressing",
                "Unknown",
                "DeploymentResumed",
                "Deployment is resumed".into(),
                false,
            );
            return None;
        }
        let Some(new) = &self.new else {
            let created = self.ops.iter().find_map(|op| match op {
                Op::Create(Object::ReplicaSet(set)) => set.metadata.name.clone(),
                _ => None,
            });
            if let Some(set) = created {
                self.set_condition(
                    status,
                    "Progressing",
                    "True",
                    "NewReplicaSetCreated",
                    format!("Created new replica set \"{set}\""),
                    true,
                );
            }
            return None;
        };
        let set = crate::key::name(&new.metadata);
        let replicas = self.replicas();
        let n = |v: Option<i32>| v.unwrap_or(0);
        let done = n(status.updated_replicas) == replicas
            && n(status.replicas) == replicas
            && n(status.available_replicas) == replicas;
        if done {
            let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
            self.set_condition(status, "Progressing", "True", "NewReplicaSetAvailable", message, false);
            return None;
        }
        let finished = current.is_some_and(|c| c.reason.as_deref() == Some("NewReplicaSetAvailable"));
        let old = |s: &DeploymentStatus| n(s.replicas) - n(s.updated_replicas);
        let moved = n(status.updated_replicas) > n(before.updated_replicas)
            || old(status) < old(before)
            || n(status.ready_replicas) > n(before.ready_replicas)
            || n(status.available_replicas) > n(before.available_replicas);
        let first = current.is_none();
        if finished && n(before.updated_replicas) == n(status.updated_replicas) && !moved && !self.rolling() {
            return None; // Pods come and go without a rollout.
        }
        if moved || first || finished {
            let message = format!("ReplicaSet \"{set}\" is progressing.");
            self.set_condition(status, "Progressing", "True", "ReplicaSetUpdated", message, true);
        }
        let since = status
            .conditions
            .iter()
            .flatten()
            .find(|c| c.type_ == "Progressing")
            .and_then(|c| c.last_update_time.as_ref())
            .map_or(self.now, |t| t.0);
        let ends = later(since, Duration::from_secs(u64::try_from(deadline).unwrap_or(0)));
        if ends > self.now {
            return Some(until(self.now, ends));
        }
        let message = format!("ReplicaSet \"{set}\" has timed out progressing.");
        self.set_condition(status, "Progressing", "False", "ProgressDeadlineExceeded", message, false);
        None
    }

    fn rolling(&self) -> bool {
        self.old.iter().any(|s| wanted(s) > 0)
    }

    fn set_condition(
        &self,
        status: &mut DeploymentStatus,
        kind: &str,
        text: &str,
        reason: &str,
        message: String,
        touch: bool,
    ) {
        let conditions = status.conditions.get_or_insert_default();
        let before = conditions.iter().find(|c| c.type_ == kind).cloned();
        let same = before.as_ref().is_some_and(|c| c.status == text && c.reason.as_deref() == Some(reason));
        if same
            && !(touch
                && before.as_ref().is_some_and(|c| {
                    c.message.as_deref() != Some(&message) || c.last_update_time != Some(wire(self.now))
                }))
        {
            return;
        }
        let transition = before.as_ref().filter(|c| c.status == text).and_then(|c| c.last_transition_time.clone());
        let condition = DeploymentCondition {
            type_: kind.into(),
            status: text.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_update_time: Some(wire(self.now)),
            last_transition_time: Some(transition.unwrap_or_else(|| wire(self.now))),
        };
        match conditions.iter_mut().find(|c| c.type_ == kind) {
            Some(slot) => *slot = condition,
            None => conditions.push(condition),
        }
    }
}
