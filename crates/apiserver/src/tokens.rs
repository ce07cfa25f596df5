//! `serviceaccounts/token`: tokens for service accounts.

use http::Response;
use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::times;
use serde_json::{Value, json};

use crate::auth::{self, TokenGrant};
use crate::body::Body;
use crate::error::ApiError;
use crate::request::Request;
use crate::server::{Inner, json_response};
use crate::state::State;
use crate::write::Place;
use crate::{dispatch, read};

/// Ten minutes is the least a token lives; an hour what it gets unasked; a bit over an hour at least per the API's default.
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;
const DEFAULT_SECONDS: i64 = 3600;

pub(crate) fn request(
    inner: &Inner,
    state: &mut State,
    request: &Request,
    place: &Place,
) -> Result<Response<Body>, ApiError> {
    let mut review = dispatch::parse_as(request, "authentication.k8s.io/v1", "TokenRequest")?;
    let manager = crate::write::WriteOptions::parse(request)?.manager;
    let asked: Vec<&str> = ["audiences", "boundObjectRef"]
        .into_iter()
        .filter(|key| review["spec"].get(*key).is_some_and(|value| !value.is_null()))
        .collect();
    let account = read::get(state, &place.served, &place.namespace, &place.name)?;
    let seconds = review["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let mut errors = Vec::new();
    if seconds < LEAST_SECONDS {
        errors.push(FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration less than 10 minutes",
        ));
    }
    if seconds > MOST_SECONDS {
        errors.push(FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &errors));
    }
    let mut audiences: Vec<String> = review["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if audiences.is_empty() {
        audiences.push(auth::default_audience());
    }
    let bound = bound_to(state, place, &review["spec"]["boundObjectRef"])?;
    let grant = TokenGrant {
        namespace: place.namespace.clone(),
        account: place.name.clone(),
        account_uid: account.uid.to_string(),
        audiences: audiences.clone(),
        seconds,
        bound,
    };
    let token = auth::grant(&inner.tokens, state, &grant);
    let expires = state.now + jiff::SignedDuration::from_secs(seconds);
    let (now, uid) = (state.now_text(), state.ids.uid());
    let mut own = json!({"f:expirationSeconds": {}});
    for key in asked {
        own[format!("f:{key}")] = json!({});
    }
    review["metadata"] = json!({"name": place.name, "namespace": place.namespace, "uid": uid, "creationTimestamp": now,
        "managedFields": [{"manager": manager, "operation": "Update", "apiVersion": "authentication.k8s.io/v1", "time": now,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": own}, "subresource": "token"}]});
    review["spec"]["audiences"] = Value::from(audiences);
    review["spec"]["expirationSeconds"] = Value::from(seconds);
    if review["spec"].get("boundObjectRef").is_none() {
        review["spec"]["boundObjectRef"] = Value::Null;
    }
    review["status"] = json!({"token": token, "expirationTimestamp": times::seconds(expires)});
    Ok(json_response(201, &review))
}

/// The claim of the object a token is to die with.
fn bound_to(state: &State, place: &Place, reference: &Value) -> Result<Vec<(String, Value)>, ApiError> {
    if !reference.is_object() {
        return Ok(Vec::new());
    }
    let name = reference["name"].as_str().unwrap_or_default();
    let (plural, claim) = match (reference["apiVersion"].as_str(), reference["kind"].as_str()) {
        (Some("v1"), Some("Pod")) => ("pods", "pod"),
        (Some("v1"), Some("Secret")) => ("secrets", "secret"),
        (Some("v1"), Some("Node")) => ("nodes", "node"),
        (api_version, kind) => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount to object type {}, Kind={}",
                api_version.unwrap_or_default(),
                kind.unwrap_or_default()
            )));
        }
    };
    let served = state.registry.find("", "v1", plural).cloned().expect("a built-in resource");
    let object = read::get(state, &served, &place.namespace, name)?;
    let uid = reference["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != &*object.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict("", plural, name, &why));
    }
    let mut claims = vec![(claim.to_owned(), json!({"name": name, "uid": &*object.uid}))];
    if plural == "pods" {
        let pod = object.value();
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            let uid = state
                .registry
                .table("", "nodes")
                .and_then(|table| state.store.get(table, node))
                .map(|node| node.uid.clone());
            if let Some(uid) = uid {
                claims.push(("node".into(), json!({"name": node, "uid": &*uid})));
            }
        }
    }
    Ok(claims)
}
