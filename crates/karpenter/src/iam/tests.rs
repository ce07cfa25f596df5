use std::collections::{BTreeMap, BTreeSet};

use clap::Parser;
use karpenter_provider_aws::calls::PERMISSIONS;

use super::statements::{Policy, Statement, policies};
use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn text(flags: &[&str], env: &[(&str, &str)]) -> Result<String, Vec<String>> {
    let line = Line::try_parse_from([&["iam"], flags].concat()).map_err(|error| vec![error.to_string()])?;
    let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    line.args.text(&lookup)
}

const KNOWN: [&str; 6] = ["--cluster-name", "shop", "--account", "111122223333", "--region", "eu-west-1"];

fn json(more: &[&str]) -> Value {
    serde_json::from_str(&text(&[&KNOWN, more].concat(), &[]).unwrap()).unwrap()
}

fn scope(more: &[&str]) -> Scope {
    let line = Line::try_parse_from([&["iam"], &KNOWN[..], more].concat()).unwrap();
    let names = Names::known("shop".to_owned(), "111122223333".to_owned(), "eu-west-1".to_owned());
    line.args.scope(&|_| None, names).unwrap()
}

fn granted(policies: &[Policy]) -> BTreeSet<&'static str> {
    policies.iter().flat_map(|policy| &policy.statements).flat_map(|statement| statement.actions.clone()).collect()
}

#[test]
fn each_call_of_the_provider_is_allowed_and_nothing_else() {
    // covers: API-IAM-01
    let used: BTreeSet<&str> = PERMISSIONS.iter().flat_map(|(_, actions)| *actions).copied().collect();
    assert_eq!(granted(&policies(&scope(&[]))), used);
}

#[test]
fn the_table_of_calls_knows_every_method_of_the_traits() {
    const SOURCES: [&str; 2] = [
        include_str!("../../../provider-aws/src/calls/ec2.rs"),
        include_str!("../../../provider-aws/src/calls/services.rs"),
    ];
    let methods: BTreeSet<&str> = SOURCES
        .iter()
        .flat_map(|source| source.lines())
        .filter_map(|line| line.trim_start().strip_prefix("async fn "))
        .map(|rest| rest.split('(').next().unwrap_or(rest))
        .collect();
    assert!(methods.len() > 25, "the traits are found: {methods:?}");
    let listed: BTreeSet<&str> = PERMISSIONS.iter().map(|(method, _)| *method).collect();
    assert_eq!(methods.difference(&listed).collect::<Vec<_>>(), Vec::<&&str>::new());
    // The client's own, which no trait of the provider has.
    let own = BTreeSet::from(["get_caller_identity"]);
    assert!(listed.difference(&methods).all(|call| own.contains(call)), "{listed:?}");
}

/// Part, statement, actions, kinds of resources, and how many conditions.
type Row = (&'static str, &'static str, &'static [&'static str], &'static [&'static str], usize);

