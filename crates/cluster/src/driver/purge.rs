//! Emptying a namespace that is going away.

use super::write::{Failure, Seen, path_of, request, write};
use crate::world::Object;
use kube::Client;
use serde_json::Value;

/// Pods first: what they use must outlive them.
pub(super) async fn run(client: &Client, namespace: Object) -> Result<Option<Seen>, Failure> {
    let name = namespace.meta().name.clone().unwrap_or_default();
    let mut resources = namespaced(client).await?;
    resources.sort_by_key(|r| (!r.ends_with("/pods"), r.clone()));
    let mut left = false;
    for resource in resources {
        let (group, plural) = resource.rsplit_once('/').unwrap_or(("", &resource));
        let path = format!("{group}/namespaces/{name}/{plural}");
        if is_empty(client, &path).await? {
            continue;
        }
        client.request_text(request("DELETE", &path, None, Vec::new())).await.map_err(Failure::from)?;
        left |= !is_empty(client, &path).await?;
    }
    if left {
        return Err(Failure::Conflict);
    }
    let Object::Namespace(namespace) = namespace else { return Ok(None) };
    let mut last = (*namespace).clone();
    if let Some(spec) = last.spec.as_mut() {
        spec.finalizers = Some(spec.finalizers.take().into_iter().flatten().filter(|f| f != "kubernetes").collect());
    }
    let last = Object::from(last);
    match write(client, "PUT", last.kind(), path_of(&last, "/finalize"), &last).await {
        Ok(_) | Err(Failure::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}

async fn is_empty(client: &Client, path: &str) -> Result<bool, Failure> {
    let list = get(client, &format!("{path}?limit=1")).await;
    match list {
        Ok(list) => Ok(list["items"].as_array().is_none_or(Vec::is_empty)),
        Err(Failure::NotFound) => Ok(true),
        Err(other) => Err(other),
    }
}

/// Every resource that lives in namespaces and can be listed and deleted, as `/apis/group/version/plural`.
async fn namespaced(client: &Client) -> Result<Vec<String>, Failure> {
    let mut all = collect("/api/v1", &get(client, "/api/v1").await?);
    let groups = get(client, "/apis").await?;
    for group in groups["groups"].as_array().into_iter().flatten() {
        let Some(version) = group["preferredVersion"]["groupVersion"].as_str() else { continue };
        let path = format!("/apis/{version}");
        match get(client, &path).await {
            Ok(list) => all.extend(collect(&path, &list)),
            Err(Failure::NotFound) => {} // A definition that has just been removed.
            Err(other) => return Err(other),
        }
    }
    all.dedup();
    Ok(all)
}

fn collect(path: &str, list: &Value) -> Vec<String> {
    let resources = list["resources"].as_array().into_iter().flatten();
    let can = |r: &Value, verb: &str| r["verbs"].as_array().into_iter().flatten().any(|v| v == verb);
    resources
        .filter(|r| r["namespaced"] == true && can(r, "deletecollection") && can(r, "list"))
        .filter_map(|r| r["name"].as_str().filter(|n| !n.contains('/')))
        .map(|name| format!("{path}/{name}"))
        .collect()
}

async fn get(client: &Client, path: &str) -> Result<Value, Failure> {
    let text = client.request_text(request("GET", path, None, Vec::new())).await?;
    serde_json::from_str(&text).map_err(|e| Failure::Refused(e.to_string()))
}
