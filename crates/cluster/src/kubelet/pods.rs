//! What a kubelet does for its pods.

use super::behaviour;
use super::containers::{Container, Restart, State};
use super::fleet::{Fleet, Host};
use super::{Events, Settings, status};
use crate::clock::{later, until};
use crate::key::{Key, uid};
use crate::op::{Event, Op, Source, Step};
use crate::resources::Resources;
use crate::scheduler::PodInfo;
use crate::scheduler::storage::{fully_bound, volume_name};
use crate::world::{Object, World};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Pod};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A pod on a machine.
#[derive(Clone, Debug)]
pub struct Run {
    pub uid: String,
    pub node: String,
    pub ip: String,
    pub started: Timestamp,
    /// It ran before this kubelet did: containers outlive the process that started them.
    found_running: bool,
    /// Init containers that end before the others start, sidecars and main containers, each by its index in the spec.
    pub init: Vec<Container>,
    pub main: Vec<Container>,
    /// Set once volumes are there and images are being pulled.
    pub starting: bool,
    pub(super) requests: Resources,
    /// When the containers, asked to stop, will have stopped.
    stops_at: Option<Timestamp>,
    told_started: bool,
}

impl Fleet {
    /// What the kubelet does for a pod now.
    pub fn step_pod(&mut self, key: &Key, world: &World, now: Timestamp) -> Step {
        let Some(pod) = world.pods.get(key) else {
            self.end(key);
            return Step::done();
        };
        if self.runs.get(key).is_some_and(|r| r.uid != uid(&pod.metadata)) {
            self.end(key);
        }
        let Some(name) = pod.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|n| !n.is_empty()) else {
            return Step::done();
        };
        let settings = self.settings.clone();
        let reachable = self.host(&name).is_some_and(|h| h.registered.is_some() && !h.silent);
        if !reachable {
            return Step::done();
        }
        if phase(pod).is_some_and(|p| p == "Succeeded" || p == "Failed") {
            self.end(key);
            let leaving = pod.metadata.deletion_timestamp.is_some();
            return if leaving { Step::ops(vec![last_delete(pod)]) } else { Step::done() };
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return self.stop(key, pod, &settings, now);
        }
        if !self.runs.contains_key(key) && self.admit(key, pod, &name, world, now).is_some() {
            self.clean_up(&name, world);
            if let Some(refusal) = self.admit(key, pod, &name, world, now) {
                return refusal;
            }
        }
        self.drive(key, pod, &name, &settings, world, now)
    }

    /// Takes a pod in, or refuses it for good: the scheduler may have raced with others.
    fn admit(&mut self, key: &Key, pod: &Arc<Pod>, node: &str, world: &World, now: Timestamp) -> Option<Step> {
        let info = PodInfo::new(pod.clone());
        let machine = &self.host(node)?.machine;
        let known = world.nodes.get(&Key::cluster(node));
        let labels = known.and_then(|n| n.metadata.labels.as_ref()).unwrap_or(&machine.labels);
        let allocatable = Resources::from_list(
            known.and_then(|n| n.status.as_ref()?.allocatable.as_ref()).unwrap_or(&machine.allocatable),
        );
        let taken = self.taken(node);
        let used = &taken.requests;
        let want = &info.requests;
        let mut short = None;
        if taken.pods + 1 > allocatable.pods {
            short = Some(("pods", 1, taken.pods, allocatable.pods));
        }
        let plain = [
            ("cpu", want.milli_cpu, used.milli_cpu, allocatable.milli_cpu),
            ("memory", want.memory, used.memory, allocatable.memory),
            ("ephemeral-storage", want.ephemeral_storage, used.ephemeral_storage, allocatable.ephemeral_storage),
        ];
        let scalars = want.scalars.iter().map(|(n, w)| (n.as_str(), *w, used.scalar(n), allocatable.scalar(n)));
        short = short.or_else(|| plain.into_iter().chain(scalars).find(|(_, w, u, h)| *w > 0 && w + u > *h));
        if let Some((name, want, used, have)) = short {
            let reason = format!("OutOf{name}");
            let message =
                format!("Node didn't have enough resource: {name}, requested: {want}, used: {used}, capacity: {have}");
            return Some(refuse(pod, node, reason, message, now));
        }
        if !info.demand.matches(node, labels) {
            let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned();
            return Some(refuse(pod, node, "NodeAffinity".into(), message, now));
        }
        let host_network = pod.spec.as_ref().is_some_and(|s| s.host_network == Some(true));
        let running = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Running"));
        let began = running.and_then(|status| status.start_time.as_ref()).map(|time| time.0);
        let address = running.and_then(|status| status.pod_ip.clone());
        let here = self.runs.values().filter(|run| run.node == node);
        let used: BTreeSet<String> = here.map(|run| run.ip.clone()).collect();
        let host = self.host_mut(node)?;
        let ip = match address {
            _ if host_network => host.machine.internal_ip.clone(),
            Some(address) => address,
            None => std::iter::repeat_with(|| next_address(host)).find(|address| !used.contains(address))?,
        };
        let run = Run {
            uid: info.uid.clone(),
            node: node.to_owned(),
            ip,
            started: began.unwrap_or(now),
            found_running: began.is_some(),
            init: Vec::new(),
            main: Vec::new(),
            starting: false,
            requests: info.requests.clone(),
            stops_at: None,
            told_started: began.is_some(),
        };
        self.begin(key.clone(), run);
        None
    }

    fn drive(
        &mut self,
        key: &Key,
        pod: &Arc<Pod>,
        node: &str,
        settings: &Settings,
        world: &World,
        now: Timestamp,
    ) -> Step {
        let mut events = Vec::new();
        if !self.runs[key].starting && volumes_ready(pod, node, world) {
            let pull = self.pull(pod, node, settings, &mut events);
            let run = self.runs.get_mut(key).expect("admitted above");
            if run.found_running {
                events.clear();
                let began = run.started;
                plan(run, pod, settings, began, Duration::ZERO);
            } else {
                plan(run, pod, settings, now, pull);
            }
        }
        let run = self.runs.get_mut(key).expect("admitted above");
        run.advance(now);
        if !run.told_started && run.starting && run.main.iter().any(Container::has_started) {
            run.told_started = true;
            events.extend(started_events(pod, node));
        }
        let deadline = pod
            .spec
            .as_ref()
            .and_then(|s| s.active_deadline_seconds)
            .map(|s| later(run.started, Duration::from_secs(s.unsigned_abs())));
        let run = run.clone();
        if deadline.is_some_and(|d| d <= now) {
            let message = "Pod was active on the node longer than the specified deadline";
            return Step::ops(vec![status::failed(pod, &run, "DeadlineExceeded", message, now)]);
        }
        let mut step = Step::done();
        let host_ip = self.host(node).map(|h| h.machine.internal_ip.clone()).unwrap_or_default();
        step.ops.extend(status::patch(pod, &run, &host_ip, now));
        if settings.events == Events::All {
            step.ops.extend(events);
        }
        let next = run.next_event(now).into_iter().chain(deadline).min();
        step.again(next.map(|at| until(now, at)))
    }

    /// The time it takes to have all images; they stay on the machine.
    fn pull(&mut self, pod: &Arc<Pod>, node: &str, settings: &Settings, events: &mut Vec<Op>) -> Duration {
        let Some(spec) = &pod.spec else { return Duration::ZERO };
        let Some(host) = self.host_mut(node) else { return Duration::ZERO };
        let mut total = Duration::ZERO;
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let image = container.image.clone().unwrap_or_default();
            let tell =
                |reason: &'static str, message: String| Op::Event(kubelet_event(pod, node, reason, message, false));
            if !host.images.insert(image.clone()) {
                events.push(tell("Pulled", format!("Container image \"{image}\" already present on machine")));
                continue;
            }
            let took = settings.image_pull.draw(settings.seed, &["pull", node, &image]);
            total += took;
            events.push(tell("Pulling", format!("Pulling image \"{image}\"")));
            let seconds = took.as_secs_f64();
            events.push(tell(
                "Pulled",
                format!("Successfully pulled image \"{image}\" in {seconds:.3}s ({seconds:.3}s including waiting)"),
            ));
        }
        total
    }

    /// Stops the containers, tells how they ended, and lets the pod go.
    fn stop(&mut self, key: &Key, pod: &Arc<Pod>, settings: &Settings, now: Timestamp) -> Step {
        let Some(run) = self.runs.get_mut(key).filter(|r| r.starting) else {
            self.end(key);
            return Step::ops(vec![last_delete(pod)]);
        };
        run.advance(now);
        let mut step = Step::done();
        let stops_at = match run.stops_at {
            Some(at) => at,
            None => {
                let ends = pod.metadata.deletion_timestamp.as_ref().map_or(now, |t| t.0);
                let words = ["stop", &*key.namespace, &*key.name];
                let at = later(now, pre_stop(pod) + settings.stop.draw(settings.seed, &words)).min(ends.max(now));
                run.stops_at = Some(at);
                if settings.events == Events::All {
                    for container in pod.spec.iter().flat_map(|s| &s.containers) {
                        let message = format!("Stopping container {}", container.name);
                        step.ops.push(Op::Event(kubelet_event(pod, &run.node, "Killing", message, false)));
                    }
                }
                at
            }
        };
        if stops_at > now {
            return step.again(Some(until(now, stops_at)));
        }
        run.init.iter_mut().chain(&mut run.main).for_each(|c| c.stop(now, 143));
        let run = run.clone();
        let host_ip = self.host(&run.node).map(|h| h.machine.internal_ip.clone()).unwrap_or_default();
        step.ops.extend(status::patch(pod, &run, &host_ip, now));
        step.ops.push(last_delete(pod));
        step
    }
}

