use super::*;
use crate::pods::tests::facts;
use karpenter_api::Time;
use karpenter_api::labels::DO_NOT_DISRUPT;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

struct Made(Value);

fn pod(name: &str) -> Made {
    Made(json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {}},
        "spec": {"nodeName": "n", "containers": [], "terminationGracePeriodSeconds": 30},
        "status": {"phase": "Running"}}))
}

impl Made {
    fn daemon(mut self) -> Self {
        self.0["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]);
        self
    }

    fn critical(mut self) -> Self {
        self.0["spec"]["priorityClassName"] = json!("system-node-critical");
        self
    }

    fn deleted(mut self, second: i64) -> Self {
        self.0["metadata"]["deletionTimestamp"] = json!(at(second).to_string());
        self
    }

    fn protected(mut self) -> Self {
        self.0["metadata"]["annotations"][DO_NOT_DISRUPT] = json!("true");
        self
    }

    fn grace(mut self, seconds: i64) -> Self {
        self.0["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
        self
    }

    fn tolerating(mut self) -> Self {
        self.0["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        self
    }
}

fn drained(pods: Vec<Made>, deadline: Option<i64>, now: i64) -> (Vec<String>, usize) {
    let pods: Vec<PodFacts> = pods.into_iter().map(|pod| facts(pod.0)).collect();
    let drain = plan(&pods, deadline.map(at), at(now));
    (drain.forced.iter().chain(&drain.turn).map(|key| key.name.to_string()).collect(), drain.waiting)
}

#[test]
fn tiers_leave_one_after_the_other() {
    // covers: LC-TERM-14, LC-TERM-16, LC-TERM-17, CP-E5, CP-E6
    let all = || {
        vec![
            pod("critical-daemon").critical().daemon(),
            pod("critical").critical(),
            pod("daemon").daemon(),
            pod("web"),
            pod("api"),
        ]
    };
    let rest = |count: usize| all().into_iter().take(count).collect::<Vec<_>>();
    let none: &[&str] = &[];
    for (what, pods, want, waiting) in [
        ("workloads first", all(), &["web", "api"][..], 5),
        ("then daemons", rest(3), &["daemon"], 3),
        ("then what is critical", rest(2), &["critical"], 2),
        ("last the critical daemons", rest(1), &["critical-daemon"], 1),
        ("a tier lasts until it is gone", vec![pod("web").deleted(90), pod("daemon").daemon()], none, 2),
        ("terminating ones are only waited for", vec![pod("web").deleted(90), pod("api")], &["api"], 2),
        ("one that is stuck is not", vec![pod("web").deleted(-1), pod("daemon").daemon()], &["daemon"], 1),
        ("nor one that tolerates everything", vec![pod("agent").tolerating()], none, 0),
        ("a protected one holds its tier open", vec![pod("job").protected(), pod("daemon").daemon()], &["job"], 2),
        ("nothing left", vec![], none, 0),
    ] {
        let want: Vec<String> = want.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(drained(pods, None, 60), (want, waiting), "{what}");
    }
}

#[test]
fn a_deadline_waits_for_no_tier() {
    // covers: LC-TERM-15, LC-TERM-32
    let pods = || vec![pod("slow").critical().grace(300), pod("daemon").daemon(), pod("web")];
    assert_eq!(drained(pods(), Some(400), 100).0, ["web"], "in good time for all of them");
    assert_eq!(drained(pods(), Some(400), 101).0, ["slow", "web"]);
    assert_eq!(drained(pods(), Some(400), 371).0, ["slow", "daemon", "web"]);
    let late = vec![pod("late").deleted(500), pod("daemon").daemon()];
    assert_eq!(drained(late, Some(400), 100), (vec!["late".to_owned(), "daemon".to_owned()], 2));
    assert_eq!(drained(vec![pod("in-time").deleted(400)], Some(400), 100), (vec![], 1));
}

#[test]
fn an_empty_node_is_looked_at_for_five_seconds() {
    // covers: LC-TERM-05, LC-TERM-19
    let mut claim = NodeClaim::default();
    claim.metadata.creation_timestamp = Some(Time(at(-1_000)));
    let left = |claim: Option<&NodeClaim>, now| time_left(claim, at(now)).as_secs();
    assert_eq!(left(Some(&claim), 0), 5, "not draining yet");
    claim.conditions_at(at(0)).set_unknown(DRAINED, "Draining", "Draining");
    assert_eq!([0, 4, 5, 500].map(|now| left(Some(&claim), now)), [5, 1, 0, 0]);
    claim.conditions_at(at(6)).set_true(DRAINED);
    assert_eq!(left(Some(&claim), 6), 0);
    assert_eq!(left(None, 0), 0, "without a claim there is nothing to count from");
}