#[test]
fn the_statements_are_those_of_upstream() {
    // covers: API-IAM-02, API-IAM-03, API-IAM-04, API-IAM-05, API-IAM-06, API-IAM-07, API-IAM-08, API-IAM-09
    // covers: API-IAM-10, API-IAM-11, API-IAM-12, API-IAM-13, API-IAM-14, API-IAM-15, API-IAM-16, API-IAM-17
    // covers: API-IAM-18, API-IAM-19, API-IAM-21
    const LAUNCH: &[&str] = &["ec2:RunInstances", "ec2:CreateFleet"];
    const MADE: &[&str] =
        &["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"];
    let rows: [Row; 18] = [
        (
            "NodeLifecycle",
            "AllowScopedEC2InstanceAccessActions",
            LAUNCH,
            &["image", "snapshot", "security-group", "subnet", "placement-group", "capacity-reservation"],
            0,
        ),
        ("NodeLifecycle", "AllowScopedEC2LaunchTemplateAccessActions", LAUNCH, &["launch-template"], 2),
        (
            "NodeLifecycle",
            "AllowScopedEC2InstanceActionsWithTags",
            &["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
            MADE,
            3,
        ),
        ("NodeLifecycle", "AllowScopedResourceCreationTagging", &["ec2:CreateTags"], MADE, 4),
        ("NodeLifecycle", "AllowScopedResourceTagging", &["ec2:CreateTags"], &["instance"], 4),
        (
            "NodeLifecycle",
            "AllowScopedDeletion",
            &["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            &["instance", "launch-template"],
            2,
        ),
        ("IAMIntegration", "AllowPassingInstanceRole", &["iam:PassRole"], &["role"], 1),
        (
            "IAMIntegration",
            "AllowScopedInstanceProfileCreationActions",
            &["iam:CreateInstanceProfile"],
            &["instance-profile"],
            4,
        ),
        (
            "IAMIntegration",
            "AllowScopedInstanceProfileTagActions",
            &["iam:TagInstanceProfile"],
            &["instance-profile"],
            7,
        ),
        (
            "IAMIntegration",
            "AllowScopedInstanceProfileActions",
            &["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            &["instance-profile"],
            3,
        ),
        ("EKSIntegration", "AllowAPIServerEndpointDiscovery", &["eks:DescribeCluster"], &["cluster"], 0),
        (
            "Interruption",
            "AllowInterruptionQueueActions",
            &["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            &["shop"],
            0,
        ),
        ("ZonalShift", "AllowZonalShiftStatusReadOnly", &["arc-zonal-shift:GetManagedResource"], &["*"], 1),
        (
            "ResourceDiscovery",
            "AllowRegionalReadActions",
            &[
                "ec2:DescribeCapacityReservations",
                "ec2:DescribeImages",
                "ec2:DescribeInstances",
                "ec2:DescribeInstanceStatus",
                "ec2:DescribeInstanceTypeOfferings",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplates",
                "ec2:DescribePlacementGroups",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSpotPriceHistory",
                "ec2:DescribeSubnets",
            ],
            &["*"],
            1,
        ),
        ("ResourceDiscovery", "AllowSSMReadActions", &["ssm:GetParameter"], &["parameter"], 0),
        ("ResourceDiscovery", "AllowPricingReadActions", &["pricing:GetProducts"], &["*"], 0),
        ("ResourceDiscovery", "AllowUnscopedInstanceProfileListAction", &["iam:ListInstanceProfiles"], &["*"], 0),
        ("ResourceDiscovery", "AllowInstanceProfileReadActions", &["iam:GetInstanceProfile"], &["instance-profile"], 0),
    ];
    let kind = |arn: &String| arn.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let count = |statement: &Statement| statement.conditions.iter().map(|(_, keys)| keys.len()).sum::<usize>();
    let all = policies(&scope(&[]));
    let found: Vec<_> = all
        .iter()
        .flat_map(|policy| policy.statements.iter().map(|statement| (policy.part, statement)))
        .map(|(part, statement)| {
            let kinds = statement.resources.iter().map(kind).collect::<Vec<_>>();
            (part, statement.id, statement.actions.clone(), kinds, count(statement))
        })
        .collect();
    let want: Vec<_> = rows
        .iter()
        .map(|(part, id, actions, kinds, conditions)| {
            (*part, *id, actions.to_vec(), kinds.iter().map(|kind| (*kind).to_owned()).collect(), *conditions)
        })
        .collect();
    assert_eq!(found, want);
}

#[test]
fn what_may_be_changed_is_scoped_by_tags() {
    // covers: API-IAM-03, API-IAM-04, API-IAM-05, API-IAM-06, API-IAM-08, API-IAM-10, API-IAM-14
    let found = json(&[]);
    let policies = &found["controller"]["policies"];
    let statement = |part: &str, id: &str| {
        let all = policies[format!("KarpenterController{part}Policy-shop")]["Statement"].as_array().unwrap();
        all.iter().find(|statement| statement["Sid"] == id).unwrap().clone()
    };
    assert_eq!(
        statement("NodeLifecycle", "AllowScopedResourceTagging"),
        json!({
            "Sid": "AllowScopedResourceTagging",
            "Effect": "Allow",
            "Action": ["ec2:CreateTags"],
            "Resource": ["arn:aws:ec2:eu-west-1:*:instance/*"],
            "Condition": {
                "StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/shop": "owned"},
                "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": "shop"},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"],
                },
            },
        })
    );
    assert_eq!(
        statement("NodeLifecycle", "AllowScopedResourceCreationTagging")["Condition"],
        json!({
            "StringEquals": {
                "aws:RequestTag/kubernetes.io/cluster/shop": "owned",
                "aws:RequestTag/eks:eks-cluster-name": "shop",
                "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
            },
            "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
        })
    );
    assert_eq!(
        statement("IAMIntegration", "AllowScopedInstanceProfileTagActions")["Condition"],
        json!({
            "StringEquals": {
                "aws:ResourceTag/kubernetes.io/cluster/shop": "owned",
                "aws:ResourceTag/topology.kubernetes.io/region": "eu-west-1",
                "aws:RequestTag/kubernetes.io/cluster/shop": "owned",
                "aws:RequestTag/eks:eks-cluster-name": "shop",
                "aws:RequestTag/topology.kubernetes.io/region": "eu-west-1",
            },
            "StringLike": {
                "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*",
                "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*",
            },
        })
    );
    let pass = statement("IAMIntegration", "AllowPassingInstanceRole");
    assert_eq!(pass["Resource"], json!(["arn:aws:iam::111122223333:role/KarpenterNodeRole-shop"]));
    assert_eq!(
        statement("ZonalShift", "AllowZonalShiftStatusReadOnly")["Condition"]["StringEquals"],
        json!({"arc-zonal-shift:ResourceIdentifier": "arn:aws:eks:eu-west-1:111122223333:cluster/shop"})
    );
}

#[test]
fn what_is_switched_off_needs_no_permission() {
    let all = granted(&policies(&scope(&[])));
    let without =
        |flags: &[&str]| -> Vec<&str> { all.difference(&granted(&policies(&scope(flags)))).copied().collect() };
    assert_eq!(without(&["--interruption-queue="]), ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]);
    assert_eq!(without(&["--enable-zonal-shift=false"]), ["arc-zonal-shift:GetManagedResource"]);
    assert_eq!(without(&["--feature-gates=ReservedCapacity=false"]), ["ec2:DescribeCapacityReservations"]);
    assert_eq!(
        without(&["--isolated-vpc"]),
        [
            "iam:AddRoleToInstanceProfile",
            "iam:CreateInstanceProfile",
            "iam:DeleteInstanceProfile",
            "iam:GetInstanceProfile",
            "iam:ListInstanceProfiles",
            "iam:RemoveRoleFromInstanceProfile",
            "iam:TagInstanceProfile",
            "pricing:GetProducts",
        ]
    );
    assert!(json(&["--interruption-queue="]).get("queue").is_none());
    let own = json(&["--ssm-parameter=/images/golden", "--only=resource-discovery"]);
    let resources: Vec<&Value> = own["Statement"].as_array().unwrap().iter().map(|of| &of["Resource"]).collect();
    assert!(resources.contains(&&json!(["arn:aws:ssm:eu-west-1:111122223333:parameter/images/golden"])), "{own}");
}

