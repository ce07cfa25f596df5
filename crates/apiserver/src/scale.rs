//! The scale subresource: replicas of anything that has them, as one small kind.

use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::selector::Selector;
use serde_json::{Value, json};

use crate::convert;
use crate::error::ApiError;
use crate::registry::Served;
use crate::store::Object;

/// The Scale of an object.
pub(crate) fn read(served: &Served, object: &Object) -> Result<Value, ApiError> {
    let value = convert::from_stored(served, object.value());
    let metadata = &value["metadata"];
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": metadata["name"],
        "namespace": metadata["namespace"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        "creationTimestamp": metadata["creationTimestamp"]}, "spec": {}, "status": {"replicas": 0}});
    if metadata["namespace"].is_null()
        && let Some(metadata) = scale["metadata"].as_object_mut()
    {
        metadata.shift_remove("namespace");
    }
    match served.custom() {
        None => {
            set_replicas(&mut scale, &value["spec"]["replicas"]);
            scale["status"]["replicas"] = json!(value["status"]["replicas"].as_i64().unwrap_or(0));
            let selector = &value["spec"]["selector"];
            let query = match (&*served.kind, selector.is_null()) {
                (_, true) => String::new(),
                ("ReplicationController", false) => Selector::from_map(selector).to_query(),
                (_, false) => Selector::from_struct(Some(selector)).to_query(),
            };
            if !query.is_empty() {
                scale["status"]["selector"] = Value::from(query);
            }
        }
        Some(custom) => {
            let Some(paths) = &custom.scale else {
                return Err(ApiError::no_such_path());
            };
            let at = |path: &str| value.pointer(&pointer(path)).cloned().unwrap_or(Value::Null);
            let replicas = at(&paths.spec_replicas);
            if replicas.is_null() {
                let message = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
                return Err(ApiError::internal(message));
            }
            set_replicas(&mut scale, &replicas);
            scale["status"]["replicas"] = json!(at(&paths.status_replicas).as_i64().unwrap_or(0));
            if let Some(path) = &paths.label_selector
                && let Some(text) = at(path).as_str()
            {
                scale["status"]["selector"] = Value::from(text);
            }
        }
    }
    Ok(scale)
}

/// Zero replicas are not written.
fn set_replicas(scale: &mut Value, replicas: &Value) {
    if replicas.as_i64().unwrap_or(0) != 0 {
        scale["spec"]["replicas"] = replicas.clone();
    }
}

/// The object with the replicas of a new Scale.
pub(crate) fn write(served: &Served, object: &Object, scale: &Value) -> Result<Value, ApiError> {
    let mut value = convert::from_stored(served, object.value());
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid("autoscaling", "Scale", object.name(), &[error]));
    }
    let path = match served.custom() {
        None => "/spec/replicas".to_owned(),
        Some(custom) => match &custom.scale {
            Some(paths) => pointer(&paths.spec_replicas),
            None => return Err(ApiError::no_such_path()),
        },
    };
    set_pointer(&mut value, &path, Value::from(replicas));
    for key in ["resourceVersion", "uid"] {
        let given = scale["metadata"][key].as_str().unwrap_or_default();
        if !given.is_empty() {
            value["metadata"][key] = Value::from(given);
        }
    }
    if scale["metadata"]["resourceVersion"].as_str().unwrap_or_default().is_empty()
        && let Some(metadata) = value["metadata"].as_object_mut()
    {
        metadata.shift_remove("resourceVersion");
    }
    Ok(value)
}

/// `.spec.replicas` as a JSON pointer.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

fn set_pointer(value: &mut Value, pointer: &str, new: Value) {
    let mut at = value;
    for key in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[key];
    }
    *at = new;
}
