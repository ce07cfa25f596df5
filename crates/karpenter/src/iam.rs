//! `karpenter iam`.

mod cloudformation;
mod scope;
mod statements;
mod surroundings;
mod terraform;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::bad_input::BadInput;
use crate::settings::gates::FeatureGates;
use scope::{Names, Scope, Uses};

/// Print the least IAM policies for the controller, and what else AWS needs
///
/// The controller's policies, the trust of its role and of the nodes', the interruption queue with its policy and event
/// rules. Without settings everything that the controller can do is allowed; what a setting switches off, its policy
/// leaves out. Everything it makes carries tags, and what it may change is scoped by them.
///
/// CloudFormation templates keep the names of upstream's: a stack made from that one is updated in place.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter iam --cluster-name shop --account 111122223333 --region eu-west-1
  karpenter iam --cluster-name shop --account 111122223333 --region eu-west-1 --only node-lifecycle
  karpenter iam -o cloudformation > karpenter.yaml
  karpenter iam -o terraform --oidc-provider oidc.eks.eu-west-1.amazonaws.com/id/ABC > karpenter.tf")]
pub(crate) struct Args {
    /// Also CLUSTER_NAME; templates have it as a parameter, with this as its default
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// The account's number; templates find it out themselves
    #[arg(long, value_name = "NUMBER")]
    account: Option<String>,
    /// Also AWS_REGION; templates find it out themselves
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// The role of nodes [default: KarpenterNodeRole-<cluster>]
    #[arg(long, value_name = "NAME")]
    node_role: Option<String>,
    /// Also INTERRUPTION_QUEUE; empty: no queue [default: the cluster's name]
    #[arg(long, value_name = "NAME")]
    interruption_queue: Option<String>,
    /// Also ENABLE_ZONAL_SHIFT [default: true]
    #[arg(long, env = "ENABLE_ZONAL_SHIFT", hide_env = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_zonal_shift: Option<bool>,
    /// Also ISOLATED_VPC: neither prices nor instance profiles are asked for [default: false]
    #[arg(long, env = "ISOLATED_VPC", hide_env = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    isolated_vpc: Option<bool>,
    /// Also FEATURE_GATES; ReservedCapacity=false leaves reservations out
    #[arg(long, value_name = "GATES")]
    feature_gates: Option<String>,
    /// A parameter of the account's own that a node class selects an image by; may be given again
    #[arg(long, value_name = "NAME")]
    ssm_parameter: Vec<String>,
    /// Issuer of the cluster's service account tokens, for IRSA [default: none, for Pod Identity]
    #[arg(long, value_name = "HOST/PATH")]
    oidc_provider: Option<String>,
    /// Where the controller runs
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    namespace: String,
    /// What the controller runs as
    #[arg(long, value_name = "NAME", default_value = "karpenter")]
    service_account: String,
    /// Print this document alone
    #[arg(long, value_name = "DOCUMENT")]
    only: Option<Document>,
    #[arg(short, long, value_name = "FORMAT", default_value = "json")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
    #[value(name = "cloudformation")]
    CloudFormation,
    Terraform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Document {
    NodeLifecycle,
    IamIntegration,
    EksIntegration,
    Interruption,
    ZonalShift,
    ResourceDiscovery,
    ControllerTrust,
    NodeTrust,
    QueuePolicy,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let text = args.text(&|name| std::env::var(name).ok()).map_err(BadInput)?;
    out.write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn text(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Vec<String>> {
        let from =
            |flag: &Option<String>, name: &str| flag.clone().or_else(|| env(name)).filter(|text| !text.is_empty());
        let cluster = from(&self.cluster_name, "CLUSTER_NAME");
        match self.output {
            Output::CloudFormation | Output::Terraform if self.only.is_some() => {
                Err(vec!["only: a template is printed whole; a single document is JSON".to_owned()])
            }
            Output::CloudFormation => {
                Ok(cloudformation::template(&self.scope(env, cloudformation::names())?, cluster.as_deref()))
            }
            Output::Terraform => Ok(terraform::module(&self.scope(env, terraform::names())?, cluster.as_deref())),
            Output::Json => {
                let region = from(&self.region, "AWS_REGION");
                let mut faults = Vec::new();
                for (name, value) in [("cluster-name", &cluster), ("account", &self.account), ("region", &region)] {
                    if value.is_none() {
                        faults.push(format!("{name}: it is missing; only templates can do without"));
                    }
                }
                if let Some(account) = self.account.as_ref().filter(|account| !is_account(account)) {
                    faults.push(format!("account: {account:?} is not a number of twelve digits"));
                }
                let (Some(cluster), Some(account), Some(region), true) =
                    (cluster, self.account.clone(), region, faults.is_empty())
                else {
                    return Err(faults);
                };
                let scope = self.scope(env, Names::known(cluster, account, region))?;
                self.documents(&scope).map(|found| format!("{found:#}\n"))
            }
        }
    }

    fn scope(&self, env: &dyn Fn(&str) -> Option<String>, names: Names) -> Result<Scope, Vec<String>> {
        let setting = |flag: &Option<String>, name: &str| flag.clone().or_else(|| env(name));
        let queue = setting(&self.interruption_queue, "INTERRUPTION_QUEUE");
        let queue = queue.unwrap_or_else(|| names.cluster.clone());
        let gates = FeatureGates::parse(&setting(&self.feature_gates, "FEATURE_GATES").unwrap_or_default())
            .map_err(|fault| vec![format!("feature-gates: {fault}")])?;
        Ok(Scope {
            node_role: self.node_role.clone().unwrap_or_else(|| format!("KarpenterNodeRole-{}", names.cluster)),
            namespace: self.namespace.clone(),
            service_account: self.service_account.clone(),
            oidc_provider: self.oidc_provider.as_deref().map(|url| url.trim_start_matches("https://").to_owned()),
            queue: (!queue.is_empty()).then_some(queue),
            uses: Uses {
                zonal_shift: self.enable_zonal_shift.unwrap_or(true),
                public_services: !self.isolated_vpc.unwrap_or(false),
                reservations: gates.reserved_capacity,
            },
            parameters: self.ssm_parameter.clone(),
            names,
        })
    }

    fn documents(&self, scope: &Scope) -> Result<Value, Vec<String>> {
        let policies = statements::policies(scope);
        let Some(only) = self.only else { return Ok(everything(scope, &policies)) };
        let part = match only {
            Document::NodeLifecycle => "NodeLifecycle",
            Document::IamIntegration => "IAMIntegration",
            Document::EksIntegration => "EKSIntegration",
            Document::Interruption => "Interruption",
            Document::ZonalShift => "ZonalShift",
            Document::ResourceDiscovery => "ResourceDiscovery",
            Document::ControllerTrust => return Ok(surroundings::controller_trust(scope)),
            Document::NodeTrust => return Ok(surroundings::node_trust(scope)),
            Document::QueuePolicy => {
                let queue = scope.queue.as_ref().ok_or_else(|| vec!["only: there is no queue".to_owned()])?;
                return Ok(surroundings::queue_policy(scope, queue));
            }
        };
        let found = policies.iter().find(|policy| policy.part == part);
        found
            .map(statements::Policy::document)
            .ok_or_else(|| vec![format!("only: with these settings the policy {part} is not needed")])
    }
}

fn everything(scope: &Scope, policies: &[statements::Policy]) -> Value {
    let named: Map<String, Value> =
        policies.iter().map(|policy| (scope.policy_name(policy.part), policy.document())).collect();
    let mut all = json!({
        "controller": {
            "role": scope.controller_role(),
            "trust": surroundings::controller_trust(scope),
            "policies": named,
        },
        "node": {
            "role": scope.node_role,
            "trust": surroundings::node_trust(scope),
            "managedPolicies": surroundings::node_policies(scope),
            "instanceProfile": scope.node_profile(),
        },
    });
    if let Some(queue) = &scope.queue {
        let rules: Map<String, Value> = surroundings::RULES
            .iter()
            .map(|(name, source, kind)| ((*name).to_owned(), surroundings::pattern(source, kind)))
            .collect();
        all["queue"] = json!({
            "name": queue,
            "retentionSeconds": surroundings::RETENTION_SECONDS,
            "policy": surroundings::queue_policy(scope, queue),
            "rules": rules,
        });
    }
    all
}

/// The statement of the controller's policies that allows an action, and the policy it is in.
pub(crate) fn statement_for(action: &str) -> Option<(&'static str, &'static str)> {
    let uses = Uses { zonal_shift: true, public_services: true, reservations: true };
    let anything = Scope {
        names: Names::known(String::new(), String::new(), String::new()),
        node_role: String::new(),
        namespace: String::new(),
        service_account: String::new(),
        oidc_provider: None,
        queue: Some(String::new()),
        uses,
        parameters: Vec::new(),
    };
    let policies = statements::policies(&anything);
    let all = policies.iter().flat_map(|policy| policy.statements.iter().map(|statement| (policy.part, statement)));
    let mut allowing = all.filter(|(_, statement)| statement.actions.contains(&action));
    allowing.next().map(|(part, statement)| (part, statement.id))
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}
