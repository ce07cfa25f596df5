//! A Terraform module in one file. Its inputs and outputs carry the names that users' code reads.

use std::fmt::Write;

use serde_json::Value;

use super::scope::{Names, Scope};
use super::statements::policies;
use super::surroundings::{
    RETENTION_SECONDS, RULES, TARGET, controller_trust, node_policies, node_trust, pattern, queue_policy,
};

/// In a module: what the AWS provider knows itself, and the cluster's name as a variable.
pub(super) fn names() -> Names {
    Names {
        partition: "${data.aws_partition.current.partition}".to_owned(),
        dns_suffix: "${data.aws_partition.current.dns_suffix}".to_owned(),
        region: "${data.aws_region.current.id}".to_owned(),
        account: "${data.aws_caller_identity.current.account_id}".to_owned(),
        cluster: "${var.cluster_name}".to_owned(),
    }
}

pub(super) fn module(scope: &Scope, default: Option<&str>) -> String {
    let mut file = String::new();
    inputs(&mut file, default);
    let mut attached = Vec::new();
    for policy in policies(scope) {
        let name = snake(policy.part);
        block(&mut file, "resource", &["aws_iam_policy", &name], |body| {
            body.text("name", &scope.policy_name(policy.part));
            body.json("policy", &policy.document());
        });
        attached.push(name);
    }
    controller(&mut file, scope, &attached);
    nodes(&mut file, scope);
    if let Some(queue) = &scope.queue {
        interruptions(&mut file, scope, queue);
    }
    outputs(&mut file, scope);
    file
}

fn inputs(file: &mut String, default: Option<&str>) {
    block(file, "variable", &["cluster_name"], |body| {
        body.text("description", "EKS cluster name");
        body.raw("type", "string");
        if let Some(default) = default {
            body.text("default", default);
        }
    });
    for source in ["aws_partition", "aws_region", "aws_caller_identity"] {
        block(file, "data", &[source, "current"], |_| {});
    }
}

fn controller(file: &mut String, scope: &Scope, policies: &[String]) {
    block(file, "resource", &["aws_iam_role", "controller"], |body| {
        body.text("name", &scope.controller_role());
        body.json("assume_role_policy", &controller_trust(scope));
    });
    for policy in policies {
        block(file, "resource", &["aws_iam_role_policy_attachment", &format!("controller_{policy}")], |body| {
            body.raw("role", "aws_iam_role.controller.name");
            body.raw("policy_arn", &format!("aws_iam_policy.{policy}.arn"));
        });
    }
    if scope.oidc_provider.is_none() {
        block(file, "resource", &["aws_eks_pod_identity_association", "controller"], |body| {
            body.raw("cluster_name", "var.cluster_name");
            body.text("namespace", &scope.namespace);
            body.text("service_account", &scope.service_account);
            body.raw("role_arn", "aws_iam_role.controller.arn");
        });
    }
}

fn nodes(file: &mut String, scope: &Scope) {
    block(file, "resource", &["aws_iam_role", "node"], |body| {
        body.text("name", &scope.node_role);
        body.json("assume_role_policy", &node_trust(scope));
    });
    for (at, policy) in node_policies(scope).iter().enumerate() {
        block(file, "resource", &["aws_iam_role_policy_attachment", &format!("node_{at}")], |body| {
            body.raw("role", "aws_iam_role.node.name");
            body.text("policy_arn", policy);
        });
    }
    block(file, "resource", &["aws_iam_instance_profile", "node"], |body| {
        body.text("name", &scope.node_profile());
        body.raw("role", "aws_iam_role.node.name");
    });
    block(file, "resource", &["aws_eks_access_entry", "node"], |body| {
        body.raw("cluster_name", "var.cluster_name");
        body.raw("principal_arn", "aws_iam_role.node.arn");
        body.text("type", "EC2_LINUX");
    });
}

