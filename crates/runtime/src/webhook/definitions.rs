//! Where the definitions say that the webhook is.

use karpenter_api::{ConversionService, Kind, conversion};
use kube::Client;
use serde_json::{Value, json};

pub(super) const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Points the definitions that serve v1beta1 to the webhook. Those that do not, such as upstream's, are left alone.
pub async fn announce(client: &Client, service: &ConversionService) -> kube::Result<()> {
    for kind in conversion::KINDS {
        let Some(mut definition) = read(client, kind).await? else { continue };
        let wanted = service.stanza(kind);
        if !serves_v1beta1(&definition) || holds(&definition["spec"]["conversion"], &wanted) {
            continue;
        }
        definition["spec"]["conversion"] = wanted;
        write(client, kind, &definition).await?;
    }
    Ok(())
}

/// The way back to upstream's definitions: v1 alone, without a webhook. Objects must have been migrated before.
pub async fn withdraw(client: &Client) -> kube::Result<()> {
    for kind in conversion::KINDS {
        let Some(mut definition) = read(client, kind).await? else { continue };
        if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
            versions.retain(|version| version["name"] != conversion::V1BETA1);
        }
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        write(client, kind, &definition).await?;
    }
    Ok(())
}

pub(super) fn name(kind: Kind) -> String {
    format!("{}.{}", kind.plural(), kind.group_version().0)
}

pub(super) async fn read(client: &Client, kind: Kind) -> kube::Result<Option<Value>> {
    let request = http::Request::get(format!("{PATH}/{}", name(kind))).body(Vec::new());
    match client.request(request.expect("made of constants")).await {
        Ok(definition) => Ok(Some(definition)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// As a whole and with its resource version, so that nobody's change is undone.
async fn write(client: &Client, kind: Kind, definition: &Value) -> kube::Result<()> {
    let request = http::Request::put(format!("{PATH}/{}", name(kind)))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(definition.to_string().into_bytes());
    match client.request::<Value>(request.expect("made of constants")).await {
        Ok(_) => Ok(()),
        // Somebody else wrote; the next look will tell what is left to do.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

fn serves_v1beta1(definition: &Value) -> bool {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions.iter().any(|version| version["name"] == conversion::V1BETA1 && version["served"] == true)
}

/// Whether everything wanted is there, whatever else the server has filled in.
fn holds(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| found.get(key).is_some_and(|there| holds(there, value)))
        }
        _ => found == wanted,
    }
}
