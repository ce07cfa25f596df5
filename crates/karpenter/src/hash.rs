//! `karpenter hash`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use karpenter_api::{
    EC2NODECLASS_HASH_VERSION, EC2NodeClass, Kind, NODEPOOL_HASH_VERSION, NodePool, ec2nodeclass_hash, nodepool_hash,
};
use karpenter_manifests::{RawObject, raw_objects, read_sources, read_strictly};
use serde::Serialize;
use serde_json::Value;

use crate::bad_input::BadInput;

/// Print the drift hashes of NodePools and EC2NodeClasses
///
/// A node whose hash differs from that of its pool or class has drifted. One JSON object a line, in the order of the
/// input; other kinds are passed over.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter hash -f nodepools.yaml
  kubectl get nodepools,ec2nodeclasses -o yaml | karpenter hash -f -")]
pub(crate) struct Args {
    /// Files or folders of manifests; `-` for standard input
    #[arg(short, long, value_name = "PATH", num_args = 1.., required = true)]
    file: Vec<PathBuf>,
    /// The cluster's CA bundle, which is part of the EC2NodeClass hash [default: CLUSTER_CA_BUNDLE if set, else empty]
    #[arg(long, visible_alias = "ca-bundle", value_name = "BASE64")]
    cluster_ca_bundle: Option<String>,
    /// Hash what is written, without the defaults an API server would fill in
    #[arg(long)]
    no_defaults: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    kind: &'static str,
    name: String,
    hash: String,
    hash_version: &'static str,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let bundle = args.cluster_ca_bundle.clone().or_else(|| std::env::var("CLUSTER_CA_BUNDLE").ok());
    let sources = read_sources(&args.file, &mut io::stdin().lock()).map_err(BadInput::from_all)?;
    let objects = raw_objects(&sources).map_err(BadInput::from_all)?;
    let mut faults = Vec::new();
    let mut lines = Vec::new();
    for object in objects {
        match line(object, !args.no_defaults, bundle.as_deref()) {
            Ok(line) => lines.extend(line),
            Err(more) => faults.extend(more),
        }
    }
    if !faults.is_empty() {
        return Err(BadInput(faults).into());
    }
    for line in lines {
        serde_json::to_writer(&mut *out, &line).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(mut raw: RawObject, defaults: bool, bundle: Option<&str>) -> Result<Option<Line>, Vec<String>> {
    let text = |key: &str| raw.object.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let Some(kind) = Kind::of(&text("apiVersion"), &text("kind")) else {
        return Ok(None);
    };
    if defaults {
        karpenter_api::apply_defaults(kind, &mut raw.object);
    }
    let object = raw.object.take();
    let told = |faults: Vec<karpenter_index::Fault>| {
        faults.into_iter().map(|fault| raw.fault(fault).to_string()).collect::<Vec<_>>()
    };
    Ok(match kind {
        Kind::NodePool => {
            let pool: NodePool = read_strictly(&object).map_err(told)?;
            let (hash, name) = (nodepool_hash(&pool), pool.metadata.name.unwrap_or_default());
            Some(Line { kind: "NodePool", name, hash, hash_version: NODEPOOL_HASH_VERSION })
        }
        Kind::EC2NodeClass => {
            let class: EC2NodeClass = read_strictly(&object).map_err(told)?;
            let hash = ec2nodeclass_hash(&class, bundle);
            let name = class.metadata.name.unwrap_or_default();
            Some(Line { kind: "EC2NodeClass", name, hash, hash_version: EC2NODECLASS_HASH_VERSION })
        }
        Kind::NodeClaim | Kind::NodeOverlay | Kind::CapacityBuffer => None,
    })
}
