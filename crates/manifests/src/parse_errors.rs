//! Text that cannot be read, in words for whoever wrote it: the readers' own speak to programmers.

use serde_json::error::Category;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error as YamlError, MessageFormatter as _, UserMessageFormatter};

/// `lines_before`: what the text is preceded by in its file.
pub(crate) fn json(error: &serde_json::Error, lines_before: usize) -> String {
    let told = error.to_string();
    // The reader knows the place only in what stands between two separators.
    let what = told.rsplit_once(" at line ").map_or(told.as_str(), |(what, _)| what);
    let what = match error.classify() {
        Category::Eof => "the text ends too early",
        _ if what == "recursion limit exceeded" => TOO_DEEP,
        _ => what,
    };
    match error.line() {
        0 => what.to_owned(),
        line => format!("line {}, column {}: {}", lines_before + line, error.column(), plainly(what)),
    }
}

pub(crate) fn yaml(error: &YamlError, lines_before: usize) -> String {
    let error = error.without_snippet();
    let what = in_words(error);
    match error.location() {
        Some(at) => format!("line {}, column {}: {what}", lines_before + at.line() as usize, at.column()),
        None => what,
    }
}

const TOO_DEEP: &str = "nested too deep: no object has more than 128 levels";

fn in_words(error: &YamlError) -> String {
    match error {
        YamlError::AliasError { error, .. } | YamlError::WithSnippet { error, .. } => in_words(error),
        YamlError::Budget { breach: BudgetBreach::Depth { .. }, .. } => TOO_DEEP.to_owned(),
        YamlError::Budget { .. }
        | YamlError::AliasReplayCounterOverflow { .. }
        | YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => "the aliases make too large a text".to_owned(),
        YamlError::DuplicateMappingKey { key: Some(key), .. } => format!("the field {key:?} is given twice"),
        YamlError::DuplicateMappingKey { key: None, .. } => "a field is given twice".to_owned(),
        YamlError::Eof { .. } => "the text ends too early".to_owned(),
        other => plainly(&UserMessageFormatter.format_message(other)).replace('\n', " "),
    }
}

/// What a reader of values expects, as a reader of manifests would put it.
fn plainly(what: &str) -> String {
    match what.strip_prefix("invalid type: ").and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            let found = found.replace("sequence", "a list").replace("string", "the text");
            format!("want {expected}, found {found}")
        }
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Place, Sink, each_object};
    use crate::source::Source;

    #[derive(Default)]
    struct Faults(Vec<String>);

    impl Sink for Faults {
        fn object(&mut self, _: Place, _: serde_json::Map<String, serde_json::Value>) {}

        fn fault(&mut self, _: Place, message: String) {
            self.0.push(message);
        }
    }

    fn fault(name: &str, text: &str) -> String {
        let source = Source { name: name.into(), bytes: text.as_bytes().to_vec() };
        let read = move || {
            let mut sink = Faults::default();
            each_object(&source, &mut sink);
            sink.0
        };
        // As much stack as a program's main thread has: unoptimised readers need some of it.
        let reader = std::thread::Builder::new().stack_size(8 << 20).spawn(read).unwrap();
        let mut faults = reader.join().unwrap();
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        faults.remove(0)
    }

    #[test]
    fn no_librarys_words_are_heard() {
        let deep = |open: &str, close: &str| format!("a: {}{}", open.repeat(200), close.repeat(200));
        let json_deep = format!("{{\"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
        for (name, text, want) in [
            ("a.yaml", deep("[", "]").as_str(), TOO_DEEP),
            ("a.json", &json_deep, TOO_DEEP),
            ("a.yaml", "kind: A\nkind: B\n", "the field \"kind\" is given twice"),
            ("a.json", "{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}", "b.c: is given twice"),
            ("a.json", "{\"a\": 1", "ends too early"),
            ("a.json", "{\"kind\": \"A\"}\n---\n{\"kind\": nothing}", "line 3, column"),
            ("a.yaml", "just text", "want a Kubernetes object, found the text"),
            ("a.yaml", "- 1", "want a Kubernetes object, found a list"),
        ] {
            let told = fault(name, text);
            assert!(told.contains(want), "{text}: {told}");
            for word in ["serde", "Options", "breached", "Depth", "recursion", "invalid type", "sequence"] {
                assert!(!told.contains(word), "{text}: {told}");
            }
        }
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
            d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
            g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
        assert!(fault("a.yaml", bomb).contains("aliases make too large"), "{}", fault("a.yaml", bomb));
    }
}
