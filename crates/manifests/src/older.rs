//! Objects of v1beta1, read as the v1 objects that an API server would hand out for them.

use karpenter_api::conversion::{self, KUBELET, MIGRATED, NODE_CLASS_REFERENCE};
use karpenter_api::{Fault, NodePool, apply_v1beta1_defaults, validate_v1beta1};
use serde_json::{Map, Value};

/// The object as v1, if it is one of ours in v1beta1, or what is wrong with it. Claims get the default lifetime: their
/// pool may stand behind them in the input, and plans do not ask.
pub(crate) fn modern(object: &Map<String, Value>) -> Option<Result<Map<String, Value>, Vec<Fault>>> {
    // Most objects are pods, and none of theirs ends so.
    let old = |text: &Value| text.as_str().is_some_and(|text| text.ends_with(conversion::V1BETA1));
    if !object.get("apiVersion").is_some_and(old) {
        return None;
    }
    let mut object = Value::Object(object.clone());
    let (kind, true) = conversion::convertible(&object)? else { return None };
    apply_v1beta1_defaults(kind, &mut object);
    let faults = validate_v1beta1(kind, None, &object);
    if !faults.is_empty() {
        return Some(Err(faults));
    }
    let mut converted = conversion::to_v1(kind, &object, &|_| None);
    if let Some(Value::Object(annotations)) = converted.pointer_mut("/metadata/annotations") {
        // How the object was written once concerns whoever writes it back.
        for key in [NODE_CLASS_REFERENCE, MIGRATED] {
            annotations.shift_remove(key);
        }
    }
    let Value::Object(converted) = converted else { return None };
    Some(Ok(converted))
}

/// Kubelet settings that a pool brings along from v1beta1; they go before those of its node class.
pub(crate) fn own_kubelet(pool: &NodePool) -> Option<&str> {
    let text = pool.metadata.annotations.as_ref()?.get(KUBELET)?;
    // A text that cannot be read counts as none, as in the controller.
    serde_json::from_str::<Map<String, Value>>(text).is_ok().then_some(text)
}

/// The class as a pool with these settings sees it.
pub(crate) fn with_kubelet(class: &Value, kubelet: Option<&str>) -> Value {
    let mut class = class.clone();
    if let Some(Ok(kubelet)) = kubelet.map(serde_json::from_str::<Value>)
        && let Some(Value::Object(spec)) = class.get_mut("spec")
    {
        spec.insert("kubelet".to_owned(), kubelet);
    }
    class
}
