//! Kinds that are answered and never kept: access and token reviews, and what would need a kubelet.

use std::sync::{Arc, MutexGuard};

use http::Response;
use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::strategy::Part;
use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::error::ApiError;
use crate::rbac::{self, Action};
use crate::registry::Served;
use crate::request::{Request, User};
use crate::server::{Inner, json_response};
use crate::state::State;
use crate::store::Object;
use crate::write::{Place, WriteOptions};
use crate::{dispatch, managed, pods};

pub(crate) fn create(
    inner: &Inner,
    mut state: MutexGuard<'_, State>,
    request: &Request,
    served: &Arc<Served>,
    namespace: &str,
) -> Result<Response<Body>, ApiError> {
    let mut review = dispatch::parse_as(request, &served.api_version(), &served.kind)?;
    review["apiVersion"] = Value::from(served.api_version());
    review["kind"] = Value::from(&*served.kind);
    check(served, &review, namespace)?;
    match &*served.kind {
        "Binding" => {
            let name = review["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let pods_served = state.registry.find("", "v1", "pods").cloned().expect("a built-in resource");
            let place = Place { served: pods_served, namespace: namespace.to_owned(), name };
            let options = WriteOptions::parse(request)?;
            pods::bind(&mut state, &place, &review, options.dry_run)?;
            return Ok(json_response(
                201,
                &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
            ));
        }
        "SelfSubjectReview" => {
            review["metadata"]["creationTimestamp"] = Value::from(state.now_text());
            review["status"] = json!({"userInfo": user_info(&request.user)});
        }
        "TokenReview" => {
            let token = review["spec"]["token"].as_str().unwrap_or_default();
            review["status"] = match inner.tokens.identify(&state, token) {
                Some(user) => json!({"authenticated": true, "user": user_info(&user),
                    "audiences": [crate::auth::default_audience()]}),
                None => json!({"user": {}, "error": "invalid bearer token"}),
            };
        }
        "SelfSubjectAccessReview" => {
            let user = request.user.clone();
            review["status"] = access(inner, &state, &user, &review["spec"]);
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let spec = &review["spec"];
            let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            let user = User {
                name: spec["user"].as_str().unwrap_or_default().to_owned(),
                uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
                groups: groups.collect(),
                extra: Vec::new(),
            };
            review["status"] = access(inner, &state, &user, spec);
        }
        "SelfSubjectRulesReview" => {
            let namespace = review["spec"]["namespace"].as_str().unwrap_or_default().to_owned();
            review["status"] = rules(inner, &state, &request.user, &namespace);
        }
        _ => return Err(ApiError::method_not_allowed("create", &served.group, &served.plural)),
    }
    review["metadata"]["managedFields"] = managed_spec(served, &review, request, &state)?;
    if review["metadata"]["managedFields"].is_null()
        && let Some(metadata) = review["metadata"].as_object_mut()
    {
        metadata.shift_remove("managedFields");
    }
    Ok(json_response(201, &review))
}

/// What a review must ask.
fn check(served: &Served, review: &Value, namespace: &str) -> Result<(), ApiError> {
    let spec = &review["spec"];
    let kind = &*served.kind;
    if kind == "TokenReview" && spec["token"].as_str().unwrap_or_default().is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    if !kind.ends_with("SubjectAccessReview") {
        return Ok(());
    }
    let mut errors = Vec::new();
    match (spec["resourceAttributes"].is_object(), spec["nonResourceAttributes"].is_object()) {
        (false, false) => errors.push(FieldError::invalid(
            "spec.resourceAttributes",
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        (true, true) => {
            let asked = &spec["nonResourceAttributes"];
            let mut error = FieldError::invalid(
                "spec.nonResourceAttributes",
                "",
                "cannot be specified in combination with resourceAttributes",
            );
            error.value = Some(format!(
                "{{\"Path\":{:?},\"Verb\":{:?}}}",
                asked["path"].as_str().unwrap_or_default(),
                asked["verb"].as_str().unwrap_or_default()
            ));
            errors.push(error);
        }
        _ => {}
    }
    let nobody =
        spec["user"].as_str().unwrap_or_default().is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if kind != "SelfSubjectAccessReview" && nobody {
        errors.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    if kind == "LocalSubjectAccessReview" && spec["resourceAttributes"].is_object() {
        let asked = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
        if asked != namespace {
            let detail = "must match metadata.namespace";
            errors.push(FieldError::invalid("spec.resourceAttributes.namespace", asked, detail));
        }
    }
    // The reference server names no kind here.
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(&served.group, "", "", &errors)) }
}

/// Even what is never kept says who asked for what.
fn managed_spec(served: &Arc<Served>, review: &Value, request: &Request, state: &State) -> Result<Value, ApiError> {
    let options = WriteOptions::parse(request)?;
    let now = state.now_text();
    let author = managed::Author { manager: &options.manager, part: Part::Main, subresource: "", now: &now };
    let mut asked = review.clone();
    if let Some(fields) = asked.as_object_mut() {
        fields.shift_remove("status");
    }
    managed::update(served, None, &mut asked, &author);
    Ok(asked["metadata"]["managedFields"].take())
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), Value::from(user.name.clone()));
    if !user.uid.is_empty() {
        info.insert("uid".into(), Value::from(user.uid.clone()));
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), Value::from(user.groups.clone()));
    }
    if !user.extra.is_empty() {
        let extra: Map<String, Value> =
            user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect();
        info.insert("extra".into(), Value::Object(extra));
    }
    Value::Object(info)
}

