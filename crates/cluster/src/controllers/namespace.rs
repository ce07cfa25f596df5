//! Namespaces: what every new one is given, and their end.

use crate::key::Key;
use crate::op::{Op, Step};
use crate::world::{Kind, Object, World};
use serde_json::json;

pub const ROOT_CA: &str = "kube-root-ca.crt";

pub fn step(world: &World, key: &Key, root_ca: Option<&str>) -> Step {
    let Some(namespace) = world.namespaces.get(key) else { return Step::done() };
    let phase = namespace.status.as_ref().and_then(|s| s.phase.as_deref());
    if namespace.metadata.deletion_timestamp.is_some() {
        let ours = namespace.spec.iter().flat_map(|s| s.finalizers.iter().flatten()).any(|f| f == "kubernetes");
        return if ours {
            Step::ops(vec![Op::PurgeNamespace(Object::Namespace(namespace.clone()))])
        } else {
            Step::done()
        };
    }
    if phase == Some("Terminating") {
        return Step::done();
    }
    let name = &*key.name;
    let mut ops = Vec::new();
    if world.service_accounts.get(&Key::new(name, "default")).is_none() {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}});
        ops.push(Op::Create(Kind::ServiceAccount.decode(&account.to_string()).expect("an account made here is one")));
    }
    if let Some(certificate) = root_ca {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": certificate},
            "metadata": {"name": ROOT_CA, "namespace": name, "annotations": {"kubernetes.io/description":
            "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
             internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."}}});
        let wanted = Kind::ConfigMap.decode(&map.to_string()).expect("a config map made here is one");
        match world.config_maps.get(&Key::new(name, ROOT_CA)) {
            None => ops.push(Op::Create(wanted)),
            Some(have) if have.data.as_ref().and_then(|d| d.get("ca.crt")).map(String::as_str) != Some(certificate) => {
                let body = json!({"data": {"ca.crt": certificate}});
                let key = Key::new(name, ROOT_CA);
                ops.push(Op::Patch {
                    kind: Kind::ConfigMap,
                    key,
                    subresource: "",
                    style: crate::op::Style::Merge,
                    body,
                });
            }
            Some(_) => {}
        }
    }
    Step::ops(ops)
}