impl Run {
    fn advance(&mut self, now: Timestamp) {
        self.init.iter_mut().chain(&mut self.main).for_each(|c| c.advance(now));
        // Sidecars end with the containers they serve.
        if self.starting && !self.main.is_empty() && self.main.iter().all(Container::is_done) {
            self.init.iter_mut().for_each(|c| c.stop(now, 0));
        }
    }

    fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        self.init.iter().chain(&self.main).filter_map(|c| c.next_event(now)).filter(|at| *at > now).min()
    }
}

/// Sets the times at which everything starts, once images and volumes are known to come.
fn plan(run: &mut Run, pod: &Pod, settings: &Settings, now: Timestamp, pull: Duration) {
    let Some(spec) = &pod.spec else { return };
    let words = ["start", crate::key::namespace(&pod.metadata), crate::key::name(&pod.metadata)];
    let mut at = later(now, pull + settings.start.draw(settings.seed, &words));
    let policy = Restart::policy(spec.restart_policy.as_deref());
    for container in spec.init_containers.iter().flatten() {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let end = (!sidecar).then(|| behaviour::of_init(pod, container, settings));
        run.init.push(Container {
            state: State::Waiting { until: at, crashed: false },
            restarts: 0,
            last: None,
            end,
            restart: if sidecar {
                Restart::Always
            } else if policy == Restart::Never {
                Restart::Never
            } else {
                Restart::OnFailure
            },
            ready_after: readiness(container),
        });
        if let Some(end) = end {
            at = later(at, end.after);
        }
    }
    for container in &spec.containers {
        run.main.push(Container {
            state: State::Waiting { until: at, crashed: false },
            restarts: 0,
            last: None,
            end: behaviour::of_main(pod, container, settings),
            restart: policy,
            ready_after: readiness(container),
        });
    }
    run.starting = true;
}

