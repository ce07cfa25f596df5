//! Reasons of events that are kept for others.

use std::path::Path;

use crate::helm::repository;

/// Every line of our own code, tests aside.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let is_test = entry.file_name().is_some_and(|name| name == "tests" || name == "tests.rs");
        if is_test {
            continue;
        }
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push((entry.display().to_string(), std::fs::read_to_string(&entry).unwrap()));
        }
    }
}

#[test]
fn reserved_reasons_are_sent_by_nobody() {
    // covers: API-EV-39
    let mut all = Vec::new();
    for entry in std::fs::read_dir(repository().join("crates")).unwrap() {
        let folder = entry.unwrap().path().join("src");
        if folder.is_dir() {
            sources(&folder, &mut all);
        }
    }
    assert!(all.iter().any(|(_, text)| text.contains("\"FailedDraining\"")), "one that is sent is found");
    for reason in ["FailedTermination", "NodeClassNotReady"] {
        let senders: Vec<&String> =
            all.iter().filter(|(_, text)| text.contains(&format!("\"{reason}\""))).map(|(path, _)| path).collect();
        assert!(senders.is_empty(), "{reason} is in {senders:?}");
    }
}
