//! Paths that are not of a resource: discovery, health, version, OpenAPI.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Response, header};
use serde_json::{Value, json};

use crate::body::Body;
use crate::error::ApiError;
use crate::openapi;
use crate::registry::{Registry, Served};
use crate::request::Request;
use crate::server::{Inner, bytes_response, json_response};

pub(crate) fn answer(inner: &Inner, request: &Request) -> Result<Response<Body>, ApiError> {
    if request.method != Method::GET && request.method != Method::HEAD {
        let mut error =
            ApiError::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
        error.details = Some(json!({}));
        return Err(error);
    }
    let state = inner.state();
    let registry = &state.registry;
    let path = request.path.trim_end_matches('/');
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let aggregated = wants_aggregated(&request.accept);
    match segments.as_slice() {
        [] => Ok(json_response(200, &json!({"paths": paths(registry)}))),
        ["healthz" | "livez" | "readyz", ..] => Ok(health(request, &segments)),
        ["version"] => Ok(json_response(200, &version())),
        ["api"] if aggregated => Ok(aggregated_response(&aggregated_list(registry, true))),
        ["apis"] if aggregated => Ok(aggregated_response(&aggregated_list(registry, false))),
        ["api"] => Ok(json_response(
            200,
            &json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}]}),
        )),
        ["apis"] => {
            let groups: Vec<Value> = groups(registry).iter().map(|group| api_group(group, false)).collect();
            Ok(json_response(200, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})))
        }
        ["api", "v1"] => resource_list(registry, "", "v1"),
        ["apis", group] => match groups(registry).iter().find(|found| &*found.name == *group) {
            Some(found) => Ok(json_response(200, &api_group(found, true))),
            None => Ok(page_not_found()),
        },
        ["apis", group, version] if !is_served(registry, group, version) => Ok(page_not_found()),
        ["apis", group, version] => resource_list(registry, group, version),
        ["openapi", ..] => openapi::answer(registry, request, &segments[1..]),
        ["metrics"] => Ok(bytes_response(200, "text/plain; version=0.0.4; charset=utf-8", "")),
        ["api", _] => Err(ApiError::no_such_path()),
        _ => Ok(page_not_found()),
    }
}

fn page_not_found() -> Response<Body> {
    bytes_response(404, "text/plain; charset=utf-8", "404 page not found\n")
}

fn is_served(registry: &Registry, group: &str, version: &str) -> bool {
    registry.all().any(|served| &*served.group == group && &*served.version == version)
}

fn wants_aggregated(accept: &str) -> bool {
    // The first clause we know decides.
    for clause in accept.split(',') {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        if parts.first() != Some(&"application/json") {
            continue;
        }
        let wanted = parts.contains(&"as=APIGroupDiscoveryList") && parts.contains(&"g=apidiscovery.k8s.io");
        if wanted && parts.contains(&"v=v2") {
            return true;
        }
        if parts.len() == 1 {
            return false;
        }
    }
    false
}

fn aggregated_response(value: &Value) -> Response<Body> {
    let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut response = bytes_response(200, content_type, crate::render::bytes(value));
    response.headers_mut().insert(header::VARY, http::HeaderValue::from_static("Accept"));
    response
}

/// A version and what it serves.
type Version = (Arc<str>, Vec<Arc<Served>>);

/// A group and its versions, preferred first.
struct Group {
    name: Arc<str>,
    versions: Vec<Version>,
}

/// Every named group in the order discovery lists them: built-in ones as they come, custom ones by name.
fn groups(registry: &Registry) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (group, version, resources) in registry.builtin().iter().filter(|(group, ..)| !group.is_empty()) {
        match groups.iter_mut().find(|found| found.name == *group) {
            Some(found) => found.versions.push((version.clone(), resources.clone())),
            None => groups.push(Group { name: group.clone(), versions: vec![(version.clone(), resources.clone())] }),
        }
    }
    let mut custom: BTreeMap<Arc<str>, Vec<Version>> = BTreeMap::new();
    for served in registry.custom() {
        let versions = custom.entry(served.group.clone()).or_default();
        match versions.iter_mut().find(|(version, _)| *version == served.version) {
            Some((_, resources)) => resources.push(served),
            None => versions.push((served.version.clone(), vec![served])),
        }
    }
    for (name, mut versions) in custom {
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(&version.0)));
        groups.push(Group { name, versions });
    }
    groups
}

/// Versions by maturity, then number: v2 before v1 before v1beta1 before v1alpha1, others last by name.
pub(crate) fn version_priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let name = std::cmp::Reverse(version.to_owned());
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        let rest = &rest[digits..];
        if rest.is_empty() {
            return Some((3, major, 0));
        }
        for (stage, rank) in [("beta", 2), ("alpha", 1)] {
            if let Some(minor) = rest.strip_prefix(stage) {
                return Some((rank, major, minor.parse().ok()?));
            }
        }
        None
    });
    match parsed {
        Some((rank, major, minor)) => (rank, major, minor, name),
        None => (0, 0, 0, name),
    }
}