fn readiness(container: &v1::Container) -> Duration {
    let probe = container.readiness_probe.as_ref().or(container.startup_probe.as_ref());
    let seconds = probe.map_or(0, |p| p.initial_delay_seconds.unwrap_or(0).max(0));
    Duration::from_secs(u64::from(seconds.unsigned_abs()))
}

/// A `preStop` that sleeps delays the end of its container.
fn pre_stop(pod: &Pod) -> Duration {
    let sleeps = pod.spec.iter().flat_map(|s| &s.containers).filter_map(|c| {
        let hook = c.lifecycle.as_ref()?.pre_stop.as_ref()?;
        if let Some(sleep) = &hook.sleep {
            return u64::try_from(sleep.seconds).ok();
        }
        let command = hook.exec.as_ref()?.command.as_ref()?.join(" ");
        command.split_once("sleep ")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    Duration::from_secs(sleeps.max().unwrap_or(0))
}

fn next_address(host: &mut Host) -> String {
    host.addresses = host.addresses.wrapping_add(1);
    let net = crate::chance::draw(1, &[&host.machine.name]);
    let n = host.addresses;
    format!("10.{}.{}.{}", 128 + (net & 127), (((net >> 7) & 255) + u64::from(n / 254)) & 255, 1 + n % 254)
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn last_delete(pod: &Arc<Pod>) -> Op {
    let Op::Delete { kind, key, uid, propagation, .. } = Op::delete(&Object::Pod(pod.clone())) else {
        unreachable!("a delete is a delete")
    };
    Op::Delete { kind, key, uid, grace_seconds: Some(0), propagation }
}

fn kubelet_event(pod: &Arc<Pod>, node: &str, reason: &'static str, message: String, warning: bool) -> Event {
    let source = Source::Kubelet { node: node.to_owned() };
    Event { warning, ..Event::normal(&Object::Pod(pod.clone()), source, reason, message) }
}

fn started_events(pod: &Arc<Pod>, node: &str) -> Vec<Op> {
    let containers = pod.spec.iter().flat_map(|s| &s.containers);
    containers
        .flat_map(|_| [("Created", "Container created"), ("Started", "Container started")])
        .map(|(reason, text)| Op::Event(kubelet_event(pod, node, reason, text.to_owned(), false)))
        .collect()
}

fn refuse(pod: &Arc<Pod>, node: &str, reason: String, message: String, now: Timestamp) -> Step {
    Step::ops(vec![
        status::rejected(pod, &reason, &format!("Pod was rejected: {message}"), now),
        Op::Event(kubelet_event(pod, node, "FailedAdmission", message, true)),
    ])
}

/// Claims must be bound, and attached to the node where somebody attaches them.
fn volumes_ready(pod: &Arc<Pod>, node: &str, world: &World) -> bool {
    let mut volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    if !volumes.any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some()) {
        return true;
    }
    let info_claims = PodInfo::new(pod.clone()).claims;
    let key = Key::of(&pod.metadata);
    info_claims.iter().all(|claim| {
        let Some(found) = world.claims.get(&key.sibling(&claim.name)).filter(|c| fully_bound(c)) else { return false };
        let volume = volume_name(found);
        let driver =
            world.volumes.get(&Key::cluster(volume)).and_then(|v| Some(v.spec.as_ref()?.csi.as_ref()?.driver.clone()));
        let Some(driver) = driver else { return true };
        if !crate::controllers::attach::needs_attachment(world, &driver) {
            return true;
        }
        world.attachments.values().any(|a| {
            a.spec.node_name == node
                && a.spec.source.persistent_volume_name.as_deref() == Some(volume)
                && a.status.as_ref().is_some_and(|s| s.attached)
        })
    })
}
