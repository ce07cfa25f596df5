//! From a request to the function that answers it.

use std::sync::Arc;

use http::{Method, Response};
use karpenter_kinds::strategy::{self, Part};
use serde_json::{Value, json};

use crate::body::Body;
use crate::delete::{self, DeleteOptions, Deleted};
use crate::error::ApiError;
use crate::history::Verb;
use crate::patch::{self, PatchKind};
use crate::planted::Planted;
use crate::rbac::{self, Action};
use crate::registry::Served;
use crate::render::{self, Encoding, View};
use crate::request::{Request, ResourcePath};
use crate::server::{Inner, bytes_response, json_response, response};
use crate::state::State;
use crate::write::{self, Current, Place, WriteOptions, Written};
use crate::{conversion, discovery, input, pods, read, reviews, scale, tokens};

pub(crate) async fn dispatch(inner: &Arc<Inner>, request: &Request) -> Result<Response<Body>, ApiError> {
    match ResourcePath::parse(&request.path) {
        Some(path) => resource(inner, request, &path),
        None => {
            authorize_path(inner, request)?;
            discovery::answer(inner, request)
        }
    }
}

/// What everybody may ask for.
pub(crate) fn is_open(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz", "/version"].contains(&path)
}

fn authorize_path(inner: &Inner, request: &Request) -> Result<(), ApiError> {
    if !inner.rbac || is_open(&request.path) {
        return Ok(());
    }
    let verb = request.method.as_str().to_ascii_lowercase();
    let state = inner.state();
    if rbac::allowed(&state, &request.user, &Action::path(&verb, &request.path)) {
        return Ok(());
    }
    let mut error = ApiError::new(
        403,
        "Forbidden",
        format!("forbidden: User {:?} cannot {verb} path {:?}", request.user.name, request.path),
    );
    error.details = Some(json!({}));
    Err(error)
}

/// The verb as roles name it.
fn verb_of(request: &Request, path: &ResourcePath) -> &'static str {
    let watch = path.watch_prefix || request.query.flag("watch");
    match (&request.method, path.name.is_some()) {
        (&Method::GET | &Method::HEAD, _) if watch && path.subresource.is_none() => "watch",
        (&Method::GET | &Method::HEAD, true) => "get",
        (&Method::GET | &Method::HEAD, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => "",
    }
}

fn resource(inner: &Arc<Inner>, request: &Request, path: &ResourcePath) -> Result<Response<Body>, ApiError> {
    let verb = verb_of(request, path);
    let named = path.name.is_some();
    let misplaced = match request.method {
        Method::POST => named && path.subresource.is_none(),
        Method::PUT | Method::PATCH => !named,
        _ => false,
    };
    authorize(inner, request, path, verb)?;
    let mut state = inner.state();
    let served = state.registry.find(&path.group, &path.version, &path.resource).cloned();
    let Some(served) = served else {
        let known = state.registry.all().any(|served| *served.group == path.group && *served.version == path.version);
        if known || path.group.is_empty() {
            return Err(ApiError::no_such_path());
        }
        return Ok(bytes_response(404, "text/plain; charset=utf-8", "404 page not found\n"));
    };
    if misplaced {
        return Err(method_not_allowed());
    }
    if path.namespace.is_some() && !served.namespaced {
        return Err(ApiError::no_such_path());
    }
    if served.namespaced && path.namespace.is_none() && (path.name.is_some() || verb == "create") && !path.watch_prefix
    {
        // A namespaced resource by name, or created, without its namespace.
        if path.name.is_some() {
            return Err(ApiError::no_such_path());
        }
        if served.table.is_some() {
            return Err(method_not_allowed());
        }
    }
    if let Some(subresource) = &path.subresource {
        let sub = served.subresources.iter().find(|sub| sub.name == subresource).cloned();
        let sub = sub.ok_or_else(ApiError::no_such_path)?;
        if !sub.verbs.contains(&verb) {
            return Err(method_not_allowed());
        }
        drop(state);
        return subresource_request(inner, request, path, &served, subresource);
    }
    if !served.verbs.contains(&verb) {
        return Err(method_not_allowed());
    }
    let namespace = path.namespace.clone().unwrap_or_default();
    match verb {
        "watch" => {
            drop(state);
            let (view, _) = render::negotiate(request)?;
            let body = read::watch(inner, &served, path.namespace.as_deref(), path.name.as_deref(), request, view)?;
            Ok(response(200, "application/json", body))
        }
        "get" if served.table.is_some() => {
            let (view, encoding) = render::negotiate(request)?;
            let name = path.name.as_deref().unwrap_or_default();
            let object = read::get(&state, &served, &namespace, name)?;
            let now = state.now;
            drop(state);
            Ok(encoded(200, encoding, render::single(&served, &object, view, now)))
        }
        "list" if served.table.is_some() => {
            let (view, encoding) = render::negotiate(request)?;
            let mut listing = read::list(&state, &served, path.namespace.as_deref(), &request.query)?;
            let now = state.now;
            drop(state);
            listing.objects = conversion::known_objects(&served, listing.objects);
            let body = read::render_list(&served, listing, view, now);
            match encoding {
                Encoding::Json => Ok(response(200, "application/json", body)),
                Encoding::Yaml => Ok(response(200, "application/yaml", body)),
            }
        }
        "create" => create(inner, state, request, &served, &namespace),
        "update" => {
            let name = path.name.clone().unwrap_or_default();
            let place = Place { served, namespace, name };
            update(&mut state, request, &place, Part::Main)
        }
        "patch" => {
            let name = path.name.clone().unwrap_or_default();
            let place = Place { served, namespace, name };
            patch_object(&mut state, request, &place, Part::Main)
        }
        "delete" => {
            let name = path.name.clone().unwrap_or_default();
            let place = Place { served, namespace, name };
            let options = DeleteOptions::parse(request)?;
            let deleted = delete::delete(&mut state, &place, &options, &request.user)?;
            Ok(deleted_response(&place.served, &deleted, &options))
        }
        "deletecollection" => delete_collection(&mut state, request, &served, path.namespace.as_deref()),
        _ => reviews::component_statuses(&served, path.name.as_deref()),
    }
}

