//! User data for AL2023, read by nodeadm's own code: `KARPENTER_NODEADM` names the program that `tests/nodeadm/build` makes.
//! Without it there is nobody to ask, and the test says so.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use karpenter_core::Taint;
use karpenter_core::taints::Effect;
use karpenter_ec2::AmiFamily;
use karpenter_ec2::userdata::{self, Bootstrap, ClusterFacts};
use serde_json::{Value, json};

fn user_data(kubelet: Value, raid0: bool, custom: Option<&str>) -> String {
    let cluster = ClusterFacts {
        name: "here".into(),
        endpoint: "https://api.example.com".into(),
        ca_bundle: Some("Y2E=".into()),
        cidr: Some("10.100.0.0/16".into()),
    };
    let labels: BTreeMap<String, String> =
        [("team", "a"), ("karpenter.sh/capacity-type", "spot")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let taints = [Taint { key: "karpenter.sh/unregistered".into(), value: String::new(), effect: Effect::NoExecute }];
    let kubelet = kubelet.as_object().unwrap().clone();
    let bootstrap = Bootstrap {
        family: AmiFamily::Al2023,
        cluster: &cluster,
        labels: &labels,
        taints: &taints,
        kubelet: &kubelet,
        raid0,
        custom,
        bottlerocket_binds_by_default: true,
    };
    userdata::render(&bootstrap).unwrap().text
}

/// What nodeadm makes of it: the spec of the node's configuration, or why it refuses.
fn read(program: &str, text: &str) -> Result<Value, String> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program that was named can be run");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(serde_json::from_slice(&output.stdout).unwrap());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn nodeadm_understands_what_nodes_are_told() {
    // covers: AWS-UD-13, AWS-UD-14, AWS-UD-15, AWS-UD-16, AWS-UD-17, AWS-UD-18
    let Ok(program) = std::env::var("KARPENTER_NODEADM") else {
        eprintln!("passed over: KARPENTER_NODEADM names no program");
        return;
    };
    let kubelet = json!({
        "maxPods": 29, "clusterDNS": ["10.100.0.10"], "kubeReserved": {"cpu": "70m"}, "registryPullQPS": 7,
        "evictionHard": {"memory.available": "5%"}, "serializeImagePulls": false,
    });
    let plain = read(&program, &user_data(kubelet.clone(), false, None)).unwrap();
    let text = plain.to_string();
    for fact in ["here", "https://api.example.com", "10.100.0.0/16", "registryPullQPS", "--node-labels"] {
        assert!(text.contains(fact), "{fact} is not in {text}");
    }
    assert!(text.contains("karpenter.sh/unregistered"), "{text}");
    // A script of the user's is nobody's business but cloud-init's.
    let script = "#!/bin/bash\necho hi\n";
    assert_eq!(read(&program, &user_data(kubelet.clone(), false, Some(script))).unwrap(), plain);
    // A configuration of the user's is merged, and ours, which comes last, wins.
    let theirs = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: other\n  kubelet:\n    config:\n      maxPods: 3\n      containerLogMaxFiles: 9\n";
    let mime = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: application/node.eks.aws\n\n{theirs}\n--b\nContent-Type: text/x-shellscript\n\n{script}\n--b--\n"
    );
    for custom in [theirs, mime.as_str()] {
        let merged = read(&program, &user_data(kubelet.clone(), false, Some(custom))).unwrap().to_string();
        assert!(merged.contains("containerLogMaxFiles") && !merged.contains("other"), "{merged}");
        assert!(merged.contains("29"), "{merged}");
    }
    assert!(read(&program, "#!/bin/bash\n").is_err(), "the reader does refuse what is no configuration");
}