#[test]
fn the_controller_is_whoever_its_service_account_is() {
    // covers: API-IAM-32
    let pods = json(&["--only=controller-trust"]);
    assert_eq!(
        pods["Statement"],
        json!([{
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
        }])
    );
    let provider = "oidc.eks.eu-west-1.amazonaws.com/id/ABC";
    let irsa = json(&["--only=controller-trust", "--oidc-provider", &format!("https://{provider}"), "--namespace=ops"]);
    assert_eq!(
        irsa["Statement"],
        json!([{
            "Effect": "Allow",
            "Principal": {"Federated": format!("arn:aws:iam::111122223333:oidc-provider/{provider}")},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": {
                format!("{provider}:aud"): "sts.amazonaws.com",
                format!("{provider}:sub"): "system:serviceaccount:ops:karpenter",
            }},
        }])
    );
}

#[test]
fn nodes_and_their_queue() {
    // covers: API-IAM-30, API-CF-03, API-CF-04
    let found = json(&[]);
    assert_eq!(found["node"]["role"], "KarpenterNodeRole-shop");
    assert_eq!(found["node"]["trust"]["Statement"][0]["Principal"]["Service"], "ec2.amazonaws.com");
    assert_eq!(found["node"]["managedPolicies"][0], "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy");
    assert_eq!(found["node"]["managedPolicies"].as_array().unwrap().len(), 4);
    let queue = &found["queue"];
    assert_eq!((&queue["name"], &queue["retentionSeconds"]), (&json!("shop"), &json!(300)));
    assert_eq!(
        queue["policy"]["Statement"][0]["Principal"]["Service"],
        json!(["events.amazonaws.com", "sqs.amazonaws.com"])
    );
    let source = &queue["policy"]["Statement"][0]["Condition"]["ArnLike"]["aws:SourceArn"];
    let source = source.as_str().unwrap();
    assert!(source.starts_with("arn:aws:events:") && source.ends_with(":111122223333:rule/*"), "{source}");
    assert_eq!(queue["policy"]["Statement"][1]["Effect"], "Deny");
    assert_eq!(queue["rules"].as_object().unwrap().len(), 5);
    let china = text(&["--cluster-name=a", "--account=111122223333", "--region=cn-north-1"], &[]).unwrap();
    let china: Value = serde_json::from_str(&china).unwrap();
    assert_eq!(china["node"]["trust"]["Statement"][0]["Principal"]["Service"], "ec2.amazonaws.com.cn");
    assert!(china["queue"]["policy"]["Statement"][0]["Resource"].as_str().unwrap().starts_with("arn:aws-cn:sqs:"));
}

