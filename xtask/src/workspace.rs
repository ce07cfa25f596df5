//! Where things are, and running programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// What the program prints. Its failure is ours, with what it said about it.
pub(crate) fn output_of(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// The files that belong to the repository, relative to its root.
pub(crate) fn tracked(root: &Path) -> anyhow::Result<Vec<String>> {
    let listed = output_of(Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]))?;
    let listed = String::from_utf8(listed).context("a file's name is not UTF-8")?;
    Ok(listed.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}
