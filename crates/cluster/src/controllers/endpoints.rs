//! EndpointSlices: the addresses behind a service.

use super::replicas::{controller_ref, is_finished, is_ready, is_terminating, node_of};
use crate::key::{Key, uid};
use crate::op::{Op, Step};
use crate::selector::Selector;
use crate::world::{Kind, Object, World};
use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
/// So many endpoints share a slice.
const PER_SLICE: usize = 100;

pub fn step(world: &World, key: &Key) -> Step {
    let Some(service) = world.services.get(key) else { return Step::done() };
    let Some(spec) = service.spec.as_ref().filter(|_| service.metadata.deletion_timestamp.is_none()) else {
        return Step::done();
    };
    let Some(labels) = spec.selector.as_ref().filter(|s| !s.is_empty()) else { return Step::done() };
    if spec.type_.as_deref() == Some("ExternalName") {
        return Step::done();
    }
    let publish = spec.publish_not_ready_addresses == Some(true);
    let pods = world.select_pods(&key.namespace, &Selector::from_labels(labels));
    // Pods may name their ports differently; those with the same ports share slices.
    let mut groups: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();
    for pod in pods.into_iter().filter(|p| !is_finished(p)) {
        let Some(ip) = pod.status.as_ref().and_then(|s| s.pod_ip.as_deref()).filter(|ip| !ip.is_empty()) else {
            continue;
        };
        let ports = ports(spec.ports.as_deref().unwrap_or_default(), pod);
        let group = groups.entry(ports.to_string()).or_insert_with(|| (ports, Vec::new()));
        group.1.push(endpoint(world, pod, ip, publish));
    }
    if groups.is_empty() {
        let ports = ports(spec.ports.as_deref().unwrap_or_default(), &Pod::default());
        groups.insert(String::new(), (ports, Vec::new()));
    }
    let wanted: Vec<(Value, Vec<Value>)> = groups
        .into_values()
        .flat_map(|(ports, endpoints)| {
            let chunks: Vec<Vec<Value>> = endpoints.chunks(PER_SLICE).map(<[Value]>::to_vec).collect();
            let chunks = if chunks.is_empty() { vec![Vec::new()] } else { chunks };
            chunks.into_iter().map(move |c| (ports.clone(), c))
        })
        .collect();
    let owned = world.children(uid(&service.metadata), Kind::EndpointSlice).filter_map(|k| world.slices.get(k));
    let have: Vec<&Arc<EndpointSlice>> = owned.filter(|s| s.metadata.deletion_timestamp.is_none()).collect();
    Step::ops(reconcile(service, &have, wanted))
}

fn reconcile(service: &Arc<Service>, have: &[&Arc<EndpointSlice>], wanted: Vec<(Value, Vec<Value>)>) -> Vec<Op> {
    let mut free: Vec<&Arc<EndpointSlice>> = have.to_vec();
    let mut ops = Vec::new();
    for (ports, endpoints) in wanted {
        // A slice with the same ports is reused, so that its name stays.
        let at = free.iter().position(|s| json!(s.ports) == ports).or(if free.is_empty() { None } else { Some(0) });
        let made = slice(service, at.map(|i| free[i]), &ports, &endpoints);
        match at {
            None => ops.push(Op::Create(made)),
            Some(i) => {
                let before = free.remove(i);
                let same = json!(before.ports) == ports && json!(before.endpoints) == Value::Array(endpoints);
                if !same {
                    ops.push(Op::Update(made));
                }
            }
        }
    }
    ops.extend(free.into_iter().map(|s| Op::delete(&Object::EndpointSlice(s.clone()))));
    ops
}

fn slice(service: &Arc<Service>, before: Option<&Arc<EndpointSlice>>, ports: &Value, endpoints: &[Value]) -> Object {
    let name = crate::key::name(&service.metadata);
    let metadata = match before {
        Some(slice) => json!(slice.metadata),
        None => {
            let mut labels = service.metadata.labels.clone().unwrap_or_default();
            labels.insert("kubernetes.io/service-name".into(), name.into());
            labels.insert("endpointslice.kubernetes.io/managed-by".into(), MANAGED_BY.into());
            let headless = service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()) == Some("None");
            if headless {
                labels.insert("service.kubernetes.io/headless".into(), String::new());
            }
            json!({"generateName": format!("{name}-"), "namespace": service.metadata.namespace, "labels": labels,
                "ownerReferences": [controller_ref(&Object::Service(service.clone()))]})
        }
    };
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports});
    Kind::EndpointSlice.decode(&slice.to_string()).expect("a slice made here is one")
}

fn endpoint(world: &World, pod: &Arc<Pod>, ip: &str, publish: bool) -> Value {
    let (serving, terminating) = (is_ready(pod), is_terminating(pod));
    let ready = publish || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": [ip],
        "conditions": {"ready": ready, "serving": serving || publish, "terminating": terminating},
        "nodeName": node_of(pod),
        "targetRef": {"kind": "Pod", "namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid},
    });
    let node = world.nodes.get(&Key::cluster(node_of(pod)));
    let zone = node.and_then(|n| n.metadata.labels.as_ref()?.get("topology.kubernetes.io/zone").cloned());
    if let Some(zone) = zone {
        endpoint["zone"] = json!(zone);
    }
    let spec = pod.spec.as_ref();
    if let (Some(hostname), Some(_)) = (spec.and_then(|s| s.hostname.as_ref()), spec.and_then(|s| s.subdomain.as_ref()))
    {
        endpoint["hostname"] = json!(hostname);
    }
    endpoint
}

fn ports(ports: &[ServicePort], pod: &Pod) -> Value {
    let one = |port: &ServicePort| {
        let number = match port.target_port.as_ref() {
            None => Some(port.port),
            Some(IntOrString::Int(0)) => Some(port.port),
            Some(IntOrString::Int(n)) => Some(*n),
            Some(IntOrString::String(name)) => named_port(pod, name, port.protocol.as_deref().unwrap_or("TCP")),
        }?;
        let mut out = json!({"name": port.name.clone().unwrap_or_default(), "port": number, "protocol": port.protocol.clone().unwrap_or_else(|| "TCP".into())});
        if let Some(app) = &port.app_protocol {
            out["appProtocol"] = json!(app);
        }
        Some(out)
    };
    Value::Array(ports.iter().filter_map(one).collect())
}

fn named_port(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let containers = pod.spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
    let mut ports = containers.flat_map(|c| c.ports.iter().flatten());
    ports
        .find(|p| p.name.as_deref() == Some(name) && p.protocol.as_deref().unwrap_or("TCP") == protocol)
        .map(|p| p.container_port)
}