/// Of every block of text in a template: its document, with the template's variables filled in.
fn filled_in(template: &str) -> Vec<Value> {
    let template = template.replace(": !Sub |", ": |").replace("Fn::Sub: |", "Text: |");
    let known: [(&str, &str); 7] = [
        ("${AWS::Partition}", "aws"),
        ("${AWS::URLSuffix}", "amazonaws.com"),
        ("${AWS::Region}", "eu-west-1"),
        ("${AWS::AccountId}", "111122223333"),
        ("${ClusterName}", "shop"),
        ("${KarpenterNodeRole.Arn}", "arn:aws:iam::111122223333:role/KarpenterNodeRole-shop"),
        ("${KarpenterInterruptionQueue.Arn}", "arn:aws:sqs:eu-west-1:111122223333:shop"),
    ];
    let template = known.into_iter().fold(template.to_owned(), |text, (variable, value)| text.replace(variable, value));
    let mut documents = Vec::new();
    let mut lines = template.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.ends_with(": |") {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let mut document = String::new();
        while let Some(inner) = lines.next_if(|next| next.len() - next.trim_start().len() > indent) {
            document.push_str(inner);
        }
        documents.push(serde_json::from_str(&document).expect("a document is JSON"));
    }
    documents
}

#[test]
fn a_stack_of_upstreams_template_is_updated_in_place() {
    // covers: API-CF-01, API-CF-02, API-CF-03, API-CF-04, API-CF-05, API-CF-06, API-CF-07, API-CF-08, API-CF-09
    let template = text(&["-o", "cloudformation"], &[]).unwrap();
    let plain = template.replace(": !Sub |", ": |");
    let parsed: Value = serde_saphyr::from_str(&plain).unwrap();
    let resources = parsed["Resources"].as_object().unwrap();
    let kinds: BTreeMap<&str, &str> =
        resources.iter().map(|(id, resource)| (id.as_str(), resource["Type"].as_str().unwrap())).collect();
    let managed = "AWS::IAM::ManagedPolicy";
    let rule = "AWS::Events::Rule";
    assert_eq!(
        kinds,
        BTreeMap::from([
            ("KarpenterNodeRole", "AWS::IAM::Role"),
            ("NodeLifecyclePolicy", managed),
            ("IAMIntegrationPolicy", managed),
            ("EKSIntegrationPolicy", managed),
            ("InterruptionPolicy", managed),
            ("ZonalShiftPolicy", managed),
            ("ResourceDiscoveryPolicy", managed),
            ("KarpenterControllerRole", "AWS::IAM::Role"),
            ("KarpenterNodeInstanceProfile", "AWS::IAM::InstanceProfile"),
            ("KarpenterInterruptionQueue", "AWS::SQS::Queue"),
            ("KarpenterInterruptionQueuePolicy", "AWS::SQS::QueuePolicy"),
            ("ScheduledChangeRule", rule),
            ("SpotInterruptionRule", rule),
            ("RebalanceRule", rule),
            ("InstanceStateChangeRule", rule),
            ("CapacityReservationInterruptionRule", rule),
        ])
    );
    // A change of any of these names would replace what bears it.
    let name = |id: &str, property: &str| resources[id]["Properties"][property]["Fn::Sub"].as_str().unwrap().to_owned();
    assert_eq!(name("KarpenterNodeRole", "RoleName"), "KarpenterNodeRole-${ClusterName}");
    assert_eq!(
        name("NodeLifecyclePolicy", "ManagedPolicyName"),
        "KarpenterControllerNodeLifecyclePolicy-${ClusterName}"
    );
    assert_eq!(name("KarpenterInterruptionQueue", "QueueName"), "${ClusterName}");
    assert!(resources["SpotInterruptionRule"]["Properties"].get("Name").is_none());
    let outputs: Vec<&String> = parsed["Outputs"].as_object().unwrap().keys().collect();
    assert_eq!(outputs, ["ControllerRoleArn", "NodeRoleName", "NodeInstanceProfileName", "InterruptionQueueName"]);
    assert!(parsed["Parameters"]["ClusterName"].get("Default").is_none());
}

#[test]
fn templates_say_what_the_documents_say() {
    let provider = "--oidc-provider=oidc.example/id/1";
    let found = json(&[provider]);
    let documents = filled_in(&text(&["-o", "cloudformation", "--cluster-name=shop", provider], &[]).unwrap());
    let mut want = vec![found["node"]["trust"].clone()];
    want.extend(found["controller"]["policies"].as_object().unwrap().values().cloned());
    want.push(found["controller"]["trust"].clone());
    want.push(found["queue"]["policy"].clone());
    assert_eq!(documents, want);
}

