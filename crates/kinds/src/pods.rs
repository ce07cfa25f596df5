//! Facts about pods that several parts of the server need: quality of service, resources, affinity shorthands.

use serde_json::{Value, json};

use crate::quantity::Quantity;

/// Guaranteed, Burstable or BestEffort, from cpu and memory of all containers.
pub fn qos_class(spec: &Value) -> &'static str {
    if let Some(resources) = spec.get("resources").filter(|r| !r["requests"].is_null() || !r["limits"].is_null()) {
        let (requests, limits) = (compute(&resources["requests"]), compute(&resources["limits"]));
        return class(&[(requests, limits)]);
    }
    let mut all = Vec::new();
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            all.push((compute(&resources["requests"]), compute(&resources["limits"])));
        }
    }
    class(&all)
}

type Compute = [Option<i128>; 2];

fn compute(list: &Value) -> Compute {
    ["cpu", "memory"].map(|name| {
        let quantity = list[name].as_str().and_then(|text| Quantity::parse(text).ok())?;
        (quantity.nanos > 0).then_some(quantity.nanos)
    })
}

fn class(all: &[(Compute, Compute)]) -> &'static str {
    let empty = |compute: &Compute| compute.iter().all(Option::is_none);
    if all.iter().all(|(requests, limits)| empty(requests) && empty(limits)) {
        return "BestEffort";
    }
    let guaranteed = |(requests, limits): &(Compute, Compute)| {
        limits.iter().all(Option::is_some) && requests.iter().zip(limits).all(|(r, l)| r.is_none() || r == l)
    };
    if all.iter().all(guaranteed) { "Guaranteed" } else { "Burstable" }
}

/// Copies the resources (and resize policy) of `wanted`'s containers into `spec`'s containers of the same name.
pub fn take_resources(spec: &mut Value, wanted: &Value) {
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers {
            let source = wanted[list].as_array().into_iter().flatten().find(|other| other["name"] == container["name"]);
            let Some(source) = source else { continue };
            for key in ["resources", "resizePolicy"] {
                if let Some(value) = source.get(key) {
                    container[key] = value.clone();
                }
            }
        }
    }
    if let Some(resources) = wanted.get("resources") {
        spec["resources"] = resources.clone();
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` of affinity terms and spread constraints become selector requirements over
/// the pod's own labels, as the server does when it creates a pod.
pub fn fold_match_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    for group in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = pod.pointer_mut(&format!("/spec/affinity/{group}")) else {
            continue;
        };
        for term in affinity["requiredDuringSchedulingIgnoredDuringExecution"].as_array_mut().into_iter().flatten() {
            fold_term(term, &labels);
        }
        for weighted in affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array_mut().into_iter().flatten()
        {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                fold_term(term, &labels);
            }
        }
    }
    for constraint in pod["spec"]["topologySpreadConstraints"].as_array_mut().into_iter().flatten() {
        fold(constraint, &labels, "matchLabelKeys", "In");
    }
}

fn fold_term(term: &mut Value, labels: &Value) {
    fold(term, labels, "matchLabelKeys", "In");
    fold(term, labels, "mismatchLabelKeys", "NotIn");
}

fn fold(term: &mut Value, labels: &Value, field: &str, operator: &str) {
    if term.get("labelSelector").is_none_or(Value::is_null) {
        return;
    }
    let keys = term[field].as_array().cloned().unwrap_or_default();
    for key in keys {
        let Some(value) = key.as_str().and_then(|key| labels.get(key)) else {
            continue;
        };
        let requirement = json!({"key": key, "operator": operator, "values": [value]});
        match term["labelSelector"]["matchExpressions"].as_array_mut() {
            Some(expressions) => expressions.push(requirement),
            None => term["labelSelector"]["matchExpressions"] = json!([requirement]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_of_service() {
        let pod = |resources: Value| json!({"containers": [{"resources": resources}]});
        for (resources, want) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (
                json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}),
                "Guaranteed",
            ),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
            (json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}), "Burstable"),
            (json!({"requests": {"cpu": "0"}}), "BestEffort"),
        ] {
            assert_eq!(qos_class(&pod(resources.clone())), want, "{resources}");
        }
    }

    #[test]
    fn label_keys_become_requirements() {
        let mut pod = json!({"metadata": {"labels": {"a": "x"}}, "spec": {"topologySpreadConstraints":
            [{"matchLabelKeys": ["a", "b"], "labelSelector": {"matchLabels": {"app": "w"}}}]}});
        fold_match_label_keys(&mut pod);
        let expressions = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"];
        assert_eq!(*expressions, json!([{"key": "a", "operator": "In", "values": ["x"]}]));
    }
}
