//! Services get their addresses and ports, and ingresses their default class.

use karpenter_kinds::fielderror::FieldError;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::state::State;

/// The addresses of 10.96.0.0/16; the first is the API server's, the tenth the cluster's DNS.
const RANGE: [u8; 2] = [10, 96];
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

pub(super) fn allocate(state: &mut State, service: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    let kind = service["spec"]["type"].as_str().unwrap_or_default().to_owned();
    if kind == "ExternalName" {
        if let Some(spec) = service["spec"].as_object_mut() {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                spec.shift_remove(key);
            }
        }
        return Ok(());
    }
    let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let kept = old.and_then(|old| old["spec"].get("clusterIP")).cloned();
    let given = service["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    let address = match (kept, given.as_str()) {
        (Some(kept), "") => kept.as_str().unwrap_or_default().to_owned(),
        (Some(kept), given) if kept == given => given.to_owned(),
        (_, "") => free_address(state),
        (_, "None") => "None".to_owned(),
        (_, given) => {
            if !in_range(given) {
                let detail = "failed to allocate IP ".to_owned()
                    + given
                    + ": the provided network does not match the current range";
                let error = FieldError::invalid("spec.clusterIPs", json!([given]), detail);
                return Err(ApiError::invalid("", "Service", &name, &[error]));
            }
            if taken(state).iter().any(|taken| taken == given) {
                let detail = format!("failed to allocate IP {given}: provided IP is already allocated");
                let error = FieldError::invalid("spec.clusterIPs", json!([given]), detail);
                return Err(ApiError::invalid("", "Service", &name, &[error]));
            }
            given.to_owned()
        }
    };
    service["spec"]["clusterIP"] = json!(address);
    service["spec"]["clusterIPs"] = json!([address]);
    // A headless service without a selector belongs to whoever writes its endpoints, of any family.
    let headless_alone =
        address == "None" && service["spec"]["selector"].as_object().is_none_or(serde_json::Map::is_empty);
    if service["spec"].get("ipFamilyPolicy").is_none() {
        service["spec"]["ipFamilyPolicy"] = json!(if headless_alone { "RequireDualStack" } else { "SingleStack" });
    }
    if service["spec"].get("ipFamilies").is_none() {
        service["spec"]["ipFamilies"] = if headless_alone { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
    }
    let wants_ports =
        kind == "NodePort" || (kind == "LoadBalancer" && service["spec"]["allocateLoadBalancerNodePorts"] != false);
    node_ports(state, service, old, wants_ports)
}

fn services(state: &State) -> Vec<Value> {
    let Some(table) = state.registry.table("", "services") else { return Vec::new() };
    state.store.table(table).range("", None).map(|service| service.value()).collect()
}

fn taken(state: &State) -> Vec<String> {
    services(state).iter().filter_map(|service| service["spec"]["clusterIP"].as_str().map(str::to_owned)).collect()
}

fn in_range(address: &str) -> bool {
    address.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.octets()[..2] == RANGE)
}

/// Drawn from the upper part of the range; the lower is for those who ask by number.
fn free_address(state: &mut State) -> String {
    let taken = taken(state);
    loop {
        let draw = state.ids.next();
        let (third, fourth) = (1 + (draw % 255) as u8, ((draw >> 8) % 256) as u8);
        let address = format!("{}.{}.{third}.{fourth}", RANGE[0], RANGE[1]);
        let broadcast = third == 255 && fourth == 255;
        if !broadcast && !taken.contains(&address) {
            return address;
        }
    }
}

fn node_ports(state: &mut State, service: &mut Value, old: Option<&Value>, wanted: bool) -> Result<(), ApiError> {
    let uid = service["metadata"]["uid"].clone();
    let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut used: Vec<i64> = Vec::new();
    for other in services(state).iter().filter(|other| other["metadata"]["uid"] != uid) {
        used.extend(
            other["spec"]["ports"].as_array().into_iter().flatten().filter_map(|port| port["nodePort"].as_i64()),
        );
    }
    let old_port = |port: &Value| {
        let ports = old.and_then(|old| old["spec"]["ports"].as_array());
        ports
            .into_iter()
            .flatten()
            .find(|old| old["port"] == port["port"] && old["protocol"] == port["protocol"])
            .and_then(|old| old["nodePort"].as_i64())
    };
    let count = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    for index in 0..count {
        let port = &service["spec"]["ports"][index];
        let given = port["nodePort"].as_i64().unwrap_or(0);
        let field = format!("spec.ports[{index}].nodePort");
        if given != 0 && !NODE_PORTS.contains(&given) {
            let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            return Err(ApiError::invalid("", "Service", &name, &[FieldError::invalid(field, given, detail)]));
        }
        if given != 0 && used.contains(&given) {
            let detail = "provided port is already allocated";
            return Err(ApiError::invalid("", "Service", &name, &[FieldError::invalid(field, given, detail)]));
        }
        if !wanted {
            continue;
        }
        if given == 0 {
            let kept = old_port(port);
            let next = kept.unwrap_or_else(|| {
                loop {
                    let port = NODE_PORTS.start() + (state.ids.next() % 2768) as i64;
                    if !used.contains(&port) {
                        break port;
                    }
                }
            });
            service["spec"]["ports"][index]["nodePort"] = json!(next);
            used.push(next);
        }
    }
    Ok(())
}

/// DefaultIngressClass.
pub(super) fn default_ingress_class(state: &State, ingress: &mut Value) {
    let named = ingress["spec"].get("ingressClassName").is_some()
        || ingress["metadata"]["annotations"].get("kubernetes.io/ingress.class").is_some();
    if named {
        return;
    }
    let Some(table) = state.registry.table("networking.k8s.io", "ingressclasses") else { return };
    let is_default =
        |class: &Value| class["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"] == "true";
    let mut classes: Vec<Value> =
        state.store.table(table).range("", None).map(|class| class.value()).filter(is_default).collect();
    classes.sort_by_key(|class| {
        std::cmp::Reverse(class["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned())
    });
    if let Some(class) = classes.first() {
        ingress["spec"]["ingressClassName"] = class["metadata"]["name"].clone();
    }
}
