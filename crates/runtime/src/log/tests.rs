use std::sync::{Arc, Mutex};

use karpenter_controllers::Doing;
use serde_json::Value;

use super::*;

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(threshold: Threshold, format: Format, say: impl FnOnce()) -> Vec<String> {
    let paper = Paper::default();
    let clock = Clock::new(|| "2026-01-02T03:04:05.678Z".parse().unwrap());
    let log = Log::new(threshold, format, clock, vec![Box::new(paper.clone())]);
    tracing::subscriber::with_default(log, say);
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_line_is_one_json_object_in_upstreams_words() {
    // covers: API-LG-01, API-LG-02, API-LG-03
    let lines = written(Threshold::Info, Format::Json, || {
        tracing::info!(target: "karpenter_x", claim = "c-1", instance_type = "m5.large", count = 3, "launched nodeclaim");
        tracing::error!(target: "karpenter_x", pod = "ns/p", error = "no room", "could not schedule pod");
        tracing::debug!(target: "karpenter_x", "not at this level");
    });
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["level"], "INFO");
    assert_eq!(lines[0]["time"], "2026-01-02T03:04:05.678Z");
    assert_eq!(lines[0]["logger"], "controller");
    assert_eq!(lines[0]["message"], "launched nodeclaim");
    assert_eq!(lines[0]["NodeClaim"]["name"], "c-1");
    assert_eq!(lines[0]["instance-type"], "m5.large");
    assert_eq!(lines[0]["count"], 3);
    assert!(lines[0].get("commit").is_some() && lines[0].get("caller").is_none());
    assert_eq!((&lines[1]["level"], &lines[1]["error"]), (&"ERROR".into(), &"no room".into()));
    assert_eq!(lines[1]["Pod"], serde_json::json!({"name": "p", "namespace": "ns"}));
}

#[tokio::test]
async fn a_line_says_whose_work_it_is_from() {
    // covers: API-LG-02, API-LG-03
    let paper = Paper::default();
    let clock = Clock::new(|| "2026-01-02T03:04:05.678Z".parse().unwrap());
    let log = Log::new(Threshold::Info, Format::Json, clock, vec![Box::new(paper.clone())]);
    let _heard = tracing::subscriber::set_default(log);
    karpenter_controllers::as_controller("interruption", async {
        tracing::info!(target: "karpenter_x", "one");
        tracing::error!(target: "karpenter_x", controller = "given", "two");
    })
    .await;
    karpenter_controllers::as_controller("interruption", async { tracing::info!(target: "karpenter_x", "three") })
        .await;
    tracing::info!(target: "karpenter_x", "four");
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&Value> = lines.iter().map(|line| &line["controller"]).collect();
    assert_eq!(names, [&"interruption".into(), &"given".into(), &"interruption".into(), &Value::Null]);
    assert_eq!(lines[0]["reconcileID"], lines[1]["reconcileID"]);
    assert_ne!(lines[0]["reconcileID"], lines[2]["reconcileID"]);
    let key = karpenter_index::Key::cluster("c-1");
    let doing = |controller| Doing { controller, key: Some(key.clone()), round: 7 };
    let fields = fields::Fields::default().with_work(Some(doing("nodeclaim.lifecycle")));
    let found: serde_json::Map<String, Value> = fields.others.into_iter().collect();
    assert_eq!(
        Value::Object(found),
        serde_json::json!({"controller": "nodeclaim.lifecycle", "controllerGroup": "karpenter.sh", "controllerKind": "NodeClaim",
            "NodeClaim": {"name": "c-1"}, "namespace": "", "name": "c-1", "reconcileID": "0000000000000007"})
    );
}

#[test]
fn callers_are_named_at_debug_level_only_and_libraries_keep_to_themselves() {
    // covers: API-LG-02
    let lines = written(Threshold::Debug, Format::Json, || {
        tracing::debug!(target: "karpenter_x", "ours");
        tracing::debug!(target: "hyper", "theirs");
        tracing::warn!(target: "hyper", "trouble");
    });
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
    assert_eq!(messages, ["ours", "trouble"]);
    assert!(lines[0]["caller"].as_str().unwrap().contains("tests.rs:"));
}

#[test]
fn a_flood_is_thinned_out() {
    // covers: API-LG-04
    let lines = written(Threshold::Info, Format::Json, || {
        for _ in 0..350 {
            tracing::info!(target: "karpenter_x", "again");
        }
        tracing::info!(target: "karpenter_x", "something else");
    });
    let again = lines.iter().filter(|line| line.contains("again")).count();
    assert_eq!((again, lines.len()), (102, 103));
}

#[test]
fn people_get_one_short_line() {
    let lines = written(Threshold::Info, Format::Console, || {
        tracing::info!(target: "karpenter_x", pod = "ns/p", node = "n", price = 0.5, "two\nlines");
    });
    assert_eq!(lines, ["03:04:05.678 INFO  two\\nlines  Pod=ns/p  Node=n  price=0.5"]);
}

#[test]
fn outputs_are_a_list_of_streams_and_files() {
    assert_eq!(outputs("stdout, stderr").unwrap().len(), 2);
    let error = outputs("/no/such/folder/file").err().unwrap();
    assert!(error.to_string().starts_with("/no/such/folder/file: "), "{error}");
}

#[test]
fn lines_of_old_are_written_in_their_own_words_or_not_at_all() {
    // covers: EXT-06
    let say = || {
        tracing::info!(target: "karpenter_x", compat = true, node = "i-1", instance_type = "m5.large", capacity_type = "spot", "launched node");
        tracing::warn!(target: "karpenter_x", compat = true, node = "i-1", action = "terminate", "interruption received");
        tracing::info!(target: "karpenter_x", node = "n", "ours");
    };
    let lines = written(Threshold::Info, Format::Json, say);
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["level"], &lines[0]["message"]), (&"INFO".into(), &"launched node".into()));
    assert_eq!(
        (&lines[0]["node"], &lines[0]["instance-type"], &lines[0]["capacity-type"]),
        (&"i-1".into(), &"m5.large".into(), &"spot".into())
    );
    assert_eq!((&lines[1]["level"], &lines[1]["action"]), (&"WARN".into(), &"terminate".into()));
    assert!(lines[1].get("time").is_some() && lines[1].get("logger").is_some() && lines[1].get("commit").is_some());
    assert_eq!(lines[2]["Node"]["name"], "n");

    let paper = Paper::default();
    let clock = Clock::new(|| "2026-01-02T03:04:05.678Z".parse().unwrap());
    let log = Log::new(Threshold::Info, Format::Json, clock, vec![Box::new(paper.clone())]).with_compat_lines(false);
    tracing::subscriber::with_default(log, say);
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn what_cannot_be_written_is_complained_about() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("disk full"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let paper = Paper::default();
    let clock = Clock::new(|| "2026-01-02T03:04:05.678Z".parse().unwrap());
    let log = Log::new(Threshold::Info, Format::Json, clock, vec![Box::new(Broken)]);
    tracing::subscriber::with_default(log.complaining_to(vec![Box::new(paper.clone())]), || {
        tracing::info!(target: "karpenter_x", "lost");
    });
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("disk full"), "{text}");
}