fn method_not_allowed() -> ApiError {
    let mut error =
        ApiError::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    error.details = Some(json!({}));
    error
}

fn authorize(inner: &Inner, request: &Request, path: &ResourcePath, verb: &str) -> Result<(), ApiError> {
    if !inner.rbac {
        return Ok(());
    }
    let namespace = path.namespace.as_deref().unwrap_or_default();
    let (name, sub) = (path.name.as_deref().unwrap_or_default(), path.subresource.as_deref().unwrap_or_default());
    // Reading one namespace is an action inside it.
    let namespace =
        if path.resource == "namespaces" && path.group.is_empty() && !name.is_empty() { name } else { namespace };
    let action = Action::resource(verb, &path.group, &path.resource, sub, name, namespace);
    let state = inner.state();
    if rbac::allowed(&state, &request.user, &action) {
        return Ok(());
    }
    let scope = match path.namespace.as_deref() {
        Some(namespace) => format!("in the namespace {namespace:?}"),
        None => "at the cluster scope".to_owned(),
    };
    let why = format!(
        "User {:?} cannot {verb} resource {:?} in API group {:?} {scope}",
        request.user.name, action.resource, path.group
    );
    Err(ApiError::forbidden(&path.group, &path.resource, name, &why))
}

/// JSON bytes in the encoding asked for.
pub(crate) fn encoded(code: u16, encoding: Encoding, bytes: bytes::Bytes) -> Response<Body> {
    match encoding {
        Encoding::Json => bytes_response(code, "application/json", bytes),
        Encoding::Yaml => {
            let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let text = serde_saphyr::to_string(&value).unwrap_or_default();
            bytes_response(code, "application/yaml", text)
        }
    }
}

fn written_response(
    served: &Served,
    written: &Written,
    code: u16,
    request: &Request,
    options: &WriteOptions,
    state: &State,
) -> Result<Response<Body>, ApiError> {
    let (view, encoding) = render::negotiate(request)?;
    let bytes = match written {
        Written::Object(object) => render::single(served, object, view, state.now),
        Written::Dry(value) => render::bytes(value),
    };
    let mut response = encoded(code, encoding, bytes);
    add_warnings(&mut response, &options.warnings);
    Ok(response)
}

fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = http::HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(http::header::WARNING, value);
        }
    }
}

fn create(
    inner: &Inner,
    mut state: std::sync::MutexGuard<'_, State>,
    request: &Request,
    served: &Arc<Served>,
    namespace: &str,
) -> Result<Response<Body>, ApiError> {
    if served.table.is_none() {
        return reviews::create(inner, state, request, served, namespace);
    }
    let mut options = WriteOptions::parse(request)?;
    let (body, strict) = input::parse_object(served, request)?;
    deprecation(served, &mut options);
    let object = write::decode_object(served, body, &mut options, strict)?;
    let place = Place { served: served.clone(), namespace: namespace.to_owned(), name: String::new() };
    let written = write::create(&mut state, &place, object, &mut options, Verb::Create)?;
    written_response(served, &written, 201, request, &options, &state)
}