fn interruptions(file: &mut String, scope: &Scope, queue: &str) {
    block(file, "resource", &["aws_sqs_queue", "interruption"], |body| {
        body.text("name", queue);
        body.raw("message_retention_seconds", &RETENTION_SECONDS.to_string());
        body.raw("sqs_managed_sse_enabled", "true");
    });
    block(file, "resource", &["aws_sqs_queue_policy", "interruption"], |body| {
        body.raw("queue_url", "aws_sqs_queue.interruption.url");
        body.json("policy", &queue_policy(scope, queue));
    });
    for (id, source, kind) in RULES {
        let name = snake(id.trim_end_matches("Rule"));
        block(file, "resource", &["aws_cloudwatch_event_rule", &name], |body| {
            body.text("name_prefix", &format!("Karpenter{}-", id.trim_end_matches("Rule")));
            body.json("event_pattern", &pattern(source, kind));
        });
        block(file, "resource", &["aws_cloudwatch_event_target", &name], |body| {
            body.raw("rule", &format!("aws_cloudwatch_event_rule.{name}.name"));
            body.text("target_id", TARGET);
            body.raw("arn", "aws_sqs_queue.interruption.arn");
        });
    }
}

fn outputs(file: &mut String, scope: &Scope) {
    let mut all = vec![
        ("iam_role_arn", "aws_iam_role.controller.arn"),
        ("node_iam_role_arn", "aws_iam_role.node.arn"),
        ("node_iam_role_name", "aws_iam_role.node.name"),
        ("instance_profile_name", "aws_iam_instance_profile.node.name"),
    ];
    if scope.queue.is_some() {
        all.extend([
            ("queue_name", "aws_sqs_queue.interruption.name"),
            ("queue_url", "aws_sqs_queue.interruption.url"),
        ]);
    }
    for (name, value) in all {
        block(file, "output", &[name], |body| body.raw("value", value));
    }
}

/// One block with its attributes.
struct Body(Vec<(String, String)>);

impl Body {
    fn raw(&mut self, name: &str, expression: &str) {
        self.0.push((name.to_owned(), expression.to_owned()));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.raw(name, &quoted(text));
    }

    fn json(&mut self, name: &str, value: &Value) {
        let mut expression = "jsonencode(".to_owned();
        write_value(&mut expression, value, 2);
        expression.push(')');
        self.raw(name, &expression);
    }
}

fn block(file: &mut String, kind: &str, labels: &[&str], fill: impl FnOnce(&mut Body)) {
    let mut body = Body(Vec::new());
    fill(&mut body);
    if !file.is_empty() {
        file.push('\n');
    }
    let labels: String = labels.iter().map(|label| format!(" \"{label}\"")).collect();
    if body.0.is_empty() {
        file.push_str(&format!("{kind}{labels} {{}}\n"));
        return;
    }
    file.push_str(&format!("{kind}{labels} {{\n"));
    let width = body.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, expression) in &body.0 {
        writeln!(file, "  {name:width$} = {expression}").expect("a string takes everything");
    }
    file.push_str("}\n");
}

/// As an expression of Terraform's language.
fn write_value(out: &mut String, value: &Value, indent: usize) {
    let inner = " ".repeat(indent + 2);
    let outer = " ".repeat(indent);
    match value {
        Value::Object(map) => {
            out.push_str("{\n");
            for (key, child) in map {
                out.push_str(&format!("{inner}{} = ", quoted(key)));
                write_value(out, child, indent + 2);
                out.push('\n');
            }
            out.push_str(&format!("{outer}}}"));
        }
        Value::Array(items) => {
            out.push_str("[\n");
            for item in items {
                out.push_str(&inner);
                write_value(out, item, indent + 2);
                out.push_str(",\n");
            }
            out.push_str(&format!("{outer}]"));
        }
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// JSON and Terraform quote alike; `${…}` is what both our names and Terraform mean by it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// `NodeLifecycle` as `node_lifecycle`, `IAMIntegration` as `iam_integration`.
fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let starts = letter.is_uppercase()
            && at > 0
            && (letters[at - 1].is_lowercase() || letters.get(at + 1).is_some_and(|next| next.is_lowercase()));
        if starts {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
