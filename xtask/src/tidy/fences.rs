//! What a crate may depend on. A crate that cannot name tokio, kube or the SDK cannot do I/O by accident.

use anyhow::Context;

/// Crates whose answers depend on their arguments alone.
const PURE: [&str; 7] = ["core", "scheduling", "disruption", "verify", "ec2", "structural", "kinds"];
/// What only a shell may have.
const IMPURE: [&str; 4] = ["tokio", "kube", "hyper", "reqwest"];
const IMPURE_PREFIXES: [&str; 2] = ["aws-", "tokio-"];

pub(crate) fn broken_by(name: &str, manifest: &str) -> anyhow::Result<Vec<String>> {
    let crate_folder = name.strip_suffix("/Cargo.toml").context("not a manifest")?;
    let crate_name = crate_folder.rsplit('/').next().unwrap_or(crate_folder);
    let mut faults = Vec::new();
    if !manifest.contains("[lints]\nworkspace = true") {
        faults.push(format!("{name}: `[lints] workspace = true` is missing"));
    }
    for (section, line) in dependencies(manifest) {
        let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if !line.contains("workspace = true") {
            faults.push(format!("{name}: {dependency}: versions live in the workspace's Cargo.toml"));
        }
        let impure =
            IMPURE.contains(&dependency) || IMPURE_PREFIXES.iter().any(|prefix| dependency.starts_with(prefix));
        if section == "dependencies" && PURE.contains(&crate_name) && impure {
            faults.push(format!("{name}: {dependency}: this crate is pure"));
        }
        if section == "dependencies" && dependency == "karpenter-testkit" {
            faults.push(format!("{name}: {dependency}: a dev-dependency, never more"));
        }
    }
    Ok(faults)
}

/// The lines of the dependency tables, with the table's name.
fn dependencies(manifest: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        } else if section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#') {
            found.push((section, line));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, tables: &str) -> Vec<String> {
        broken_by(name, &format!("[lints]\nworkspace = true\n{tables}")).unwrap()
    }

    #[test]
    fn fences_hold() {
        for (name, tables, fault) in [
            ("crates/core/Cargo.toml", "[dependencies]\nserde.workspace = true", None),
            ("crates/core/Cargo.toml", "[dependencies]\ntokio.workspace = true", Some("tokio: this crate is pure")),
            ("crates/ec2/Cargo.toml", "[dependencies]\naws-sdk-ec2 = { workspace = true }", Some("this crate is pure")),
            ("crates/cluster/Cargo.toml", "[dependencies]\nkube = { workspace = true }", None),
            ("crates/core/Cargo.toml", "[dev-dependencies]\ntokio.workspace = true", None),
            ("crates/api/Cargo.toml", "[dependencies]\nserde = \"1\"", Some("versions live in the workspace")),
            ("crates/api/Cargo.toml", "[dependencies]\nkarpenter-testkit.workspace = true", Some("never more")),
        ] {
            let found = faults(name, tables);
            assert_eq!(found.len(), usize::from(fault.is_some()), "{name} {tables}: {found:?}");
            assert!(fault.is_none_or(|fault| found[0].contains(fault)), "{name} {tables}: {found:?}");
        }
        assert_eq!(broken_by("crates/api/Cargo.toml", "").unwrap().len(), 1);
    }
}
