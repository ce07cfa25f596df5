//! The same requests, the same answers: scripts of requests, sent to the embedded server and compared with the answers of
//! a real one.
//!
//! Each `differential/NAME.yaml` is a list of steps; `differential/NAME.answers` holds what kube-apiserver 1.36 answered,
//! normalised. With `DIFFERENTIAL_KUBECONFIG` set, the script also runs against that cluster and its answers are compared
//! instead; with `DIFFERENTIAL_RECORD=1` they are written down. The cluster's controller manager and scheduler should
//! stand still meanwhile, or they change objects between two steps. `DIFFERENTIAL_ONLY` names one script.
//!
//! Only uids, versions, times, generated names, allocated addresses and descriptions are normalised.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http_body_util::BodyExt as _;
use karpenter_apiserver::{ApiServer, Options, Planted};
use kube::Client;
use serde_json::{Map, Value, json};

#[path = "differential/normalise.rs"]
mod normalise;

/// One request. `save` puts parts of the answer (JSON pointers) into variables that later steps use as `${name}`.
struct Step {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    save: Vec<(String, String)>,
    /// Done for its effect, or (`differs: why`) known to differ: the answer is not compared.
    silent: bool,
}

struct Answer {
    code: u16,
    body: Value,
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    scripts.sort();
    if let Ok(only) = std::env::var("DIFFERENTIAL_ONLY") {
        scripts.retain(|path| path.file_stem().is_some_and(|stem| stem == only.as_str()));
    }
    scripts
}

/// The grammar: `METHOD PATH` with an object, or a bare text, or a map with `do`, `body`, `headers`, `save`, `silent`.
fn steps(path: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(path).unwrap();
    let list: Vec<Value> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    list.into_iter()
        .map(|step| {
            let line = step["do"].as_str().unwrap_or_else(|| panic!("{}: a step without `do`: {step}", path.display()));
            let (method, path) = line.split_once(' ').unwrap_or_else(|| panic!("no path in {line:?}"));
            let (method, media) = match method {
                "MERGE" => ("PATCH", "application/merge-patch+json"),
                "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
                "JSONPATCH" => ("PATCH", "application/json-patch+json"),
                "APPLY" => ("PATCH", "application/apply-patch+yaml"),
                other => (other, "application/json"),
            };
            let mut headers = vec![("user-agent".to_owned(), "differential/1".to_owned())];
            if method != "GET" {
                headers.push(("content-type".to_owned(), media.to_owned()));
            }
            for (name, value) in step["headers"].as_object().into_iter().flatten() {
                headers.retain(|(known, _)| known != name);
                headers.push((name.clone(), value.as_str().unwrap().to_owned()));
            }
            let body = match &step["body"] {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let save = step["save"].as_object().cloned().unwrap_or_else(Map::new);
            let save = save.into_iter().map(|(name, pointer)| (name, pointer.as_str().unwrap().to_owned())).collect();
            Step {
                method: method.into(),
                path: path.into(),
                headers,
                body,
                save,
                silent: step["silent"] == true || step["differs"].is_string(),
            }
        })
        .collect()
}

async fn run(client: &Client, steps: &[Step]) -> Vec<Answer> {
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut answers = Vec::new();
    for step in steps {
        let fill = |text: &str| {
            variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
        };
        let mut request =
            http::Request::builder().method(step.method.as_str()).uri(fill(&step.path).replace(' ', "%20"));
        for (name, value) in &step.headers {
            request = request.header(name, value);
        }
        let body = step.body.as_deref().map(fill).unwrap_or_default();
        let request = request.body(kube::client::Body::from(body.into_bytes())).unwrap();
        let response = client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let warnings: Vec<Value> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|value| Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut body = parse(&bytes);
        for (name, pointer) in &step.save {
            let value = body
                .pointer(pointer)
                .unwrap_or_else(|| panic!("{} {}: nothing at {pointer} in {body}", step.method, step.path));
            let text = value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
            variables.insert(name.clone(), text);
        }
        if !warnings.is_empty() {
            body = json!({"warnings": warnings, "body": body});
        }
        answers.push(Answer { code, body });
    }
    answers
}

/// JSON, a stream of JSON lines, or text.
fn parse(bytes: &[u8]) -> Value {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return value;
    }
    let text = String::from_utf8_lossy(bytes);
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match lines {
        Ok(lines) if !lines.is_empty() => Value::Array(lines),
        _ => Value::from(text.into_owned()),
    }
}

