//! Bad requests: bodies, patches, selectors, paths and CEL that nobody in his right mind would send. Whatever comes, the
//! server answers, does not panic, and its store stays whole.
//!
//! Each target starts from the requests of the differential suite and shakes them. `FUZZ_ITERATIONS` says how many times
//! (what fits a minute in all by default), `FUZZ_SECONDS` for how long instead, `FUZZ_SEED` where to start, `FUZZ_SHOW`
//! which answers to print, by their code.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::panic::AssertUnwindSafe;
use std::path::Path;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::{ApiServer, Options};
use serde_json::{Value, json};
use tower::Service as _;

#[path = "fuzz/mutate.rs"]
mod mutate;

use mutate::{Chance, KEYS, TEXTS, garble, scalar, shake, value};

#[derive(Clone, Debug)]
struct Request {
    method: String,
    path: String,
    media: String,
    body: Vec<u8>,
}

/// The requests of the differential suite.
fn corpus() -> Vec<Request> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut requests = Vec::new();
    for file in files {
        let steps: Vec<Value> = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for step in steps {
            let (method, path) = step["do"].as_str().unwrap().split_once(' ').unwrap();
            let (method, media) = match method {
                "MERGE" => ("PATCH", "application/merge-patch+json"),
                "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
                "JSONPATCH" => ("PATCH", "application/json-patch+json"),
                "APPLY" => ("PATCH", "application/apply-patch+yaml"),
                other => (other, "application/json"),
            };
            let body = match &step["body"] {
                Value::Null => Vec::new(),
                Value::String(text) => text.clone().into_bytes(),
                other => other.to_string().into_bytes(),
            };
            let path = path.replace(' ', "%20").replace("${", "x").replace('}', "");
            requests.push(Request { method: method.into(), path, media: media.into(), body });
        }
    }
    requests
}

/// Sends a request and reads what comes, a few pieces of it where it goes on.
async fn send(server: &ApiServer, request: &Request) -> Option<(u16, Bytes)> {
    let built = http::Request::builder()
        .method(request.method.as_str())
        .uri(&request.path)
        .header("content-type", &request.media)
        .body(Full::new(Bytes::from(request.body.clone())));
    // What no client can put on the wire is none of the server's business.
    let response = server.service().call(built.ok()?).await.unwrap();
    let code = response.status().as_u16();
    let mut body = response.into_body();
    let mut first = Bytes::new();
    for piece in 0..3 {
        let Ok(Some(frame)) = tokio::time::timeout(std::time::Duration::from_secs(1), body.frame()).await else {
            break;
        };
        if piece == 0 {
            first = frame.unwrap().into_data().unwrap_or_default();
        }
    }
    Some((code, first))
}

/// After this many requests the store is looked at, after this many rounds a new server starts.
const LOOK_EVERY: usize = 200;
const ROUNDS: usize = 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[expect(clippy::disallowed_methods, reason = "FUZZ_SECONDS are real ones; nothing is judged by them")]
fn real_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Runs a target: `make` draws a request.
fn fuzz(iterations: usize, mut make: impl FnMut(&[Request], &mut Chance) -> Request) {
    let iterations = setting("FUZZ_ITERATIONS").map_or(iterations, |n| n as usize);
    let end = setting("FUZZ_SECONDS").map(|seconds| real_seconds() + seconds);
    let mut seed = setting("FUZZ_SEED").unwrap_or(1);
    let show = setting("FUZZ_SHOW");
    let corpus = corpus();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let (mut done, mut counts) = (0, std::collections::BTreeMap::<u16, usize>::new());
    let more = |done: usize| end.map_or(done < iterations, |end| real_seconds() < end);
    while more(done) {
        let server = ApiServer::new(Options::new());
        // What the suite would delete stays, so that there is something to spoil.
        for request in corpus.iter().filter(|request| request.method != "DELETE") {
            runtime.block_on(send(&server, request));
        }
        for _ in 0..ROUNDS {
            let first = seed;
            for _ in 0..LOOK_EVERY {
                let request = make(&corpus, &mut Chance::new(seed));
                let answer = runtime.block_on(AssertUnwindSafe(send(&server, &request)).catch_unwind());
                let code = answer.unwrap_or_else(|_| {
                    let body = String::from_utf8_lossy(&request.body);
                    panic!("seed {seed}: {} {} {}\n{body}", request.method, request.path, request.media)
                });
                let (code, first) = code.unwrap_or_default();
                *counts.entry(code).or_default() += 1;
                if show == Some(u64::from(code)) {
                    println!("{} {} {}", request.method, request.path, String::from_utf8_lossy(&first));
                }
                seed += 1;
                done += 1;
            }
            let broken = server.violations();
            assert!(broken.is_empty(), "seeds {first} to {seed}: {broken:#?}");
            if !more(done) {
                break;
            }
        }
    }
    println!("{done} requests, answered {counts:?}");
}

