//! What no compiler tells: files that are part of nothing, words that do not belong here, and fences between crates.

use std::path::Path;

use anyhow::Context;

use crate::workspace;

mod fences;
mod ignored;
mod reach;
mod words;

pub(crate) fn check() -> anyhow::Result<()> {
    let faults = faults(&workspace::root())?;
    anyhow::ensure!(faults.is_empty(), "not tidy:\n  {}", faults.join("\n  "));
    println!("tidy");
    Ok(())
}

fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = workspace::tracked(root)?;
    let read = |name: &String| -> anyhow::Result<Option<(String, String)>> {
        // Tracked, but removed in the working copy.
        let Ok(bytes) = std::fs::read(root.join(name)) else { return Ok(None) };
        // Packed fixtures are not text.
        Ok(String::from_utf8(bytes).ok().map(|text| (name.clone(), text)))
    };
    let texts: Vec<(String, String)> =
        files.iter().map(read).filter_map(Result::transpose).collect::<anyhow::Result<_>>()?;
    let mut faults = reach::unreached(&texts);
    faults.extend(ignored::unrun(&texts));
    faults.extend(texts.iter().flat_map(|(name, text)| words::found_in(name, text)));
    for (name, text) in texts.iter().filter(|(name, _)| name.ends_with("/Cargo.toml")) {
        faults.extend(fences::broken_by(name, text).with_context(|| name.clone())?);
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        let root = crate::workspace::root();
        if !root.join(".git").exists() {
            eprintln!("skipped: not a git checkout, so nothing says which files belong to it");
            return;
        }
        super::check().unwrap();
    }
}