fn render(steps: &[Step], answers: &[Answer]) -> Vec<Value> {
    let mut names = normalise::Names::default();
    let rendered = steps.iter().zip(answers).filter(|(step, _)| !step.silent);
    rendered
        .map(|(step, answer)| {
            let body = names.normalise(answer.body.clone());
            json!({"do": format!("{} {}", step.method, step.path), "code": answer.code, "body": body})
        })
        .collect()
}

/// Where two answers differ, one line each.
fn differences(at: &str, want: &Value, got: &Value, out: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            let keys: std::collections::BTreeSet<&String> = want.keys().chain(got.keys()).collect();
            for key in keys {
                let place = format!("{at}/{key}");
                match (want.get(key), got.get(key)) {
                    (Some(want), Some(got)) => differences(&place, want, got, out),
                    (Some(want), None) => out.push(format!("{place}: missing, want {want}")),
                    (None, Some(got)) => out.push(format!("{place}: not wanted: {got}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(want), Value::Array(got)) if want.len() == got.len() => {
            for (index, (want, got)) in want.iter().zip(got).enumerate() {
                differences(&format!("{at}/{index}"), want, got, out);
            }
        }
        _ if want == got => {}
        _ => out.push(format!("{at}:\n      want {want}\n      got  {got}")),
    }
}

async fn reference() -> Option<Client> {
    let path = std::env::var("DIFFERENTIAL_KUBECONFIG").ok()?;
    let kubeconfig = kube::config::Kubeconfig::read_from(path).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await.unwrap();
    // An answer that says to try again is an answer.
    config.default_retry = false;
    Some(Client::try_from(config).unwrap())
}

/// The recorded answers of a script.
fn recorded(script: &Path) -> Vec<Value> {
    let path = script.with_extension("answers");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What is different, a paragraph per answer.
fn compare(name: &str, want: &[Value], got: &[Value]) -> Vec<String> {
    assert_eq!(want.len(), got.len(), "{name}: the answers are of another script; record them again");
    let mut failures = Vec::new();
    for (index, (want, got)) in want.iter().zip(got).enumerate() {
        let mut found = Vec::new();
        if want["code"] == got["code"] {
            differences("", want, got, &mut found);
        } else {
            let shown = |answer: &Value| {
                format!("{} {}", answer["code"], answer["body"].get("message").unwrap_or(&answer["body"]))
            };
            found.push(format!("want {}\n    got  {}", shown(want), shown(got)));
        }
        if !found.is_empty() {
            failures.push(format!("{name} #{index} {}\n    {}", want["do"].as_str().unwrap(), found.join("\n    ")));
        }
    }
    failures
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_requests_get_the_same_answers() {
    let reference = reference().await;
    let record = std::env::var("DIFFERENTIAL_RECORD").is_ok_and(|value| value == "1");
    let (mut failures, mut compared) = (Vec::new(), 0);
    for script in scripts() {
        let name = script.file_stem().unwrap().to_string_lossy().into_owned();
        let steps = steps(&script);
        let server = ApiServer::new(Options { seed: 7, rbac: true, ..Options::new() });
        let ours = Client::new(server.service(), "default");
        let want: Vec<Value> = match &reference {
            Some(reference) => {
                let want = render(&steps, &run(reference, &steps).await);
                if record {
                    let lines: Vec<String> = want.iter().map(ToString::to_string).collect();
                    std::fs::write(script.with_extension("answers"), lines.join("\n") + "\n").unwrap();
                }
                want
            }
            None => recorded(&script),
        };
        let got = render(&steps, &run(&ours, &steps).await);
        compared += want.len();
        failures.extend(compare(&name, &want, &got));
    }
    assert!(compared > 0, "there is something to compare");
    assert!(failures.is_empty(), "{} of {compared} answers differ:\n{}", failures.len(), failures.join("\n"));
}

/// A server that is wrong in one way is caught, whichever way it is.
#[tokio::test(start_paused = true)]
async fn planted_faults_are_caught() {
    let scripts: Vec<_> = scripts().into_iter().map(|path| (steps(&path), recorded(&path))).collect();
    for fault in Planted::ALL {
        let mut caught = false;
        for (steps, want) in &scripts {
            let server = ApiServer::new(Options { seed: 7, rbac: true, ..Options::new() });
            server.plant(fault);
            let ours = Client::new(server.service(), "default");
            // A wrong answer may lack what a later step needs of it, which is caught just the same.
            let run = std::panic::AssertUnwindSafe(async { render(steps, &run(&ours, steps).await) });
            let got = futures_util::FutureExt::catch_unwind(run).await;
            caught = got.map_or(true, |got| !compare("planted", want, &got).is_empty());
            if caught {
                break;
            }
        }
        assert!(caught, "{fault:?} goes unnoticed");
    }
}