fn one_of(corpus: &[Request], chance: &mut Chance, fits: impl Fn(&Request) -> bool) -> Request {
    loop {
        let request = chance.pick(corpus);
        if fits(request) {
            return request.clone();
        }
    }
}

fn shaken(request: Request, chance: &mut Chance) -> Request {
    if chance.one_in(40) {
        let mut body = b"k8s\0".to_vec();
        body.extend((0..chance.below(200)).map(|_| chance.next() as u8 & if chance.one_in(2) { 0x1f } else { 0xff }));
        return Request { body, media: "application/vnd.kubernetes.protobuf".into(), ..request };
    }
    let body = match serde_json::from_slice::<Value>(&request.body) {
        Ok(mut document) if !chance.one_in(10) => {
            // Mostly below the top, and under a name of its own, or nothing would get far.
            if request.method == "POST"
                && let Some(name) = document.pointer_mut("/metadata/name")
                && !chance.one_in(4)
            {
                *name = Value::from(format!("f{}", chance.below(1_000_000)));
            }
            match document.get_mut("spec") {
                Some(spec) if !chance.one_in(3) => shake(spec, chance),
                _ => shake(&mut document, chance),
            }
            document.to_string().into_bytes()
        }
        _ => garble(&String::from_utf8_lossy(&request.body), chance),
    };
    let media = if chance.one_in(20) { "application/yaml".to_owned() } else { request.media.clone() };
    Request { body, media, ..request }
}

#[test]
fn bodies() {
    fuzz(6_000, |corpus, chance| {
        let mut request = one_of(corpus, chance, |request| matches!(request.method.as_str(), "POST" | "PUT"));
        if chance.one_in(30) {
            request = one_of(corpus, chance, |request| request.method == "DELETE");
            let options = json!({"gracePeriodSeconds": scalar(chance), "propagationPolicy": scalar(chance)});
            request.body = options.to_string().into_bytes();
            return request;
        }
        // Bodies meant for one kind go to another.
        if chance.one_in(10) {
            let fits = |request: &Request| request.method == "POST" || request.method == "PUT";
            let other = one_of(corpus, chance, fits);
            (request.path, request.method) = (other.path, other.method);
        }
        shaken(request, chance)
    });
}

const PATCHES: [&str; 4] = [
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
];

fn operation(chance: &mut Chance) -> Value {
    let pointer = |chance: &mut Chance| {
        let steps: Vec<&str> = (0..chance.below(5))
            .map(|_| match chance.below(8) {
                0 => "-",
                1 => "0",
                2 => *chance.pick(TEXTS),
                _ => *chance.pick(KEYS),
            })
            .collect();
        if steps.is_empty() && chance.one_in(2) { String::new() } else { format!("/{}", steps.join("/")) }
    };
    let kind = *chance.pick(&["add", "remove", "replace", "move", "copy", "test", "nonsense"]);
    json!({"op": kind, "path": pointer(chance), "from": pointer(chance), "value": value(chance, 3)})
}

