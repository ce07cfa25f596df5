//! The Terraform module: the names that users' code sets and reads. What its resources may have is checked in `.ci/run`.

use std::collections::BTreeMap;

use super::helm::read;

/// Blocks of a kind by name, each with its text.
fn blocks(file: &str, kind: &str) -> BTreeMap<String, String> {
    let text = read(&format!("deploy/terraform/{file}"));
    let start = format!("{kind} \"");
    let parts = text.split("\n}\n").filter_map(|block| block.trim_start().strip_prefix(&start).map(str::to_owned));
    parts.map(|block| (block.split('"').next().unwrap().to_owned(), block)).collect()
}

#[test]
fn inputs_and_outputs_are_those_that_users_set_and_read() {
    // covers: API-TF-01, API-TF-02, API-TF-03, API-TF-10, API-TF-11, API-TF-12, API-TF-13, API-TF-14, API-TF-15, API-TF-16
    // covers: API-TF-17, API-TF-18, SEED3-07, SEED3-47
    let variables = blocks("variables.tf", "variable");
    for (name, kind, default) in [
        ("eks_cluster_name", "string", None),
        ("eks_cluster_endpoint", "string", None),
        ("aws_region", "string", None),
        ("environment", "string", Some("\"dev\"")),
        ("namespace", "string", Some("\"karpenter\"")),
        ("service_account_name", "string", Some("\"karpenter\"")),
        ("helm_chart_version", "string", Some(concat!("\"", env!("CARGO_PKG_VERSION"), "\""))),
        ("resource_tag", "map(string)", Some("{}")),
    ] {
        let text = &variables[name];
        let field = |field: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{field} ")));
            line.map(|line| line.split_once('=').unwrap().1.trim().to_owned())
        };
        assert_eq!(field("type").as_deref(), Some(kind), "{name}");
        assert_eq!(field("default").as_deref(), default, "{name}");
    }
    let required: Vec<&str> =
        variables.iter().filter(|(_, text)| !text.contains("default ")).map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        required,
        ["aws_region", "eks_cluster_endpoint", "eks_cluster_name"],
        "two lines of the seed would not do"
    );
    let outputs = blocks("outputs.tf", "output");
    for (name, value) in [
        ("iam_role_arn", "aws_iam_role.controller.arn"),
        ("node_iam_role_arn", "aws_iam_role.node.arn"),
        ("node_iam_role_name", "aws_iam_role.node.name"),
        ("instance_profile_name", "aws_iam_instance_profile.node[0].name"),
        ("queue_name", "aws_sqs_queue.interruptions.name"),
        ("queue_url", "aws_sqs_queue.interruptions.url"),
    ] {
        assert!(outputs[name].contains(value), "{name}");
    }
}

#[test]
fn the_module_makes_what_the_public_one_makes() {
    // covers: SEED3-15, SEED3-16, SEED3-17
    let all = |words: &[&str], file: &str| {
        let text = read(&format!("deploy/terraform/{file}"));
        let tight = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let found = tight(&text);
        for word in words {
            assert!(found.contains(&tight(word)), "{file}: {word}");
        }
    };
    all(
        &[
            "Service = \"pods.eks.amazonaws.com\"",
            "[\"sts:AssumeRole\", \"sts:TagSession\"]",
            "sts:AssumeRoleWithWebIdentity",
            ":sub\" = \"system:serviceaccount:${var.namespace}:${var.service_account_name}\"",
            ":aud\" = \"sts.amazonaws.com\"",
            "\"KarpenterController-\"",
            "resource \"aws_eks_pod_identity_association\"",
        ],
        "controller.tf",
    );
    all(
        &[
            "AmazonEKS_CNI_Policy",
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
            "AmazonSSMManagedInstanceCore",
            "Karpenter-${local.cluster}",
            "type = \"EC2_LINUX\"",
        ],
        "nodes.tf",
    );
    all(
        &[
            "message_retention_seconds = 300",
            "sqs_managed_sse_enabled = true",
            "\"aws:SecureTransport\" = \"false\"",
            "EC2 Spot Instance Interruption Warning",
            "EC2 Instance Rebalance Recommendation",
            "EC2 Instance State-change Notification",
            "AWS Health Event",
            "name_prefix = \"Karpenter${each.key}-\"",
            "ClusterName = local.cluster",
            "target_id = \"KarpenterInterruptionQueueTarget\"",
            "\"aws:SourceArn\" = \"arn:${local.partition}:events:*:${local.account}:rule/*\"",
        ],
        "interruptions.tf",
    );
    all(&["create_namespace = true", "clusterName = local.cluster", "eks.amazonaws.com/role-arn"], "chart.tf");
}