fn api_group(group: &Group, alone: bool) -> Value {
    let version = |version: &str| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(|(name, _)| version(name)).collect();
    let preferred = version(group.versions.first().map_or("", |(name, _)| name));
    if alone {
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": &*group.name, "versions": versions, "preferredVersion": preferred})
    } else {
        json!({"name": &*group.name, "versions": versions, "preferredVersion": preferred})
    }
}

fn resources_of(registry: &Registry, group: &str, version: &str) -> Vec<Arc<Served>> {
    let builtin = registry.builtin().iter().find(|(g, v, _)| &**g == group && &**v == version);
    match builtin {
        Some((_, _, resources)) => resources.clone(),
        None => registry.custom().into_iter().filter(|s| &*s.group == group && &*s.version == version).collect(),
    }
}

fn resource_list(registry: &Registry, group: &str, version: &str) -> Result<Response<Body>, ApiError> {
    let resources = resources_of(registry, group, version);
    if resources.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let mut list = Vec::new();
    for served in &resources {
        let mut entry = json!({"name": &*served.plural, "singularName": &*served.singular, "namespaced": served.namespaced,
            "kind": &*served.kind, "verbs": served.verbs});
        if !served.short_names.is_empty() {
            entry["shortNames"] = json!(served.short_names);
        }
        if !served.categories.is_empty() {
            entry["categories"] = json!(served.categories);
        }
        if let Some(hash) = &served.storage_version_hash {
            entry["storageVersionHash"] = json!(hash);
        }
        list.push(entry);
        for sub in &served.subresources {
            let mut entry = json!({"name": format!("{}/{}", served.plural, sub.name), "singularName": "",
                "namespaced": served.namespaced});
            if let Some((group, version)) = &sub.kind_group_version {
                if !group.is_empty() {
                    entry["group"] = json!(group);
                }
                entry["version"] = json!(version);
            }
            entry["kind"] = json!(sub.kind);
            entry["verbs"] = json!(sub.verbs);
            list.push(entry);
        }
    }
    let mut value = json!({"kind": "APIResourceList", "groupVersion": resources[0].api_version(), "resources": list});
    if !group.is_empty() {
        value = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": resources[0].api_version(), "resources": list});
    }
    Ok(json_response(200, &value))
}

fn aggregated_list(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = if core {
        let resources = resources_of(registry, "", "v1");
        vec![json!({"metadata": {}, "versions": [aggregated_version("v1", &resources)]})]
    } else {
        groups(registry)
            .iter()
            .map(|group| {
                let versions: Vec<Value> =
                    group.versions.iter().map(|(version, resources)| aggregated_version(version, resources)).collect();
                json!({"metadata": {"name": &*group.name}, "versions": versions})
            })
            .collect()
    };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_version(version: &str, resources: &[Arc<Served>]) -> Value {
    let entries: Vec<Value> = resources
        .iter()
        .map(|served| {
            // Custom resources name their group and version here, built-in ones leave them empty.
            let (group, kind_version) = match served.custom() {
                Some(_) => (&*served.group, &*served.version),
                None => ("", ""),
            };
            let mut entry = json!({"resource": &*served.plural,
                "responseKind": {"group": group, "version": kind_version, "kind": &*served.kind},
                "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": &*served.singular, "verbs": served.verbs});
            if !served.short_names.is_empty() {
                entry["shortNames"] = json!(served.short_names);
            }
            if !served.categories.is_empty() {
                entry["categories"] = json!(served.categories);
            }
            if !served.subresources.is_empty() {
                let subs: Vec<Value> = served
                    .subresources
                    .iter()
                    .map(|sub| {
                        let (group, version) = sub
                            .kind_group_version
                            .as_ref()
                            .map_or((group, kind_version), |(group, version)| (group.as_str(), version.as_str()));
                        json!({"subresource": sub.name, "responseKind": {"group": group, "version": version, "kind": sub.kind},
                            "verbs": sub.verbs})
                    })
                    .collect();
                entry["subresources"] = json!(subs);
            }
            entry
        })
        .collect();
    json!({"version": version, "resources": entries, "freshness": "Current"})
}

fn paths(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/readyz",
        "/version",
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    for group in groups(registry) {
        paths.push(format!("/apis/{}", group.name));
        for (version, _) in group.versions {
            paths.push(format!("/apis/{}/{version}", group.name));
        }
    }
    paths.sort();
    paths
}

fn health(request: &Request, segments: &[&str]) -> Response<Body> {
    const CHECKS: [&str; 3] = ["ping", "log", "etcd"];
    let plain = "text/plain; charset=utf-8";
    match segments {
        [_, check] if !CHECKS.contains(check) => bytes_response(404, plain, "404 page not found\n"),
        [name] if request.query.flag("verbose") => {
            let mut text: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            text.push_str(&format!("{name} check passed\n"));
            bytes_response(200, plain, text)
        }
        _ => bytes_response(200, plain, "ok"),
    }
}

fn version() -> Value {
    json!({"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_maturity() {
        let mut versions = ["v1alpha1", "v10", "foo", "v1beta2", "v2", "v1", "v1beta10"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]);
    }
}