#[test]
fn patches() {
    fuzz(6_000, |corpus, chance| {
        let mut request = one_of(corpus, chance, |request| request.method == "PATCH");
        if chance.one_in(3) {
            request.media = (*chance.pick(&PATCHES)).to_owned();
        }
        if chance.one_in(3) {
            request.path = one_of(corpus, chance, |request| request.method == "PATCH" || request.method == "PUT").path;
        }
        if request.media == "application/apply-patch+yaml" && !request.path.contains("fieldManager") {
            let sign = if request.path.contains('?') { '&' } else { '?' };
            request.path = format!("{}{sign}fieldManager=m{}&force=true", request.path, chance.below(15));
        }
        if request.media == "application/json-patch+json" && chance.one_in(2) {
            let mut operations: Vec<Value> = (0..=chance.below(6)).map(|_| operation(chance)).collect();
            if chance.one_in(10) {
                // Nests an object into itself, again and again.
                operations
                    .extend((0..chance.below(300)).map(|_| json!({"op": "copy", "from": "/spec", "path": "/spec/a"})));
            }
            request.body = Value::Array(operations).to_string().into_bytes();
            return request;
        }
        shaken(request, chance)
    });
}

#[test]
fn selectors_and_queries() {
    const PARAMETERS: &[&str] = &[
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "watch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "fieldManager",
        "fieldValidation",
        "dryRun",
        "force",
        "pretty",
        "includeObject",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
    ];
    const PIECES: &[&str] = &[
        "a",
        "app",
        "=",
        "==",
        "!=",
        ",",
        " in ",
        " notin ",
        "(",
        ")",
        "!",
        "metadata.name",
        "spec.nodeName",
        "status.phase",
        " ",
        "web",
        "example.com/x",
        "<",
        ">",
        "gt",
        "\"",
        "'",
        "\\,",
        "1",
        "é",
        "%",
        "&",
        ";",
        "true",
        "false",
        "0",
        "Exact",
        "NotOlderThan",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    ];
    fuzz(12_000, |corpus, chance| {
        let mut request = corpus[chance.below(corpus.len())].clone();
        let path = request.path.split('?').next().unwrap().to_owned();
        let mut query = Vec::new();
        for _ in 0..=chance.below(4) {
            let name = *chance.pick(PARAMETERS);
            let text: String = match chance.below(4) {
                0 => (*chance.pick(TEXTS)).to_owned(),
                _ => (0..chance.below(7)).map(|_| *chance.pick(PIECES)).collect(),
            };
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            query.push(format!("{name}={escaped}"));
        }
        if chance.one_in(2) {
            request.method = "GET".into();
        }
        Request { path: format!("{path}?{}", query.join("&")), ..request }
    });
}

#[test]
fn paths() {
    const SEGMENTS: &[&str] = &[
        "api",
        "apis",
        "v1",
        "apps",
        "v2",
        "namespaces",
        "default",
        "pods",
        "deployments",
        "status",
        "scale",
        "binding",
        "eviction",
        "log",
        "exec",
        "proxy",
        "watch",
        "token",
        "serviceaccounts",
        "nodes",
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        "openapi",
        "v3",
        "version",
        "healthz",
        "readyz",
        "livez",
        "ping",
        "",
        ".",
        "..",
        "%2F",
        "%00",
        "%ff",
        "%zz",
        "metrics",
        "events.k8s.io",
        "events",
        "resize",
        "finalize",
        "approval",
        "ephemeralcontainers",
        "%C3%A9",
        "configmaps",
        "?",
        "a:b",
    ];
    const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "BREW"];
    fuzz(20_000, |corpus, chance| {
        let mut request = corpus[chance.below(corpus.len())].clone();
        let mut segments: Vec<String> = request.path.split('/').skip(1).map(str::to_owned).collect();
        for _ in 0..=chance.below(3) {
            let at = chance.below(segments.len() + 1);
            let segment = (*chance.pick(SEGMENTS)).to_owned();
            match chance.below(3) {
                0 if at < segments.len() => segments[at] = segment,
                1 if at < segments.len() => drop(segments.remove(at)),
                _ => segments.insert(at, segment),
            }
        }
        if chance.one_in(3) {
            request.method = (*chance.pick(METHODS)).to_owned();
        }
        Request { path: format!("/{}", segments.join("/")), ..request }
    });
}

