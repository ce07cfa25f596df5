//! Objects in a shape of a later Kubernetes, which the controllers cannot read for a while.

use karpenter_apiserver::ApiServer;
use kube::Client;
use serde_json::{Value, json};

use crate::wire::Garbled;
use crate::world::{World, send};

/// What cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Pod,
    Node,
    NodeClaim,
    NodePool,
}

impl Target {
    fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::NodeClaim => "nodeclaims",
            Self::NodePool => "nodepools",
        }
    }

    fn list(self) -> &'static str {
        match self {
            Self::Pod => "/api/v1/pods",
            Self::Node => "/api/v1/nodes",
            Self::NodeClaim => "/apis/karpenter.sh/v1/nodeclaims",
            Self::NodePool => "/apis/karpenter.sh/v1/nodepools",
        }
    }

    fn counted_as(self) -> &'static str {
        match self {
            Self::Pod => "unreadable_pod",
            Self::Node => "unreadable_node",
            Self::NodeClaim => "unreadable_node_claim",
            Self::NodePool => "unreadable_node_pool",
        }
    }

    /// What a later version may write, each of which our types refuse, or know nothing of.
    fn shapes(self) -> &'static [fn(&mut Value)] {
        match self {
            Self::Pod => &[
                |pod| pod["spec"]["terminationGracePeriodSeconds"] = json!("10s"),
                |pod| pod["spec"]["tolerations"] = json!([{"key": "a", "operator": "Resembles", "value": "b"}]),
                |pod| pod["status"]["phase"] = json!("Hibernating"),
                |pod| {
                    pod["spec"]["topologySpreadConstraints"] = json!([{"topologyKey": "topology.kubernetes.io/zone",
                        "maxSkew": 1, "whenUnsatisfiable": "Negotiate"}]);
                },
            ],
            Self::Node => &[
                |node| node["spec"]["taints"] = json!({"none": true}),
                |node| node["status"]["conditions"] = json!("fine"),
            ],
            Self::NodeClaim => &[
                |claim| claim["spec"]["expireAfter"] = json!(720),
                |claim| claim["spec"]["requirements"] = json!("any"),
            ],
            Self::NodePool => &[
                |pool| pool["spec"]["disruption"]["consolidateAfter"] = json!(30),
                |pool| pool["spec"]["weight"] = json!("heavy"),
            ],
        }
    }

    /// Those of which something is at stake: what runs, and can be read.
    fn is_at_stake(self, object: &Value) -> bool {
        let lives = object["metadata"]["deletionTimestamp"].is_null();
        match self {
            Self::Pod => lives && object["status"]["phase"] == "Running",
            Self::NodeClaim => lives && object["status"]["nodeName"].is_string(),
            Self::Node | Self::NodePool => lives,
        }
    }
}

/// An object that cannot be read now.
#[derive(Clone, Debug)]
pub(crate) struct Odd {
    target: Target,
    namespace: String,
    name: String,
}

/// Some object cannot be read from now on; nothing if there is none.
pub(crate) async fn begin(world: &World, target: Target, pick: &dyn Fn(usize, &str) -> usize) -> Option<Odd> {
    let observer = observer(&world.server);
    let mut list = send(&observer, "GET", target.list(), "application/json", &Value::Null).await.ok()?;
    let objects = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let text = |object: &Value, key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let odd = |object: &Value| Odd { target, namespace: text(object, "namespace"), name: text(object, "name") };
    let at_stake = objects.iter().filter(|object| target.is_at_stake(object)).map(odd);
    let at_stake: Vec<Odd> = at_stake.filter(|odd| !odd.is_garbled(world)).collect();
    let chosen = at_stake.get(pick(at_stake.len(), "object"))?.clone();
    let shapes = target.shapes();
    let (namespace, name) = (chosen.namespace.clone(), chosen.name.clone());
    let shape = shapes[pick(shapes.len(), "shape")];
    world.wire.garble(Garbled { resource: target.resource(), namespace, name, shape });
    world.wire.count(target.counted_as());
    chosen.touch(&observer).await;
    Some(chosen)
}

impl Odd {
    fn is_garbled(&self, world: &World) -> bool {
        world.wire.is_garbled(self.target.resource(), &self.namespace, &self.name)
    }

    /// It can be read again.
    pub(crate) async fn end(&self, world: &World) {
        world.wire.clear(self.target.resource(), &self.namespace, &self.name);
        self.touch(&observer(&world.server)).await;
    }

    /// Changes something about it, so that watches tell of it.
    async fn touch(&self, observer: &Client) {
        let path = match self.namespace.as_str() {
            "" => format!("{}/{}", self.target.list(), self.name),
            namespace => format!("/api/v1/namespaces/{namespace}/{}/{}", self.target.resource(), self.name),
        };
        let Ok(object) = send(observer, "GET", &path, "application/json", &Value::Null).await else { return };
        let body = json!({"metadata": {"annotations": {"touched": object["metadata"]["resourceVersion"]}}});
        // It may go at the same time.
        drop(send(observer, "PATCH", &path, "application/merge-patch+json", &body).await);
    }
}

fn observer(server: &ApiServer) -> Client {
    Client::new(server.observer(), "default")
}

#[cfg(test)]
mod tests {
    use karpenter_index::{Kind, Object};

    use super::*;

    #[test]
    fn every_shape_is_one_that_cannot_be_read_in_whole() {
        for (target, kind) in [
            (Target::Pod, Kind::Pod),
            (Target::Node, Kind::Node),
            (Target::NodeClaim, Kind::NodeClaim),
            (Target::NodePool, Kind::NodePool),
        ] {
            for (number, shape) in target.shapes().iter().enumerate() {
                let mut object = json!({"metadata": {"name": "x", "namespace": "", "uid": "u", "resourceVersion": "2"},
                    "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}},
                        "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
                        "containers": [], "disruption": {}}, "status": {}});
                assert!(Object::read(kind, &object.to_string()).is_ok(), "{target:?}");
                shape(&mut object);
                let refused = Object::read(kind, &object.to_string()).is_err();
                // Values that Kubernetes' own enumerations do not have are read, and taken for the strictest.
                assert!(refused || target == Target::Pod, "{target:?} {number}: {object}");
            }
        }
    }
}
