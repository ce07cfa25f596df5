//! Writes to the API server. Every answer goes into the index, so that the next look sees what was written.

use k8s_openapi::NamespaceResourceScope;
use karpenter_index::{Kind, Object};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ClusterResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result, unless_gone};

/// A cluster-scoped object of ours to write: NodeClaim, NodePool, Node.
pub trait Written:
    kube::Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Clone
    + PartialEq
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Into<Object>
    + Send
    + Sync
{
}

impl<T> Written for T where
    T: kube::Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + PartialEq
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
        + Into<Object>
        + Send
        + Sync
{
}

impl Context {
    pub async fn create<T: Written>(&self, object: &T) -> Result<T> {
        let made = Api::<T>::all(self.client.clone()).create(&PostParams::default(), object).await?;
        self.saw(made.clone());
        Ok(made)
    }

    /// The object as the server has it now, past what the watch has told so far.
    pub async fn read<T: Written>(&self, name: &str) -> Result<Option<T>> {
        let found = Api::<T>::all(self.client.clone()).get_opt(name).await?;
        if let Some(object) = &found {
            self.saw(object.clone());
        }
        Ok(found)
    }

    /// A merge patch. Lists are replaced whole, so a patch of one carries the version that was read: [`locked`].
    pub async fn merge<T: Written>(&self, name: &str, body: &Value) -> Result<T> {
        let api = Api::<T>::all(self.client.clone());
        let answer = api.patch(name, &PatchParams::default(), &Patch::Merge(body)).await?;
        self.saw(answer.clone());
        Ok(answer)
    }

    /// As [`Context::merge`], for the status.
    pub async fn merge_status<T: Written>(&self, name: &str, body: &Value) -> Result<T> {
        let api = Api::<T>::all(self.client.clone());
        let answer = api.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await?;
        self.saw(answer.clone());
        Ok(answer)
    }

    /// Puts another status in place of the one that was read; nothing else of `body` counts but its version.
    pub async fn replace_status<T: Written>(&self, name: &str, body: &Value) -> Result<T> {
        let mut body = body.clone();
        body["apiVersion"] = json!(T::api_version(&()));
        body["kind"] = json!(T::kind(&()));
        body["metadata"]["name"] = json!(name);
        let path = format!("{}/{name}/status", T::url_path(&(), None));
        let request = request("PUT", &path, Some("application/json"), body.to_string().into_bytes());
        let answer: T = self.client.request(request).await?;
        self.saw(answer.clone());
        Ok(answer)
    }

    /// Deletes this very object; one that is gone already, or another of the same name, is no error. `reads` are the
    /// kinds that the decision was made from: if one of them was not heard from lately, nothing is deleted.
    pub async fn delete<T: Written>(&self, name: &str, uid: &str, reads: &[Kind]) -> Result<()> {
        self.heard_lately(reads)?;
        let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        let answer = Api::<T>::all(self.client.clone()).delete(name, &params).await.map_err(Error::from);
        match unless_gone(answer) {
            // Until the last finalizer is gone the object is still there, marked.
            Ok(Some(either)) => {
                if let Some(marked) = either.left().filter(|object| object.meta().deletion_timestamp.is_some()) {
                    self.saw(marked);
                }
                Ok(())
            }
            Ok(None) => Ok(()),
            // Somebody else has the name by now, unless the very object is still there: then nothing was deleted.
            Err(error) if error.is_conflict() => {
                let found = Api::<T>::all(self.client.clone()).get_opt(name).await?;
                let is_there = found.is_some_and(|found| found.meta().uid.as_deref() == Some(uid));
                if is_there { Err(error) } else { Ok(()) }
            }
            Err(error) => Err(error),
        }
    }

    /// A merge patch of a pod's status.
    pub async fn merge_pod_status(&self, namespace: &str, name: &str, body: &Value) -> Result<()> {
        let api = namespaced::<k8s_openapi::api::core::v1::Pod>(self, namespace);
        let answer = api.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await?;
        self.saw(answer);
        Ok(())
    }
}

fn namespaced<T>(context: &Context, namespace: &str) -> Api<T>
where
    T: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(context.client.clone(), namespace)
}

/// Adds to a patch the version it was computed from: it fails with a conflict if somebody wrote in between.
pub fn locked(mut body: Value, resource_version: Option<&str>) -> Value {
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body["metadata"]["resourceVersion"] = json!(resource_version);
    body
}

pub(crate) fn request(method: &str, path: &str, content_type: Option<&str>, body: Vec<u8>) -> http::Request<Vec<u8>> {
    let builder = http::Request::builder().method(method).uri(path);
    let builder = match content_type {
        Some(kind) => builder.header(http::header::CONTENT_TYPE, kind),
        None => builder,
    };
    builder.body(body).expect("paths are made of names an API server admitted")
}

/// A value in a query: everything but letters and digits, which is more than needed and never wrong.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    out
}
