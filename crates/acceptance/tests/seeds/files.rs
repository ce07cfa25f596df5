//! Manifests of the examples, with the variables filled in that scripts and Terraform fill in.

use std::path::PathBuf;

use karpenter_manifests::{Source, read_sources};
use serde_json::Value;

/// What the first document's shell would have in its environment.
const VARIABLES: [(&str, &str); 3] = [
    ("${CLUSTER_NAME}", "demo"),
    ("${AMD_AMI_ID}", "ami-0aaaaaaaaaaaaaaaa"),
    ("${GPU_AMI_ID}", "ami-0bbbbbbbbbbbbbbbb"),
];

pub(crate) fn sources(paths: &[&str]) -> Vec<Source> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/seeds");
    let paths: Vec<PathBuf> = paths.iter().map(|path| root.join(path)).collect();
    let mut sources = read_sources(&paths, &mut std::io::empty()).unwrap();
    for source in &mut sources {
        let text = String::from_utf8(source.bytes.clone()).unwrap();
        source.bytes = VARIABLES.iter().fold(text, |text, (name, value)| text.replace(name, value)).into_bytes();
    }
    assert!(!sources.is_empty(), "{paths:?}");
    sources
}

pub(crate) fn objects(paths: &[&str]) -> Vec<Value> {
    let read = |source: Source| serde_saphyr::from_multiple::<Value>(str::from_utf8(&source.bytes).unwrap()).unwrap();
    sources(paths).into_iter().flat_map(read).filter(|object| object["kind"].is_string()).collect()
}

/// The one object of a kind and name.
pub(crate) fn object(paths: &[&str], kind: &str, name: &str) -> Value {
    let found = objects(paths).into_iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{kind} {name} in {paths:?}"))
}

/// More manifests, written by a test.
pub(crate) fn written(objects: &[Value]) -> Source {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    Source { name: "test".into(), bytes: list.to_string().into_bytes() }
}
