//! NodeOverlay `karpenter.sh/v1alpha1`.

use std::cmp::Ordering;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::ResourceList;
use crate::object::kubernetes_object;
use crate::requirement::NodeSelectorRequirement;

kubernetes_object! {
    /// Changes the price or adds capacity of the instance types it matches, in simulation only.
    NodeOverlay, "karpenter.sh", "v1alpha1", "nodeoverlays", ClusterResourceScope,
    spec: NodeOverlaySpec, status: NodeOverlayStatus
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// `min_values` is never set here: the schema has no such field.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Shifts the price: `+5`, `-0.5`, `-10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Replaces the price: `1.25`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

impl NodeOverlay {
    /// Who comes first: the higher weight, then the name later in the alphabet.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let key = |overlay: &'_ Self| (overlay.spec.weight.unwrap_or(0), overlay.metadata.name.clone());
        key(other).cmp(&key(self))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOverlayStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavier_overlays_come_first_then_later_names() {
        // covers: API-NO-06
        let overlay = |name: &str, weight: Option<i32>| {
            let mut overlay = NodeOverlay::default();
            overlay.metadata.name = Some(name.to_owned());
            overlay.spec.weight = weight;
            overlay
        };
        let mut overlays = [
            overlay("a", None),
            overlay("b", Some(5)),
            overlay("c", Some(5)),
            overlay("z", None),
            overlay("d", Some(9)),
        ];
        overlays.sort_by(NodeOverlay::precedence);
        let names: Vec<_> = overlays.iter().map(|overlay| overlay.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["d", "c", "b", "z", "a"]);
    }
}
