//! The CustomResourceDefinitions of the charts, one file for each kind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use karpenter_api::{ConversionService, Kind, convertible_crd, crd_file_name, to_yaml};

use crate::workspace;

mod template;

/// The folders and what belongs into each: plain definitions for the chart that installs them once, templates for the one
/// that upgrades them.
fn folders() -> [(PathBuf, BTreeMap<String, String>); 2] {
    let charts = workspace::root().join("charts");
    let plain = |kind| (crd_file_name(kind), to_yaml(&convertible_crd(kind, &usual_service())));
    let template = |kind| (crd_file_name(kind), template::of(kind));
    [
        (charts.join("karpenter/crds"), Kind::ALL.into_iter().map(plain).collect()),
        (charts.join("karpenter-crd/templates"), Kind::ALL.into_iter().map(template).collect()),
    ]
}

/// Plain files cannot know their release. Until the controller has written where its webhook is, requests for v1beta1
/// fail, which is better than objects stored as they came.
fn usual_service() -> ConversionService {
    ConversionService { name: "karpenter".to_owned(), namespace: "kube-system".to_owned(), port: 8443, ca_bundle: None }
}

pub(crate) fn make() -> anyhow::Result<()> {
    for (folder, wanted) in folders() {
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for name in found(&folder)?.keys().filter(|name| !wanted.contains_key(*name)) {
            let path = folder.join(name);
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        for (name, text) in &wanted {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        println!("wrote {} files to {}", wanted.len(), folder.display());
    }
    Ok(())
}

pub(crate) fn check() -> anyhow::Result<()> {
    for (folder, wanted) in folders() {
        let stale = differences(&wanted, &found(&folder)?);
        ensure!(stale.is_empty(), "{}: run `cargo xtask crds`: {}", folder.display(), stale.join(", "));
        println!("{} is up to date", folder.display());
    }
    Ok(())
}

/// Everything in the folder: a definition of a kind that is no more is as stale as one with an old field.
fn found(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text);
    }
    Ok(files)
}

fn differences(wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let missing = wanted.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name} is missing"));
    let needless = found.keys().filter(|name| !wanted.contains_key(*name)).map(|name| format!("{name} is needless"));
    let stale = wanted.iter().filter(|(name, text)| found.get(*name).is_some_and(|found| found != *text));
    missing.chain(needless).chain(stale.map(|(name, _)| format!("{name} is stale"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_have_the_definitions_of_the_program() {
        check().unwrap();
    }

    #[test]
    fn a_missing_a_needless_and_an_altered_file_are_told() {
        let files =
            |list: &[(&str, &str)]| list.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        let wanted = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(differences(&wanted, &wanted), Vec::<String>::new());
        let found = files(&[("b", "2"), ("c", "4"), ("d", "5")]);
        assert_eq!(differences(&wanted, &found), ["a is missing", "d is needless", "c is stale"]);
    }
}
