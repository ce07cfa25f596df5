//! The conversation with an API server: `ConversionReview` in, `ConversionReview` out.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ExpiryOfPool, convertible, text, to_v1, to_v1beta1, v1beta1_of};
use crate::kind::Kind;
use crate::labels;

/// The NodePools whose `expireAfter` the answer may depend on.
pub fn pools_wanted(review: &Value) -> BTreeSet<String> {
    let request = &review["request"];
    if text(request, "desiredAPIVersion") != Kind::NodeClaim.api_version() {
        return BTreeSet::new();
    }
    let claims = objects(request).iter().filter(|object| convertible(object) == Some((Kind::NodeClaim, true)));
    let pool = |claim: &Value| claim.pointer("/metadata/labels")?.get(labels::NODEPOOL)?.as_str().map(str::to_owned);
    claims.filter_map(pool).collect()
}

/// Answers in the version of the question. One object that cannot be converted fails the whole, as the protocol has it.
pub fn review(review: &Value, expiry: ExpiryOfPool<'_>) -> Value {
    let request = &review["request"];
    let desired = text(request, "desiredAPIVersion");
    let converted: Result<Vec<Value>, String> =
        objects(request).iter().map(|object| converted(object, desired, expiry)).collect();
    let mut response = json!({"uid": text(request, "uid")});
    match converted {
        Ok(objects) => {
            response["convertedObjects"] = objects.into();
            response["result"] = json!({"status": "Success"});
        }
        Err(message) => {
            response["convertedObjects"] = json!([]);
            response["result"] = json!({"status": "Failure", "message": message});
        }
    }
    let version = review.get("apiVersion").cloned().unwrap_or_else(|| "apiextensions.k8s.io/v1".into());
    json!({"apiVersion": version, "kind": "ConversionReview", "response": response})
}

fn objects(request: &Value) -> &[Value] {
    request.get("objects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn converted(object: &Value, desired: &str, expiry: ExpiryOfPool<'_>) -> Result<Value, String> {
    let (api_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let refused = || format!("{kind} {name:?}: cannot convert from {api_version:?} to {desired:?}");
    let (kind, _) = convertible(object).ok_or_else(refused)?;
    if desired == kind.api_version() {
        Ok(to_v1(kind, object, expiry))
    } else if desired == v1beta1_of(kind) {
        Ok(to_v1beta1(kind, object))
    } else {
        Err(refused())
    }
}
