//! Ignored tests that no section of `.ci/run` runs: nobody would hear of it when they fail.

const SECTIONS: &str = ".ci/run";

pub(crate) fn unrun(texts: &[(String, String)]) -> Vec<String> {
    let Some((_, sections)) = texts.iter().find(|(name, _)| name == SECTIONS) else {
        return vec![format!("there is no {SECTIONS}")];
    };
    let runs = |target: &str| sections.lines().any(|line| line.contains("--ignored") && line.contains(target));
    let mut faults = Vec::new();
    for (name, text) in texts.iter().filter(|(name, _)| name.ends_with(".rs")) {
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("#[ignore") && !target(name).is_some_and(|target| runs(&target)) {
                faults.push(format!("{name}:{}: ignored, and no section of {SECTIONS} runs it", number + 1));
            }
        }
    }
    faults
}

/// How cargo is told to run an integration test; tests beside the code are never ignored.
fn target(name: &str) -> Option<String> {
    let (_, file) = name.strip_prefix("crates/")?.split_once("/tests/")?;
    let file = file.split_once('/').map_or(file, |(folder, _)| folder);
    Some(format!("--test {} ", file.trim_end_matches(".rs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_test_is_run_by_a_section() {
        let sections = "    cargo test -p a --test load -- --ignored\n    cargo test --test other --no-run\n";
        let ignored = "#[test]\n    #[ignore = \"takes long\"]\nfn slow() {}\n";
        for (name, text, count) in [
            ("crates/a/tests/load.rs", ignored, 0),
            ("crates/a/tests/load/part.rs", ignored, 0),
            ("crates/a/tests/other.rs", ignored, 1),
            ("crates/a/tests/loads.rs", ignored, 1),
            ("crates/a/src/lib.rs", ignored, 1),
            ("crates/a/tests/other.rs", "#[test]\nfn quick() {}\n", 0),
        ] {
            let texts = [(SECTIONS, sections), (name, text)].map(|(name, text)| (name.to_owned(), text.to_owned()));
            assert_eq!(unrun(&texts).len(), count, "{name}");
        }
    }
}
