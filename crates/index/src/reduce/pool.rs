//! NodePools.

use std::sync::Arc;

use karpenter_api::NodePool;
use karpenter_core::{InstanceType, Pool};

use super::{Faults, Refused, expressions, resources, taints, text};
use crate::path::Path;

/// A pool as the solver sees it. Whether it is valid, ready and dynamic is decided elsewhere.
pub fn pool(object: &NodePool, instance_types: Arc<[Arc<InstanceType>]>) -> Result<Pool, Refused> {
    let mut faults = Faults::default();
    let root = Path::Root;
    let spec_path = root.field("spec");
    let template_path = spec_path.field("template");
    let at = template_path.field("spec");
    let template = &object.spec.template;
    let class = &template.spec.node_class_ref;
    let mut requirements = Vec::new();
    let requirements_path = at.field("requirements");
    for (position, wire) in template.spec.requirements.iter().enumerate() {
        requirements.extend(expressions::pool_requirement(wire, &requirements_path.index(position), &mut faults));
    }
    let pool = Pool {
        name: text(object.metadata.name.as_deref()),
        weight: object.spec.weight.unwrap_or(0),
        labels: template.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        node_class_label: (format!("{}/{}", class.group, class.kind.to_lowercase()).into(), class.name.as_str().into()),
        taints: taints::taints(template.spec.taints.as_ref(), &at.field("taints"), &mut faults),
        requirements,
        limits: resources::read(object.spec.limits.as_ref(), &spec_path.field("limits"), &mut faults),
        instance_types,
    };
    faults.finish("NodePool", &object.metadata, pool)
}
