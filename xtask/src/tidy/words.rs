//! Words that say where somebody worked instead of what the product is.

/// Folders of the machines that build this, and the word in the address of every registry mirror. Split, so that this
/// file does not hold them.
const BANNED: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/tm", "p/k/"),
    concat!("/tm", "p/w/"),
    concat!("/fa", "rm"),
    concat!("arti", "factory"),
];

pub(crate) fn found_in(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in BANNED.iter().filter(|word| holds(line, word)) {
            faults.push(format!("{name}:{}: {word} belongs to a machine, not to the product", number + 1));
        }
    }
    if name.ends_with(".lock") {
        let foreign =
            text.lines().filter(|line| line.starts_with("source = ") && !line.contains("/rust-lang/crates.io-index"));
        faults.extend(foreign.map(|line| format!("{name}: {line}: not from the public registry")));
    }
    faults
}

/// A word with a slash in front is one only where a path begins: `frame/work/` is not ours to judge.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !word.starts_with('/')
            || !line[..at].ends_with(|before: char| before.is_alphanumeric() || ".-_*}".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_machines_are_found_and_others_are_not() {
        for (line, count) in [
            ("see /wo|rk/main/README.md", 1),
            ("(/tm|p/k/target)", 1),
            ("cd /fa|rm/x", 1),
            ("https://mirror.example/arti|factory/api", 1),
            ("frame/wo|rk/x", 0),
            ("app.kubernetes.io/tm|p/kind", 0),
            ("/tmp/other", 0),
        ] {
            let line = line.replace('|', "");
            assert_eq!(found_in("README.md", &line).len(), count, "{line}");
        }
    }

    #[test]
    fn a_lock_file_names_the_public_registry_only() {
        let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        let mirror = "source = \"registry+https://mirror.example/index\"";
        assert_eq!(found_in("Cargo.lock", public).len(), 0);
        assert_eq!(found_in("Cargo.lock", mirror).len(), 1);
        assert_eq!(found_in("notes.md", mirror).len(), 0);
    }
}