fn access(inner: &Inner, state: &State, user: &User, spec: &Value) -> Value {
    if !inner.rbac {
        return json!({"allowed": true});
    }
    let text = |value: &'static str, of: &str| spec[of][value].as_str().unwrap_or_default().to_owned();
    let allowed = if spec["resourceAttributes"].is_object() {
        let of = "resourceAttributes";
        let (verb, group, resource) = (text("verb", of), text("group", of), text("resource", of));
        let (sub, name, namespace) = (text("subresource", of), text("name", of), text("namespace", of));
        rbac::allowed(state, user, &Action::resource(&verb, &group, &resource, &sub, &name, &namespace))
    } else {
        let (verb, path) = (text("verb", "nonResourceAttributes"), text("path", "nonResourceAttributes"));
        rbac::allowed(state, user, &Action::path(&verb, &path))
    };
    json!({"allowed": allowed})
}

fn rules(inner: &Inner, state: &State, user: &User, namespace: &str) -> Value {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let everything = !inner.rbac || user.groups.iter().any(|group| group == "system:masters");
    if everything {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    if inner.rbac {
        rbac::visit_rules(state, user, namespace, &mut |rule| {
            if rule["resources"].as_array().is_some_and(|list| !list.is_empty()) {
                let mut one =
                    json!({"verbs": rule["verbs"], "apiGroups": rule["apiGroups"], "resources": rule["resources"]});
                if rule["resourceNames"].is_array() {
                    one["resourceNames"] = rule["resourceNames"].clone();
                }
                resources.push(one);
            }
            if rule["nonResourceURLs"].as_array().is_some_and(|list| !list.is_empty()) {
                paths.push(json!({"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}));
            }
            true
        });
    }
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

/// `componentstatuses`: there are no components to ask.
pub(crate) fn component_statuses(served: &Served, name: Option<&str>) -> Result<Response<Body>, ApiError> {
    match name {
        Some(name) => Err(ApiError::not_found(&served.group, &served.plural, name)),
        None => Ok(json_response(
            200,
            &json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}),
        )),
    }
}

/// Logs, exec and their like: there is no container to ask. What can be said without one is said first.
pub(crate) fn no_kubelet(served: &Served, subresource: &str, object: &Object, request: &Request) -> ApiError {
    let what = object.name();
    if served.is("", "Pod") && matches!(subresource, "log" | "exec" | "attach") {
        let pod = object.value();
        if let Some(error) = misdirected(&pod, what, subresource, request) {
            return error;
        }
    }
    let message = match subresource {
        "log" => format!("the containers of pod {what:?} are simulated and write no logs"),
        "exec" | "attach" | "portforward" => {
            format!("the containers of pod {what:?} are simulated: there is no process to {subresource} to")
        }
        _ => format!("{} {what:?} is simulated: {subresource} leads nowhere", served.singular),
    };
    ApiError::new(501, "NotImplemented", message)
}

/// A request for a container that is not there, or for a pod that is nowhere.
fn misdirected(pod: &Value, name: &str, subresource: &str, request: &Request) -> Option<ApiError> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let names: Vec<&str> = lists
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let count = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let asked = request.query.get("container");
    let bad = |message: String| Some(ApiError::bad_request(message));
    if subresource == "log"
        && let Ok(Some(lines)) = request.query.integer("tailLines")
        && lines < 0
    {
        let error = FieldError::invalid("tailLines", lines, "must be greater than or equal to 0");
        return Some(ApiError::invalid("", "PodLogOptions", name, &[error]));
    }
    match asked {
        None if count > 1 && subresource == "log" => {
            return bad(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                names.join(" ")
            ));
        }
        Some(asked) if !names.contains(&asked) => {
            return bad(format!("container {asked} is not valid for pod {name}"));
        }
        _ => {}
    }
    let nowhere = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    (nowhere && subresource != "log")
        .then(|| ApiError::bad_request(format!("pod {name} does not have a host assigned")))
}
