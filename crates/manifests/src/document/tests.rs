use super::*;

#[derive(Default)]
struct Collect(Vec<String>);

impl Sink for Collect {
    fn object(&mut self, place: Place, object: Map<String, Value>) {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        let place = place.to_string();
        let place = place.strip_prefix("f: document ").unwrap_or(&place);
        self.0.push(format!("{place}: {} {}", text("kind"), object.get("n").unwrap_or(&Value::Null)));
    }

    fn fault(&mut self, place: Place, message: String) {
        self.0.push(format!("{place}: fault {message}"));
    }
}

fn read(text: &str) -> Vec<String> {
    let mut sink = Collect::default();
    each_object(&Source { name: "f".into(), bytes: text.as_bytes().to_vec() }, &mut sink);
    sink.0
}

#[test]
fn documents_and_lists_are_opened() {
    for (name, text, want) in [
        ("yaml", "kind: A\nn: 1\n---\n# nothing\n---\nkind: B\nn: 2\n", vec!["1: A 1", "2: B 2"]),
        ("separator with a comment", "--- # first\nkind: A\n--- \nkind: B\n...\n", vec!["1: A null", "2: B null"]),
        ("json", r#"{"kind": "A", "n": 1} {"kind": "B"}"#, vec!["1: A 1", "2: B null"]),
        (
            "list",
            "kind: List\napiVersion: v1\nitems:\n- {kind: A, n: 1}\n- {kind: B}\n",
            vec!["1, item 1: A 1", "1, item 2: B null"],
        ),
        ("items first", "items:\n- {kind: A, n: 1}\nkind: List\n", vec!["1, item 1: A 1"]),
        ("typed list", r#"{"kind": "PodList", "apiVersion": "v1", "items": [{"n": 1}]}"#, vec!["1, item 1: Pod 1"]),
        ("typed list, items first", "apiVersion: v1\nitems: [{n: 1}]\nkind: PodList\n", vec!["1, item 1: Pod 1"]),
        ("yaml in flow style", "{kind: A, n: 1}\n---\n{kind: B}", vec!["1: A 1", "2: B null"]),
        (
            "json between separators",
            "{\"kind\": \"A\"}\n---\n{\"kind\": \"B\"} {\"kind\": \"C\"}\n---\nkind: D\n",
            vec!["1: A null", "2: B null", "3: C null", "4: D null"],
        ),
        ("separator first", "---\n{\"kind\": \"A\"}\n", vec!["1: A null"]),
        ("byte order mark", "\u{feff}kind: A\n", vec!["1: A null"]),
        ("nothing", "\n# nothing\n", vec![]),
        ("empty list", r#"{"kind": "List", "items": []}"#, vec![]),
        ("octal, as kubectl reads it", "kind: A\nn: 0644\n", vec!["1: A 420"]),
    ] {
        assert_eq!(read(text), want, "{name}");
    }
}

#[test]
fn a_broken_document_does_not_hide_the_next() {
    let seen = read("kind: A\n---\nx: [\n---\nkind: B\n");
    assert_eq!((seen.len(), seen[0].as_str(), seen[2].as_str()), (3, "1: A null", "3: B null"));
    assert!(seen[1].starts_with("f: document 2: fault line "), "{}", seen[1]);
}

#[test]
fn what_is_no_object_is_a_fault() {
    for text in ["just text\n", "[1, 2]", "kind: List\nitems: [1]\n", r#"{"kind": "A""#] {
        let seen = read(text);
        assert!(seen.len() == 1 && seen[0].contains("fault"), "{text}: {seen:?}");
    }
}