fn deprecation(served: &Served, options: &mut WriteOptions) {
    if let Some(warning) = served.custom().and_then(|custom| custom.deprecation.clone()) {
        options.warnings.push(warning);
    }
}

fn update(state: &mut State, request: &Request, place: &Place, part: Part) -> Result<Response<Body>, ApiError> {
    let served = &place.served;
    let mut options = WriteOptions::parse(request)?;
    let (body, strict) = input::parse_object(served, request)?;
    deprecation(served, &mut options);
    let object = write::decode_object(served, body, &mut options, strict)?;
    let table = served.table.ok_or_else(method_not_allowed)?;
    let current = state.store.get(table, &served.key(&place.namespace, &place.name)).cloned();
    let Some(current) = current.map(|current| Current::read(served, current)) else {
        if part == Part::Main && strategy::creates_on_update(&served.kind) && served.custom().is_none() {
            let written = write::create(state, place, object, &mut options, Verb::Create)?;
            return written_response(served, &written, 201, request, &options, state);
        }
        return Err(ApiError::not_found(&served.group, &served.plural, &place.name));
    };
    let written = write::replace(
        state,
        place,
        part,
        write::subresource_name(part),
        &current,
        object,
        &mut options,
        Verb::Update,
    )?;
    written_response(served, &written, 200, request, &options, state)
}