/// One text or a list of one are the same to IAM, and so is any order.
fn normal(document: &Value) -> BTreeSet<String> {
    let list = |value: &Value| -> BTreeSet<String> {
        let one = std::slice::from_ref(value);
        value.as_array().map_or(one, Vec::as_slice).iter().map(ToString::to_string).collect()
    };
    let statement = |statement: &Value| {
        let conditions: BTreeMap<String, BTreeSet<String>> = statement
            .get("Condition")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .flat_map(|(operator, keys)| {
                let keys = keys.as_object().expect("an operator has keys").iter();
                keys.map(move |(key, value)| (format!("{operator} {key}"), list(value)))
            })
            .collect();
        format!(
            "{} {:?} {:?} {conditions:?}",
            statement["Sid"],
            list(&statement["Action"]),
            list(&statement["Resource"])
        )
    };
    document["Statement"].as_array().expect("a document has statements").iter().map(statement).collect()
}

#[test]
fn the_template_that_is_shipped_says_the_same() {
    let shipped = filled_in(include_str!("../../../../deploy/cloudformation/karpenter.yaml"));
    let shipped: BTreeSet<String> = shipped.iter().flat_map(normal).collect();
    for (name, document) in json(&[])["controller"]["policies"].as_object().unwrap() {
        let missing: Vec<String> = normal(document).difference(&shipped).cloned().collect();
        assert_eq!(missing, Vec::<String>::new(), "{name}: not among {shipped:#?}");
    }
}

#[test]
fn terraform_has_the_names_that_users_read() {
    // covers: API-TF-18
    let module = text(&["-o", "terraform"], &[]).unwrap();
    let has = |line: &str| module.lines().any(|found| found == line);
    for output in
        ["iam_role_arn", "node_iam_role_arn", "node_iam_role_name", "instance_profile_name", "queue_name", "queue_url"]
    {
        assert!(has(&format!("output \"{output}\" {{")), "{output}");
    }
    for resource in [
        "resource \"aws_iam_policy\" \"iam_integration\" {",
        "resource \"aws_iam_policy\" \"node_lifecycle\" {",
        "resource \"aws_cloudwatch_event_rule\" \"capacity_reservation_interruption\" {",
        "resource \"aws_eks_pod_identity_association\" \"controller\" {",
        "resource \"aws_eks_access_entry\" \"node\" {",
    ] {
        assert!(has(resource), "{resource}");
    }
    let key = "\"aws:RequestTag/kubernetes.io/cluster/${var.cluster_name}\" = \"owned\"";
    assert!(module.contains(key));
    let web = text(&["-o", "terraform", "--oidc-provider=x.example/id/1", "--interruption-queue="], &[]).unwrap();
    assert!(!web.contains("pod_identity") && !web.contains("aws_sqs_queue") && !web.contains("queue_url"));
}

#[test]
fn nodes_are_let_in_by_whoever_runs_the_cluster() {
    // covers: API-IAM-31
    let all = granted(&policies(&scope(&[])));
    let of_eks: Vec<_> = all.into_iter().filter(|action| action.starts_with("eks:")).collect();
    assert_eq!(of_eks, ["eks:DescribeCluster"], "the controller neither makes access entries nor maps roles");
    let module = text(&["-o", "terraform"], &[]).unwrap();
    let entry = module.split("resource \"aws_eks_access_entry\" \"node\" {").nth(1).unwrap();
    assert!(entry.split('}').next().unwrap().contains("\"EC2_LINUX\""), "{entry}");
}

#[test]
fn what_is_missing_is_named() {
    let faults = text(&["--account=12"], &[]).unwrap_err();
    let starts: Vec<&str> = faults.iter().filter_map(|fault| fault.split(':').next()).collect();
    assert_eq!(starts, ["cluster-name", "region", "account"], "{faults:?}");
    let env = [("CLUSTER_NAME", "a"), ("AWS_REGION", "us-east-1"), ("INTERRUPTION_QUEUE", "q")];
    let found = text(&["--account=111122223333"], &env).unwrap();
    assert!(found.contains("arn:aws:sqs:us-east-1:111122223333:q"));
    assert!(text(&["-o", "terraform", "--only=node-trust"], &[]).is_err());
    assert!(text(&[&KNOWN[..], &["--only=zonal-shift", "--enable-zonal-shift=false"]].concat(), &[]).is_err());
}