#[derive(Clone, Copy)]
enum Type {
    Bool,
    Int,
    Text,
    List,
}

/// Expressions of a type, from pieces that mostly fit together.
fn expression(chance: &mut Chance, ty: Type, depth: usize) -> String {
    const JUNK: &[&str] = &[
        "self",
        "oldSelf",
        "oldSelf.n",
        "9223372036854775807",
        "-9223372036854775808",
        "1u",
        "1.5",
        "b'x'",
        "null",
        "{}",
        "{'a': 1}",
        "duration('1h')",
        "timestamp(self.t).getHours()",
        "quantity('1Gi').isGreaterThan(quantity('1'))",
        "optional.none()",
        "self.?a.orValue('z')",
        "type(self)",
        "self.q",
        "x",
        "dyn(self)",
    ];
    if chance.one_in(25) {
        return (*chance.pick(JUNK)).to_owned();
    }
    let leaf = depth == 0 || chance.one_in(5);
    let mut sub = |ty: Type| expression(chance, ty, depth.saturating_sub(1));
    let (a, b, c) = if leaf {
        Default::default()
    } else {
        match ty {
            Type::Bool => (sub(Type::Bool), sub(Type::Int), sub(Type::Text)),
            Type::Int => (sub(Type::Int), sub(Type::Int), sub(Type::List)),
            Type::Text => (sub(Type::Text), sub(Type::Text), sub(Type::Int)),
            Type::List => (sub(Type::List), sub(Type::Int), sub(Type::Bool)),
        }
    };
    let other = if leaf { String::new() } else { expression(chance, ty, depth - 1) };
    match (ty, leaf) {
        (Type::Bool, true) => (*chance.pick(&[
            "true",
            "false",
            "has(self.a)",
            "'a' in self.m",
            "1 in self.l",
            "self.n > 3",
            "self.a == 'x'",
        ]))
        .to_owned(),
        (Type::Int, true) => (*chance.pick(&[
            "0",
            "1",
            "-1",
            "self.n",
            "size(self.l)",
            "self.l[0]",
            "self.a.size()",
            "size(self.m)",
            "7",
        ]))
        .to_owned(),
        (Type::Text, true) => {
            (*chance.pick(&["''", "'x'", "'日本'", "self.a", "self.m['a']", "self.t", "'a.b'", "\"[a-z]+\"", "'%s'"]))
                .to_owned()
        }
        (Type::List, true) => (*chance.pick(&["self.l", "[]", "[1, 2, 3]", "[self.n]"])).to_owned(),
        (Type::Bool, false) => match chance.below(12) {
            0 => format!("({a} && {other})"),
            1 => format!("({a} || {other})"),
            2 => format!("!{a}"),
            3 => format!("({b} < {b})"),
            4 => format!("{c}.contains({c})"),
            5 => format!("{c}.matches({c})"),
            6 => format!("self.l.all(x, x > {b} || {a})"),
            7 => format!("self.l.exists_one(x, x == {b})"),
            8 => format!("({a} ? {other} : {a})"),
            9 => format!("self.m.exists(k, k == {c})"),
            10 => format!("self.m.all(k, v, v == {c} || {a})"),
            _ => format!("{c}.startsWith({c})"),
        },
        (Type::Int, false) => match chance.below(9) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} * {b})"),
            2 => format!("({a} / {b})"),
            3 => format!("({a} % {b})"),
            4 => format!("size({c})"),
            5 => format!("{c}.sum()"),
            6 => format!("{c}[{a}]"),
            7 => format!("{c}.indexOf({a})"),
            _ => format!("-({a})"),
        },
        (Type::Text, false) => match chance.below(9) {
            0 => format!("({a} + {b})"),
            1 => format!("{a}.lowerAscii()"),
            2 => format!("{a}.substring({c})"),
            3 => format!("{a}.replace({b}, {other}, {c})"),
            4 => format!("string({c})"),
            5 => format!("{a}.split({b}, {c}).join({b})"),
            6 => format!("{a}.format([{c}, {b}])"),
            7 => format!("{a}.charAt({c})"),
            _ => format!("{a}.find({b})"),
        },
        (Type::List, false) => match chance.below(6) {
            0 => format!("({a} + {other})"),
            1 => format!("{a}.map(x, x + {b})"),
            2 => format!("{a}.filter(x, x != {b} || {c})"),
            3 => format!("[{b}, {b}]"),
            4 => format!("{a}.map(x, {c}, {b})"),
            _ => format!("({c} ? {a} : {other})"),
        },
    }
}

