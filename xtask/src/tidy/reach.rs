//! Rust files that no `mod` reaches: they compile nowhere, and whoever reads them is misled.

use std::collections::{BTreeMap, BTreeSet};

/// Faults about the `.rs` files among `files` (name and text).
pub(crate) fn unreached(files: &[(String, String)]) -> Vec<String> {
    let sources: BTreeMap<&str, &str> =
        files.iter().filter(|(name, _)| name.ends_with(".rs")).map(|(name, text)| (&**name, &**text)).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = sources.keys().filter(|name| is_root(name)).map(|name| name.to_string()).collect();
    while let Some(name) = open.pop() {
        if !reached.insert(name.clone()) {
            continue;
        }
        let text = sources.get(&*name).copied().unwrap_or_default();
        open.extend(modules(text).into_iter().filter_map(|module| {
            let tried = places(&name, &module);
            tried.into_iter().find(|place| sources.contains_key(&**place))
        }));
    }
    let lost = sources.keys().filter(|name| !reached.contains(**name));
    let lost = lost.map(|name| format!("{name}: no `mod` reaches this file"));
    let old_style = sources.keys().filter(|name| name.ends_with("/mod.rs"));
    lost.chain(old_style.map(|name| format!("{name}: `foo.rs` with `foo/bar.rs` beside it, no `mod.rs`"))).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: String,
    /// From a `#[path = "…"]`.
    path: Option<String>,
}

/// Files that cargo compiles by where they lie.
fn is_root(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [.., "src", "lib.rs" | "main.rs"] | [.., "build.rs"] => true,
        [.., "bin" | "tests" | "benches" | "examples", _] => !parts.contains(&"src") || parts[parts.len() - 2] == "bin",
        [.., "tests" | "benches" | "examples", _, "main.rs"] => !parts.contains(&"src"),
        [.., "fuzz_targets", _] => true,
        _ => false,
    }
}

/// The modules a file declares without a body. By line: rustfmt puts each on its own.
fn modules(text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut path = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.strip_suffix("\"]").map(str::to_owned);
            continue;
        }
        let declared = match line.strip_prefix("pub") {
            // `pub mod`, `pub(crate) mod`, `pub(in …) mod`
            Some(rest) => {
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest).trim_start()
            }
            None => line,
        };
        if let Some(name) = declared.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            found.push(Module { name: name.to_owned(), path: path.take() });
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            path = None;
        }
    }
    found
}

fn places(declared_in: &str, module: &Module) -> Vec<String> {
    let (folder, file) = declared_in.rsplit_once('/').unwrap_or(("", declared_in));
    if let Some(path) = &module.path {
        return vec![normal(&format!("{folder}/{path}"))];
    }
    let below = if is_root(declared_in) || file == "mod.rs" {
        folder.to_owned()
    } else {
        format!("{folder}/{}", file.trim_end_matches(".rs"))
    };
    vec![format!("{below}/{}.rs", module.name), format!("{below}/{}/mod.rs", module.name)]
}

/// The path without its `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        unreached(&files)
    }

    #[test]
    fn modules_are_followed_wherever_they_may_lie() {
        let found = lost(&[
            ("a/src/lib.rs", "mod one;\npub mod two;\n#[cfg(test)]\npub(crate) mod three;\n"),
            ("a/src/one.rs", "mod deep;\n"),
            ("a/src/one/deep.rs", ""),
            ("a/src/two.rs", "#[path = \"../data/table.rs\"]\nmod table;\n"),
            ("a/data/table.rs", ""),
            ("a/src/three.rs", ""),
            ("a/src/bin/tool.rs", ""),
            ("a/tests/whole.rs", "#[path = \"whole/lab.rs\"]\nmod lab;\n"),
            ("a/tests/whole/lab.rs", ""),
            ("a/tests/other/main.rs", "mod seen;\n"),
            ("a/tests/other/seen.rs", ""),
            ("a/benches/solve.rs", ""),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_file_without_a_mod_is_told() {
        let found =
            lost(&[("a/src/lib.rs", "// mod lost;\n"), ("a/src/lost.rs", "mod deep;"), ("a/src/lost/deep.rs", "")]);
        assert_eq!(
            found,
            ["a/src/lost.rs: no `mod` reaches this file", "a/src/lost/deep.rs: no `mod` reaches this file"]
        );
    }

    #[test]
    fn mod_rs_is_told() {
        let found = lost(&[("a/src/lib.rs", "mod old;\n"), ("a/src/old/mod.rs", "")]);
        assert_eq!(found, ["a/src/old/mod.rs: `foo.rs` with `foo/bar.rs` beside it, no `mod.rs`"]);
    }
}
