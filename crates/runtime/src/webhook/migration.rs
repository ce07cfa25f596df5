//! Objects that were stored as v1beta1 are rewritten as v1, so that v1beta1 can one day go.

use karpenter_api::{Kind, conversion};
use kube::Client;
use serde_json::{Value, json};

use super::definitions::{PATH, name, read};

/// So many objects at a time.
const PAGE: usize = 500;

/// Everything of every kind. Answers how many objects were rewritten.
pub async fn migrate(client: &Client) -> kube::Result<usize> {
    let mut rewritten = 0;
    for kind in conversion::KINDS {
        let Some(definition) = read(client, kind).await? else { continue };
        if !is_stored_as_v1(&definition) {
            tracing::error!(
                controller = "migration.crd",
                definition = name(kind),
                "the storage version is not v1, objects are left as they are"
            );
            continue;
        }
        let stored = &definition["status"]["storedVersions"];
        if *stored == json!(["v1"]) || stored.is_null() {
            continue;
        }
        let (group, _) = kind.group_version();
        let collection = format!("/apis/{group}/v1/{}", kind.plural());
        rewritten += rewrite_all(client, kind, &collection).await?;
        let status = json!({"status": {"storedVersions": ["v1"]}});
        patch(client, &format!("{PATH}/{}/status", name(kind)), &status).await?;
        tracing::info!(controller = "migration.crd", definition = name(kind), "all objects are stored as v1");
    }
    Ok(rewritten)
}

fn is_stored_as_v1(definition: &Value) -> bool {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions.iter().any(|version| version["name"] == "v1" && version["storage"] == true)
}

/// Any write stores an object anew; the annotation says that ours has happened.
async fn rewrite_all(client: &Client, kind: Kind, collection: &str) -> kube::Result<usize> {
    let mut rewritten = 0;
    let mut more = String::new();
    loop {
        let page = http::Request::get(format!("{collection}?limit={PAGE}&continue={more}")).body(Vec::new());
        let list: Value = client.request(page.expect("made of constants and a token")).await?;
        for object in list["items"].as_array().into_iter().flatten() {
            if object["metadata"]["annotations"][conversion::MIGRATED] == "true" {
                continue;
            }
            let Some(object_name) = object["metadata"]["name"].as_str() else { continue };
            let change = json!({"metadata": {"annotations": {conversion::MIGRATED: "true"}}});
            match patch(client, &format!("{collection}/{object_name}"), &change).await {
                Ok(()) => rewritten += 1,
                // Gone in the meantime: nothing is stored of it at all.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        match list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => more = token.to_owned(),
            None => break,
        }
    }
    if rewritten > 0 {
        let kind = kind.as_str();
        tracing::info!(controller = "migration.resource", kind, count = rewritten, "objects were rewritten as v1");
    }
    Ok(rewritten)
}

async fn patch(client: &Client, path: &str, change: &Value) -> kube::Result<()> {
    let request = http::Request::patch(path)
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(change.to_string().into_bytes());
    client.request::<Value>(request.expect("a path made of names")).await.map(drop)
}