fn patch_object(state: &mut State, request: &Request, place: &Place, part: Part) -> Result<Response<Body>, ApiError> {
    let served = &place.served;
    let kind = patch::kind_of(served, request)?;
    let mut options = WriteOptions::parse(request)?;
    deprecation(served, &mut options);
    if kind == PatchKind::Apply {
        let (written, code) = crate::apply::apply(state, request, place, part, &mut options)?;
        return written_response(served, &written, code, request, &options, state);
    }
    if request.query.get("force").is_some() {
        let error =
            karpenter_kinds::fielderror::FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let (mut body, duplicates) = input::json(&request.body)?;
    if state.suffers(Planted::NullsKeep)
        && let Some(fields) = body["metadata"]["annotations"].as_object_mut()
    {
        fields.retain(|_, value| !value.is_null());
    }
    let current = Current::read(served, read::get(state, served, &place.namespace, &place.name)?);
    let patched = patch::apply(served, kind, &current.value, &body)?;
    let object = write::decode_object(served, patched, &mut options, duplicates).map_err(|error| {
        // Looked at again only now: it is read in place.
        let patched = patch::apply(served, kind, &current.value, &body);
        patched.ok().and_then(|patched| write::unfit_patch(served, &body, &patched)).unwrap_or(error)
    })?;
    let written =
        write::replace(state, place, part, write::subresource_name(part), &current, object, &mut options, Verb::Patch)?;
    written_response(served, &written, 200, request, &options, state)
}

fn deleted_response(served: &Served, deleted: &Deleted, options: &DeleteOptions) -> Response<Body> {
    match deleted {
        Deleted::Gone(_, Some(shown)) => json_response(200, shown),
        Deleted::Gone(object, None) | Deleted::Dry(object) if !delete::returns_object(served) => {
            json_response(200, &delete::success(served, object))
        }
        Deleted::Gone(object, None) | Deleted::Dry(object) => {
            bytes_response(200, "application/json", render::whole(served, object))
        }
        Deleted::Marked(object) => {
            let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
            bytes_response(code, "application/json", render::whole(served, object))
        }
    }
}

fn delete_collection(
    state: &mut State,
    request: &Request,
    served: &Arc<Served>,
    namespace: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let options = DeleteOptions::parse(request)?;
    let mut listing = read::list(state, served, namespace, &request.query)?;
    listing.objects = conversion::known_objects(served, listing.objects);
    if conversion::is_waiting() {
        return Err(conversion::waits());
    }
    let mut items = Vec::new();
    for object in &listing.objects {
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let place = Place { served: served.clone(), namespace, name };
        match delete::delete(state, &place, &options, &request.user) {
            Ok(_) => items.push(object.clone()),
            // Somebody, or the collector, was faster.
            Err(error) if error.code == 404 => items.push(object.clone()),
            Err(error) => return Err(error),
        }
    }
    let listing = read::Listing { objects: items, ..listing };
    Ok(response(200, "application/json", read::render_list(served, listing, View::Whole, state.now)))
}

fn subresource_request(
    inner: &Inner,
    request: &Request,
    path: &ResourcePath,
    served: &Arc<Served>,
    subresource: &str,
) -> Result<Response<Body>, ApiError> {
    let name = path.name.clone().unwrap_or_default();
    let place = Place { served: served.clone(), namespace: path.namespace.clone().unwrap_or_default(), name };
    let mut state = inner.state();
    let part = match subresource {
        "status" => Part::Status,
        "finalize" => Part::Finalize,
        "resize" => Part::Resize,
        "ephemeralcontainers" => Part::EphemeralContainers,
        "approval" => Part::Approval,
        "scale" => return scale_request(&mut state, request, &place),
        "binding" => {
            let binding = parse_as(request, "v1", "Binding")?;
            let options = WriteOptions::parse(request)?;
            pods::bind(&mut state, &place, &binding, options.dry_run)?;
            return Ok(json_response(
                201,
                &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
            ));
        }
        "eviction" => {
            let eviction = parse_as(request, "policy/v1", "Eviction")?;
            let options = WriteOptions::parse(request)?;
            let eviction = dry_eviction(eviction, options.dry_run);
            pods::evict(&mut state, &place, &eviction, &request.user)?;
            return Ok(json_response(
                201,
                &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
            ));
        }
        "token" => return tokens::request(inner, &mut state, request, &place),
        _ => {
            let object = read::get(&state, served, &place.namespace, &place.name)?;
            // Logs of a pod that is nowhere are empty.
            let nowhere = object.value()["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
            let error = reviews::no_kubelet(served, subresource, &object, request);
            if subresource == "log" && nowhere && error.code == 501 {
                return Ok(bytes_response(204, "text/plain", ""));
            }
            return Err(error);
        }
    };
    match request.method {
        Method::GET => {
            let (view, encoding) = render::negotiate(request)?;
            let object = read::get(&state, served, &place.namespace, &place.name)?;
            Ok(encoded(200, encoding, render::single(served, &object, view, state.now)))
        }
        Method::PUT => update(&mut state, request, &place, part),
        _ => patch_object(&mut state, request, &place, part),
    }
}

fn dry_eviction(mut eviction: Value, dry_run: bool) -> Value {
    if dry_run {
        if !eviction["deleteOptions"].is_object() {
            eviction["deleteOptions"] = json!({});
        }
        eviction["deleteOptions"]["dryRun"] = json!(["All"]);
    }
    eviction
}

/// A body that must be of this kind, or name none.
pub(crate) fn parse_as(request: &Request, api_version: &str, kind: &str) -> Result<Value, ApiError> {
    let (body, _) = input::parse(request)?;
    let given = (body["apiVersion"].as_str().unwrap_or_default(), body["kind"].as_str().unwrap_or_default());
    let id = karpenter_kinds::types::Types::get().kind(api_version, kind);
    if (!given.0.is_empty() && given.0 != api_version && given.0 != "policy/v1beta1")
        || (!given.1.is_empty() && given.1 != kind)
    {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        return Err(input::unknown_conversion(given.0, given.1, group, kind));
    }
    match id {
        Some(id) => {
            let decoded = karpenter_kinds::decode::decode(id, body);
            decoded.map(|decoded| decoded.value).map_err(|error| {
                ApiError::bad_request(format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: {error}",
                    api_version.rsplit('/').next().unwrap_or_default()
                ))
            })
        }
        None => Ok(body),
    }
}

fn scale_request(state: &mut State, request: &Request, place: &Place) -> Result<Response<Body>, ApiError> {
    let served = &place.served;
    let given = (request.method == Method::PUT).then(|| parse_as(request, "autoscaling/v1", "Scale")).transpose()?;
    let current = read::get(state, served, &place.namespace, &place.name)?;
    if request.method == Method::GET {
        return Ok(json_response(200, &scale::read(served, &current)?));
    }
    let mut options = WriteOptions::parse(request)?;
    let wanted = if let Some(given) = given {
        given
    } else {
        let (body, _) = input::json(&request.body)?;
        let mut before = scale::read(served, &current)?;
        if let Some(metadata) = before["metadata"].as_object_mut() {
            metadata.shift_remove("resourceVersion");
        }
        let kind = match input::media_type(request) {
            "application/json-patch+json" => PatchKind::Json,
            "application/apply-patch+yaml" => PatchKind::Apply,
            _ => PatchKind::Merge,
        };
        let patched = patch::apply(served, kind, &before, &body)?;
        let id = karpenter_kinds::types::Types::get().kind("autoscaling/v1", "Scale");
        if let Some(error) = id.and_then(|id| write::unfit(id, &body, &patched)) {
            return Err(error);
        }
        patched
    };
    let object = scale::write(served, &current, &wanted)?;
    let current = Current::read(served, current);
    let written = write::replace(state, place, Part::Main, "scale", &current, object, &mut options, Verb::Patch)?;
    let scale = match &written {
        Written::Object(object) => scale::read(served, object)?,
        Written::Dry(_) => wanted,
    };
    Ok(json_response(200, &scale))
}
