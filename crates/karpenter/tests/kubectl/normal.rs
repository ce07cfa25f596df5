//! What two honest clusters print differently: times, uids, versions, generated names, addresses, ports, tokens, and which
//! of several equal nodes a pod went to. Everything else is compared.

use std::sync::LazyLock;

use regex_lite::Regex;

/// Letters and digits of generated names: no vowels, so that no words come out.
const RULES: &[(&str, &str)] = &[
    (r"eyJ[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+", "TOKEN"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} [A-Z]+", "TIME"),
    (r"[A-Z][a-z][a-z], \d\d [A-Z][a-z][a-z] \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"[A-Z][a-z][a-z] [A-Z][a-z][a-z] +\d+ \d\d:\d\d:\d\d \d{4}", "TIME"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r#"(?i)(resource ?version"?: *"?)\d+"#, "${1}VERSION"),
    (r"https://127\.0\.0\.1:\d+", "URL"),
    (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
    (r"\b3[0-2]\d{3}\b", "PORT"),
    (r"\bnode-\d+\b", "NODE"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-HASH-RANDOM"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{7,10}\b", "-HASH"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-RANDOM"),
    (r#"(hash"?[:=] ?"?)[bcdfghjklmnpqrstvwxz2456789]{7,10}\b"#, "${1}HASH"),
    (r" \(x\d+ over [0-9dhms]+\)", ""),
    (r"containerd://[0-9a-f]+", "CONTAINER"),
    // Tolerations last 300 seconds; nothing here lives that long.
    (r"\bfor 300s\b", "for five minutes"),
    (r"<invalid>", "AGE"),
    (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s( ago)?\b", "AGE"),
    (r"\b\d+(m|h|d)(\d+h)? ago\b", "AGE"),
    // As CPUs so little is rare, as an age it is not.
    (r"\b\d{1,2}m\b", "AGE"),
    (r" +", " "),
    (r" $", ""),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> =
    LazyLock::new(|| RULES.iter().map(|(pattern, with)| (Regex::new(pattern).unwrap(), *with)).collect());

pub(crate) fn text(text: &str) -> String {
    let line = |line: &str| {
        COMPILED.iter().fold(line.to_owned(), |line, (pattern, with)| pattern.replace_all(&line, *with).into_owned())
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The lines only one of the two has, in place; enough of a diff to see what is wrong.
pub(crate) fn difference(own: &str, real: &str) -> String {
    let (own, real): (Vec<&str>, Vec<&str>) = (own.lines().collect(), real.lines().collect());
    let mut common = vec![vec![0_usize; real.len() + 1]; own.len() + 1];
    for i in (0..own.len()).rev() {
        for j in (0..real.len()).rev() {
            let longer = common[i + 1][j].max(common[i][j + 1]);
            common[i][j] = if own[i] == real[j] { common[i + 1][j + 1] + 1 } else { longer };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < own.len() || j < real.len() {
        if i < own.len() && j < real.len() && own[i] == real[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == real.len() || (i < own.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(format!("   ours   {}", own[i]));
            i += 1;
        } else {
            lines.push(format!("   theirs {}", real[j]));
            j += 1;
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_by_nature_is_removed() {
        for (given, want) in [
            ("pod/web-5d4f8c7b9-x2x4k   1/1   Running   0   12s", "pod/web-HASH-RANDOM 1/1 Running 0 AGE"),
            ("web-5d4f8c7b95   3   3", "web-HASH 3 3"),
            ("Start Time:  Sun, 15 Nov 2026 13:00:00 +0000", "Start Time: TIME"),
            (
                "node.kubernetes.io/not-ready:NoExecute op=Exists for 300s",
                "node.kubernetes.io/not-ready:NoExecute op=Exists for five minutes",
            ),
            ("  cpu: 100m", " cpu: 100m"),
            ("  \"resourceVersion\": \"123\",", " \"resourceVersion\": \"VERSION\","),
            ("Normal  Pulled  5s (x2 over 7s)  kubelet", "Normal Pulled AGE kubelet"),
        ] {
            assert_eq!(text(given), want);
        }
    }

    #[test]
    fn differences_stand_in_their_place() {
        assert_eq!(difference("a\nb\nc", "a\nc\nd"), "   ours   b\n   theirs d");
        assert_eq!(difference("same", "same"), "");
    }
}
