//! What the server takes and warns of.

use serde_json::Value;

pub fn of(group: &str, kind: &str, _object: &Value) -> Vec<String> {
    match (group, kind) {
        ("", "Endpoints") => {
            vec!["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()]
        }
        ("", "ComponentStatus") => vec!["v1 ComponentStatus is deprecated in v1.19+".to_owned()],
        _ => Vec::new(),
    }
}