#[test]
fn cel_rules() {
    let mut number = 0;
    fuzz(4_000, |_, chance| {
        number += 1;
        let plural = format!("things{}", number % 20);
        if !chance.one_in(3) {
            // An object for whichever rules hold by now.
            let mut object = json!({"apiVersion": "fuzz.io/v1", "kind": format!("Thing{}", number % 20),
                "metadata": {"name": format!("t{}", chance.below(5))},
                "spec": {"a": "x", "l": [1, 2], "m": {"a": "b"}, "n": 5, "t": "2026-01-01T00:00:00Z", "q": "1Gi"}});
            if chance.one_in(2) {
                shake(&mut object["spec"], chance);
            }
            let named = chance.one_in(2);
            let path = format!("/apis/fuzz.io/v1/namespaces/default/{plural}");
            return Request {
                method: if named { "PATCH" } else { "POST" }.into(),
                path: if named { format!("{path}/t{}", chance.below(5)) } else { path },
                media: if named { "application/merge-patch+json" } else { "application/json" }.into(),
                body: object.to_string().into_bytes(),
            };
        }
        let depth = 1 + chance.below(4);
        let mut rule = expression(chance, Type::Bool, depth);
        match chance.below(20) {
            0 => rule = String::from_utf8_lossy(&garble(&rule, chance)).into_owned(),
            1 => rule = format!("{}{rule}{}", "(".repeat(chance.below(400)), ")".repeat(chance.below(400))),
            2 => rule = vec![rule; 1 + chance.below(60)].join(" && "),
            _ => {}
        }
        let message = if chance.one_in(4) { expression(chance, Type::Text, 2) } else { "'no'".to_owned() };
        let mut validation = json!({"rule": rule, "messageExpression": message});
        if rule.contains("oldSelf") && chance.one_in(2) {
            validation["optionalOldSelf"] = json!(true);
        }
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-validations": [validation], "required": ["a", "l", "m", "n", "t"],
            "properties": {"a": {"type": "string", "maxLength": 10},
                "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
                "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 10}},
                "n": {"type": "integer"}, "t": {"type": "string", "format": "date-time"},
                "q": {"x-kubernetes-int-or-string": true}}}}});
        let kind = format!("Thing{}", number % 20);
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.fuzz.io")}, "spec": {"group": "fuzz.io", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind}, "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
        let again = chance.one_in(2);
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        Request {
            method: if again { "PATCH" } else { "POST" }.into(),
            path: if again { format!("{path}/{plural}.fuzz.io") } else { path.into() },
            media: if again { "application/merge-patch+json" } else { "application/json" }.into(),
            body: crd.to_string().into_bytes(),
        }
    });
}

#[test]
fn schemas_of_custom_resources() {
    fuzz(2_000, |corpus, chance| {
        let crd = one_of(corpus, chance, |request| {
            request.path.contains("customresourcedefinitions") && request.method == "POST" && !request.body.is_empty()
        });
        let mut request = shaken(crd, chance);
        if chance.one_in(4)
            && let Ok(mut document) = serde_json::from_slice::<Value>(&request.body)
        {
            let keyword =
                *chance.pick(&["pattern", "format", "enum", "default", "minimum", "allOf", "not", "items", "required"]);
            let schema = json!({"type": "object", keyword: scalar(chance)});
            if let Some(spec) = document.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec") {
                *spec = schema;
            }
            request.body = document.to_string().into_bytes();
        }
        request
    });
}
