//! `karpenter convert`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use karpenter_api::conversion::{self, MIGRATED, NODE_CLASS_REFERENCE};
use karpenter_api::{Fault, Kind, apply_v1beta1_defaults, validate, validate_v1beta1};
use karpenter_manifests::{RawObject, raw_objects, read_sources};
use serde_json::Value;

use crate::bad_input::BadInput;

/// Turn v1beta1 manifests into v1
///
/// NodePools, NodeClaims and EC2NodeClasses of v1beta1 are rewritten; everything else passes through as it is. What
/// v1beta1 took for granted and v1 does not (a hop limit of 2, say) is written out. A kubelet section becomes an
/// annotation, which is honoured and wins over that of the node class.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter convert -f old/ > new.yaml
  kubectl get nodepools,ec2nodeclasses -o yaml | karpenter convert -f - --to v1beta1")]
pub(crate) struct Args {
    /// Files or folders of manifests; `-` for standard input
    #[arg(short, long, value_name = "PATH", num_args = 1.., required = true)]
    file: Vec<PathBuf>,
    /// The version to write
    #[arg(long, value_enum, default_value = "v1")]
    to: Version,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Version {
    V1,
    V1beta1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    Yaml,
    /// One object a line
    Json,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let sources = read_sources(&args.file, &mut io::stdin().lock()).map_err(BadInput::from_all)?;
    let objects = raw_objects(&sources).map_err(BadInput::from_all)?;
    let pools = expiries(&objects);
    let expiry = |name: &str| pools.get(name).cloned();
    let (mut faults, mut converted) = (Vec::new(), Vec::new());
    for raw in objects {
        match convert(&raw, args.to, &expiry) {
            Ok(object) => converted.push(object),
            Err(found) => faults.extend(
                found
                    .into_iter()
                    .map(|Fault { field, message }| raw.fault(karpenter_index::Fault { field, message }).to_string()),
            ),
        }
    }
    if !faults.is_empty() {
        return Err(BadInput(faults).into());
    }
    write_all(&converted, args.output, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Manifests for `kubectl apply`.
pub(crate) fn write_all(objects: &[Value], output: Output, out: &mut dyn Write) -> io::Result<()> {
    for object in objects {
        match output {
            Output::Yaml => write!(out, "---\n{}", karpenter_api::to_yaml(object))?,
            Output::Json => writeln!(out, "{object}")?,
        }
    }
    Ok(())
}

/// The `expireAfter` of the pools that are at hand, of either version: claims of v1beta1 follow their pool's.
fn expiries(objects: &[RawObject]) -> BTreeMap<String, String> {
    let expiry = |raw: &RawObject| {
        let (Kind::NodePool, old) = conversion::convertible(&raw.object)? else { return None };
        let place = if old { "/spec/disruption/expireAfter" } else { "/spec/template/spec/expireAfter" };
        let name = raw.object.pointer("/metadata/name")?.as_str()?.to_owned();
        Some((name, raw.object.pointer(place)?.as_str()?.to_owned()))
    };
    objects.iter().filter_map(expiry).collect()
}

fn convert(raw: &RawObject, to: Version, expiry: conversion::ExpiryOfPool<'_>) -> Result<Value, Vec<Fault>> {
    match (conversion::convertible(&raw.object), to) {
        (Some((kind, true)), Version::V1) => {
            let mut old = raw.object.clone();
            apply_v1beta1_defaults(kind, &mut old);
            refuse(validate_v1beta1(kind, None, &old))?;
            let mut new = conversion::to_v1(kind, &old, expiry);
            // From here on the object lives as v1: how it was written once no longer matters.
            forget(&mut new, &[NODE_CLASS_REFERENCE, MIGRATED]);
            let mut filled = new.clone();
            karpenter_api::apply_defaults(kind, &mut filled);
            refuse(validate(kind, &filled))?;
            Ok(new)
        }
        (Some((kind, false)), Version::V1beta1) => {
            let mut filled = raw.object.clone();
            karpenter_api::apply_defaults(kind, &mut filled);
            refuse(validate(kind, &filled))?;
            Ok(conversion::to_v1beta1(kind, &filled))
        }
        _ => Ok(raw.object.clone()),
    }
}

fn refuse(faults: Vec<Fault>) -> Result<(), Vec<Fault>> {
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn forget(object: &mut Value, keys: &[&str]) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    keys.iter().for_each(|key| drop(annotations.shift_remove(*key)));
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
}
