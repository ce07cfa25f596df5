//! Paths: files, folders, standard input.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use karpenter_manifests::{read_input, read_sources};

fn folder(name: &str, files: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    root
}

fn names(paths: &[PathBuf], stdin: &str) -> Vec<String> {
    let sources = read_sources(paths, &mut stdin.as_bytes()).unwrap();
    sources.into_iter().map(|source| String::from_utf8(source.bytes).unwrap()).collect()
}

#[test]
fn folders_are_read_recursively_in_name_order() {
    let root = folder("in-order", &["b.yaml", "a/z.yml", "a/c.json", "c.txt", "a.yaml", "d/e/f.yaml"]);
    assert_eq!(names(&[root], ""), ["a/c.json", "a/z.yml", "a.yaml", "b.yaml", "d/e/f.yaml"]);
}

#[test]
fn a_named_file_is_read_whatever_it_is_called_and_a_dash_is_standard_input() {
    let root = folder("named", &["notes.txt"]);
    assert_eq!(names(&[root.join("notes.txt"), PathBuf::from("-")], "typed"), ["notes.txt", "typed"]);
}

#[test]
fn every_path_that_cannot_be_read_is_told() {
    let root = folder("missing", &[]);
    let errors = read_sources(&[root.join("x"), root.join("y")], &mut "".as_bytes()).unwrap_err();
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2);
    assert!(told[0].contains("missing/x: ") && told[1].contains("missing/y: "), "{told:?}");
}

#[test]
fn skipped_files_are_counted_and_a_folder_without_manifests_is_told() {
    let root = folder("skipped", &["a.yaml", "b.txt", "c/README.md"]);
    let input = read_input(std::slice::from_ref(&root), &mut "".as_bytes()).unwrap();
    assert_eq!(input.sources.len(), 1);
    let want = format!("{}: skipped 2 files that are not called .yaml, .yml or .json", root.display());
    assert_eq!(input.notes, [want]);
    let root = folder("nothing", &["b.txt"]);
    let errors = read_input(std::slice::from_ref(&root), &mut "".as_bytes()).unwrap_err();
    let want = "there are no manifests in this folder: skipped 1 file that is not called .yaml, .yml or .json";
    assert!(errors.len() == 1 && errors[0].to_string().ends_with(want), "{errors:?}");
}
