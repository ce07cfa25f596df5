//! Random and nearly right input for everything that others write.

#[path = "merges/invariants.rs"]
mod invariants;

use proptest::prelude::*;

/// Texts that look like what they are meant to be, with something odd in them.
fn nearly(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![6 => prop::sample::select(words).prop_map(str::to_owned), 1 => any::<String>()];
    prop::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

const MESSAGE: &[&str] = &[
    "{",
    "}",
    "\"version\":",
    "\"0\"",
    ",",
    "\"source\":",
    "\"aws.ec2\"",
    "\"aws.health\"",
    "\"detail-type\":",
    "\"EC2 Spot Instance Interruption Warning\"",
    "\"EC2 Instance State-change Notification\"",
    "\"AWS Health Event\"",
    "\"detail\":{",
    "\"instance-id\":",
    "\"i-1\"",
    "null",
    "[]",
    "\"state\":\"stopped\"",
    "\"time\":\"2026-01-02T03:04:05Z\"",
    "\"service\":\"EC2\"",
    "\"eventTypeCategory\":\"scheduledChange\"",
    "\"affectedEntities\":[{\"entityValue\":\"i-1\"}]",
];

const USER_DATA: &[&str] = &[
    "MIME-Version: 1.0\n",
    "Content-Type: multipart/mixed; boundary=\"//\"\n",
    "\n",
    "--//\n",
    "--//--\n",
    "--b\n",
    "--b--",
    "Content-Type: multipart/mixed; boundary=b\n",
    "Content-Type: text/x-shellscript; charset=\"us-ascii\"\n",
    "Content-Transfer-Encoding: quoted-printable\n",
    "#!/bin/bash\necho hi\n",
    "=3D=\n",
    "apiVersion: node.eks.aws/v1alpha1\n",
    "kind: NodeConfig\n",
    "spec:\n  kubelet:\n    config:\n      maxPods: 3\n",
    "[settings.kubernetes]\n",
    "cluster-name = 'x'\n",
    "max-pods = 7\n",
    "[settings.kubernetes.node-taints]\n",
    "a = ['b:NoSchedule']\n",
    "[settings]\n",
    "[other]\nx = 1\n",
    "kubernetes = 5\n",
    "\r\n",
    "{\"a\": 1}",
    "Write-Host 'x'\n",
    "--//",
];

const IMAGE: &[&str] =
    &["v20250505", "latest", "1.46.0", "v", "v1.20.", "@", "/", "bottlerocket-aws-k8s-1.31-x86_64-v", "1", ".", "-"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn queue_messages_are_read_or_refused(body in nearly(MESSAGE), junk in any::<String>()) {
        // covers: AWS-INT-06, AWS-INT-07
        invariants::message(&body);
        invariants::message(&junk);
        invariants::message(&format!("{{\"version\":\"0\",\"source\":\"aws.ec2\",\"detail-type\":\"EC2 Spot Instance Interruption Warning\",{body}"));
    }

    #[test]
    fn user_data_is_merged_or_refused(custom in nearly(USER_DATA), junk in any::<String>()) {
        // covers: AWS-UD-06, AWS-UD-08, AWS-UD-09, AWS-UD-13, AWS-UD-19, AWS-UD-21, AWS-UD-27
        invariants::user_data(&custom);
        invariants::user_data(&junk);
        invariants::user_data(&format!("[settings.kubernetes]\n{custom}"));
    }

    #[test]
    fn image_names_are_names(text in nearly(IMAGE), junk in any::<String>()) {
        invariants::image(&text);
        invariants::image(&junk);
    }
}
