//! A CloudFormation template. Logical ids and names are those of upstream's, so that a stack made from that one is
//! updated in place: nothing that is in use is replaced.

use serde_json::{Map, Value, json};

use super::scope::{Names, Scope};
use super::statements::policies;
use super::surroundings::{
    RETENTION_SECONDS, RULES, TARGET, controller_trust, node_policies, node_trust, pattern, queue_policy,
};

const QUEUE: &str = "KarpenterInterruptionQueue";

/// In a template: what CloudFormation knows itself, and the cluster's name as a parameter.
pub(super) fn names() -> Names {
    Names {
        partition: "${AWS::Partition}".to_owned(),
        dns_suffix: "${AWS::URLSuffix}".to_owned(),
        region: "${AWS::Region}".to_owned(),
        account: "${AWS::AccountId}".to_owned(),
        cluster: "${ClusterName}".to_owned(),
    }
}

/// `default` is the cluster's name, where one was given.
pub(super) fn template(scope: &Scope, default: Option<&str>) -> String {
    let mut documents = Documents::default();
    let mut resources = Map::new();
    resources.insert("KarpenterNodeRole".to_owned(), node_role(scope, &mut documents));
    let mut attached = Vec::new();
    for policy in policies(scope) {
        let id = format!("{}Policy", policy.part);
        attached.push(json!({"Ref": id}));
        let of = json!({
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "ManagedPolicyName": sub(&scope.policy_name(policy.part)),
                "PolicyDocument": documents.put(&policy.document()),
            },
        });
        resources.insert(id, of);
    }
    resources.insert(
        "KarpenterControllerRole".to_owned(),
        json!({
            "Type": "AWS::IAM::Role",
            "Properties": {
                "RoleName": sub(&scope.controller_role()),
                "AssumeRolePolicyDocument": documents.put(&controller_trust(scope)),
                "ManagedPolicyArns": attached,
            },
        }),
    );
    resources.insert(
        "KarpenterNodeInstanceProfile".to_owned(),
        json!({
            "Type": "AWS::IAM::InstanceProfile",
            "Properties": {
                "InstanceProfileName": sub(&scope.node_profile()),
                "Roles": [{"Ref": "KarpenterNodeRole"}],
            },
        }),
    );
    if let Some(name) = &scope.queue {
        resources.extend(queue(scope, name, &mut documents));
    }
    let mut parameter = json!({"Type": "String", "Description": "EKS cluster name"});
    if let Some(default) = default {
        parameter["Default"] = default.into();
    }
    documents.into_text(&json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "What Karpenter needs in an account for one EKS cluster",
        "Parameters": {"ClusterName": parameter},
        "Resources": resources,
        "Outputs": outputs(scope),
    }))
}

fn node_role(scope: &Scope, documents: &mut Documents) -> Value {
    let managed: Vec<Value> = node_policies(scope).iter().map(|arn| sub(arn)).collect();
    json!({
        "Type": "AWS::IAM::Role",
        "Properties": {
            "RoleName": sub(&scope.node_role),
            "Path": "/",
            "AssumeRolePolicyDocument": documents.put(&node_trust(scope)),
            "ManagedPolicyArns": managed,
        },
    })
}

fn queue(scope: &Scope, name: &str, documents: &mut Documents) -> Vec<(String, Value)> {
    let mut all = vec![
        (
            QUEUE.to_owned(),
            json!({
                "Type": "AWS::SQS::Queue",
                "Properties": {
                    "QueueName": sub(name),
                    "MessageRetentionPeriod": RETENTION_SECONDS,
                    "SqsManagedSseEnabled": true,
                },
            }),
        ),
        (
            format!("{QUEUE}Policy"),
            json!({
                "Type": "AWS::SQS::QueuePolicy",
                "Properties": {
                    "Queues": [{"Ref": QUEUE}],
                    "PolicyDocument": documents.put(&queue_policy(scope, name)),
                },
            }),
        ),
    ];
    for (id, source, kind) in RULES {
        let rule = json!({
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": pattern(source, kind),
                "Targets": [{"Id": TARGET, "Arn": {"Fn::GetAtt": [QUEUE, "Arn"]}}],
            },
        });
        all.push((id.to_owned(), rule));
    }
    all
}

fn outputs(scope: &Scope) -> Value {
    let mut outputs = json!({
        "ControllerRoleArn": {"Value": {"Fn::GetAtt": ["KarpenterControllerRole", "Arn"]}},
        "NodeRoleName": {"Value": {"Ref": "KarpenterNodeRole"}},
        "NodeInstanceProfileName": {"Value": {"Ref": "KarpenterNodeInstanceProfile"}},
    });
    if scope.queue.is_some() {
        outputs["InterruptionQueueName"] = json!({"Value": {"Fn::GetAtt": [QUEUE, "QueueName"]}});
    }
    outputs
}

/// A text with the template's variables, or a plain one.
fn sub(text: &str) -> Value {
    if text.contains("${") { json!({"Fn::Sub": text}) } else { text.into() }
}

/// Policy documents. They have the cluster's name in the keys of conditions, which only a substitution in text can put
/// there, and as text over many lines they can still be read.
#[derive(Default)]
struct Documents(Vec<String>);

impl Documents {
    fn put(&mut self, document: &Value) -> Value {
        if !document.to_string().contains("${") {
            return document.clone();
        }
        self.0.push(format!("{document:#}"));
        mark(self.0.len() - 1).into()
    }

    fn into_text(self, template: &Value) -> String {
        let mut text = String::new();
        for line in karpenter_api::to_yaml(template).lines() {
            let found = self.0.iter().enumerate().find(|(at, _)| line.ends_with(&format!(" {}", mark(*at))));
            let Some((at, document)) = found else {
                text.push_str(line);
                text.push('\n');
                continue;
            };
            let indent = line.len() - line.trim_start().len() + 2;
            text.push_str(&line[..line.len() - mark(at).len()]);
            text.push_str("!Sub |\n");
            for inner in document.lines() {
                text.extend(std::iter::repeat_n(' ', indent));
                text.push_str(inner);
                text.push('\n');
            }
        }
        text
    }
}

/// Stands for a document until the template is text. No name in it looks like this.
fn mark(at: usize) -> String {
    format!("document-{at}-of-this-template")
}
