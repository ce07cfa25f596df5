use super::*;

pub(super) fn cases() -> Vec<Case> {
    let mut table = Table::new(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "buffer", "namespace": "default"}, "spec": {},
    }));
    const ID: &str = "API-CB-01";
    let template = json!({"name": "chunk"});
    let scalable = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    let mut admits = |spec: Value| table.admits(ID, "/spec", [spec]);
    admits(json!({"podTemplateRef": template, "replicas": 0}));
    admits(json!({"podTemplateRef": template, "limits": {"cpu": "4"}}));
    admits(json!({"scalableRef": scalable}));
    admits(json!({"scalableRef": {"apiGroup": "", "kind": "X", "name": "y"}, "percentage": 0}));
    admits(json!({"scalableRef": {"kind": "X", "name": "y"}, "replicas": 3}));
    let mut refuses = |field: &'static str, spec: Value| table.refuses(ID, field, "/spec", [spec]);
    refuses("spec", json!({"podTemplateRef": template, "scalableRef": scalable, "replicas": 1}));
    refuses("spec", json!({"podTemplateRef": template}));
    refuses("spec", json!({"podTemplateRef": template, "percentage": 10}));
    refuses("spec.podTemplateRef.name", json!({"podTemplateRef": {"name": ""}, "replicas": 1}));
    refuses("spec.podTemplateRef.name", json!({"podTemplateRef": {}, "replicas": 1}));
    refuses("spec.scalableRef.kind", json!({"scalableRef": {"kind": "", "name": "y"}}));
    refuses("spec.scalableRef.name", json!({"scalableRef": {"kind": "X", "name": ""}}));
    refuses("spec.replicas", json!({"podTemplateRef": template, "replicas": -1}));
    refuses("spec.percentage", json!({"scalableRef": scalable, "percentage": -1}));
    table.cases
}
