//! Texts that try to get out of where they stand: they arrive as they are, and nothing of them is run.

use std::process::{Command, Stdio};

use super::*;
use crate::userdata::quoting::{bash, double, powershell};

/// Whatever people type, and what ends a word, a line, a document or a block in one of the languages.
fn hostile() -> impl Strategy<Value = String> {
    let fragments = [
        "'",
        "''",
        "\"",
        "\\",
        "$(touch /tmp/x)",
        "`touch /tmp/x`",
        "${HOME}",
        "\n--//\n",
        "\n",
        "\r",
        "\t",
        ";",
        "&&",
        "#",
        " ",
        "%",
        "</powershell>",
        "<script>",
        "\u{2019}",
        "\u{2018}; Remove-Item x",
        "$'",
        "\n'''\n",
        "]\n[x]",
        ": ",
        "- ",
        "---",
        "\u{85}",
        "\u{2028}",
        "\u{1b}",
        "\u{7f}",
        "fd00::a",
        "a",
        "true",
        "1e3",
        "@'",
        "\u{1f980}",
    ];
    let fragment = prop_oneof![
        4 => proptest::sample::select(fragments.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,8}".prop_map(|text: String| text),
    ];
    proptest::collection::vec(fragment, 0..8).prop_map(|parts| parts.concat())
}

/// What bash makes of the words of a command line; nothing else may come of running it.
fn words(script: &str) -> Vec<String> {
    let output = Command::new("bash").args(["--norc", "-c", script]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{script:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

fn parses(script: &str) -> bool {
    let checked = Command::new("bash").args(["-n", "-c", script]).stdin(Stdio::null()).output().unwrap();
    checked.status.success() && checked.stderr.is_empty()
}

/// The arguments of the command of a PowerShell block: names, texts in single quotes, or characters joined.
fn powershell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("(-join [char[]](") {
            let (units, after) = inner.split_once("))").unwrap();
            let units: Vec<u16> = units.split(',').map(|unit| unit.parse().unwrap()).collect();
            words.push(String::from_utf16(&units).unwrap());
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('\'') {
            let quote = |c: &char| ['\'', '\u{2018}', '\u{2019}', '\u{201a}', '\u{201b}'].contains(c);
            let (mut text, mut at) = (String::new(), inner.char_indices().peekable());
            rest = loop {
                let (position, c) = at.next().expect("a text in quotes ends");
                if !quote(&c) {
                    text.push(c);
                } else if let Some((_, doubled)) = at.next_if(|(_, next)| quote(next)) {
                    text.push(doubled);
                } else {
                    break &inner[position + c.len_utf8()..];
                }
            };
            words.push(text);
        } else {
            let end = rest.find(' ').unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
        rest = rest.strip_prefix(' ').unwrap_or(rest);
    }
    words
}

#[test]
fn plain_texts_are_quoted_as_upstream_does() {
    for (text, want) in [("10.0.0.10", "'10.0.0.10'"), ("", "''"), ("a<5% \"b\"", "'a<5% \"b\"'")] {
        assert_eq!((bash(text).as_str(), powershell(text).as_str()), (want, want));
    }
    assert_eq!(bash("it's"), r"'it'\''s'");
    assert_eq!(bash("a\n'b"), r"$'a\x0a\'b'");
    assert_eq!(powershell("it's \u{2019}"), "'it''s \u{2019}\u{2019}'");
    assert_eq!(powershell("</"), "(-join [char[]](60,47))");
    assert_eq!(double("a\"\\\n\u{1}\u{85}"), r#""a\"\\\n\x01\u0085""#);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn al2_passes_texts_on_and_runs_none(dns in hostile(), name in hostile(), label in hostile()) {
        // covers: AWS-UD-10, AWS-UD-11, AWS-UD-12
        let mut fixture = Fixture::new(json!({"clusterDNS": [dns], "maxPods": 3}));
        fixture.cluster.name = name.clone();
        fixture.labels = [("a".to_owned(), label.clone())].into();
        let parts = mime::read(&fixture.text(AmiFamily::Al2)).unwrap().parts;
        prop_assert_eq!(parts.len(), 1, "no text makes a part of its own");
        let script = &parts[0].body;
        prop_assert!(parses(script), "{:?}", script);
        let command = &script[script.find("/etc/eks/bootstrap.sh").unwrap()..];
        let args = words(&format!("function /etc/eks/bootstrap.sh {{ printf '%s\\0' \"$@\"; }}\n{command}"));
        prop_assert_eq!(&args[0], &name);
        let after = |flag: &str| args.iter().position(|arg| arg == flag).map(|at| &args[at + 1]);
        prop_assert_eq!(after("--dns-cluster-ip"), Some(&dns));
        let kubelet = after("--kubelet-extra-args").unwrap();
        prop_assert!(!kubelet.contains('\n'), "a line of its own in the unit of the kubelet");
        prop_assert!(kubelet.starts_with(&format!("--node-labels={} ", double(&format!("a={label}")))), "{:?}", kubelet);
    }

    #[test]
    fn windows_passes_texts_on_and_runs_none(dns in hostile(), name in hostile()) {
        // covers: AWS-UD-26
        let mut fixture = Fixture::new(json!({"clusterDNS": [dns]}));
        fixture.cluster.name = name.clone();
        let text = fixture.text(AmiFamily::Windows2022);
        let lines: Vec<&str> = text.lines().collect();
        prop_assert_eq!((lines.len(), lines[0], lines[3]), (4, "<powershell>", "</powershell>"));
        prop_assert_eq!(text.matches("</powershell").count(), 1);
        let words = powershell_words(lines[2].strip_prefix("& $EKSBootstrapScriptFile ").unwrap());
        let after = |flag: &str| words.iter().position(|word| word == flag).map(|at| &words[at + 1]);
        prop_assert_eq!(words.get(1), Some(&name));
        // Searched from the end: the name before it may be any text.
        prop_assert_eq!(words.last(), Some(&dns));
        prop_assert!(after("-KubeletExtraArgs").is_some());
    }

    #[test]
    fn bottlerocket_and_nodeadm_read_what_was_meant(dns in hostile(), key in hostile(), value in hostile()) {
        // covers: AWS-UD-15, AWS-UD-19, AWS-UD-22
        let mut fixture = Fixture::new(json!({"clusterDNS": [dns], "kubeReserved": {key.clone(): value.clone()}}));
        fixture.labels = [(key.clone(), value.clone())].into();
        let kubernetes = &toml_of(&fixture)["settings"]["kubernetes"];
        prop_assert_eq!(&kubernetes["cluster-dns-ip"], &json!(dns));
        prop_assert_eq!(&kubernetes["node-labels"], &json!({key.clone(): value.clone()}));
        prop_assert_eq!(&kubernetes["kube-reserved"], &json!({key.clone(): value.clone()}));
        let parts = mime::read(&fixture.text(AmiFamily::Al2023)).unwrap().parts;
        prop_assert_eq!(parts.len(), 1);
        let config = node_config(&parts);
        let kubelet = &config["spec"]["kubelet"];
        prop_assert_eq!(&kubelet["config"]["clusterDNS"], &json!([dns]));
        prop_assert_eq!(&kubelet["config"]["kubeReserved"], &json!({key.clone(): value.clone()}));
        let flag = format!("--node-labels={}", double(&format!("{key}={value}")));
        prop_assert_eq!(&kubelet["flags"], &json!([flag]));
    }
}
