//! The stack: what it makes, and what the controller is allowed to do in an account.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::helm::{read, yaml};

const PARTS: [(&str, &str); 6] = [
    ("NodeLifecycle", "node-lifecycle"),
    ("IAMIntegration", "iam-integration"),
    ("EKSIntegration", "eks-integration"),
    ("Interruption", "interruption"),
    ("ZonalShift", "zonal-shift"),
    ("ResourceDiscovery", "resource-discovery"),
];

fn template() -> Value {
    yaml(&read("deploy/cloudformation/karpenter.yaml"))
}

/// A policy's statements, with what the stack would fill in for cluster `shop` in eu-west-1.
fn statements(part: &str) -> Vec<Value> {
    let properties = &template()["Resources"][format!("{part}Policy")]["Properties"];
    let text = properties["PolicyDocument"]["Fn::Sub"].as_str().unwrap();
    let filled = [
        ("${AWS::Partition}", "aws"),
        ("${AWS::Region}", "eu-west-1"),
        ("${AWS::AccountId}", "111122223333"),
        ("${ClusterName}", "shop"),
        ("${KarpenterNodeRole.Arn}", "arn:aws:iam::111122223333:role/KarpenterNodeRole-shop"),
        ("${KarpenterInterruptionQueue.Arn}", "arn:aws:sqs:eu-west-1:111122223333:shop"),
    ];
    let text = filled.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    assert!(!text.contains("${"), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["Version"], "2012-10-17");
    document["Statement"].as_array().unwrap().clone()
}

fn statement(part: &str, sid: &str) -> Value {
    statements(part).into_iter().find(|statement| statement["Sid"] == sid).unwrap_or_else(|| panic!("no {sid}"))
}

fn words(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().map(|item| item.as_str().unwrap().to_owned()).collect(),
        Value::String(one) => BTreeSet::from([one.clone()]),
        _ => panic!("{value}"),
    }
}

fn set(text: &str) -> BTreeSet<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn ec2(kinds: &str, account: &str) -> BTreeSet<String> {
    kinds.split(' ').map(|kind| format!("arn:aws:ec2:eu-west-1:{account}:{kind}/*")).collect()
}

const MADE: &str = "fleet instance volume network-interface launch-template spot-instances-request";

#[test]
fn launches_are_bound_to_the_clusters_own_tags() {
    // covers: API-IAM-02, API-IAM-03, API-IAM-04, API-IAM-05, API-IAM-06, API-IAM-07
    let of = |sid: &str| statement("NodeLifecycle", sid);
    let owned = |kind: &str| {
        json!({"StringEquals": {format!("aws:{kind}Tag/kubernetes.io/cluster/shop"): "owned"},
            "StringLike": {format!("aws:{kind}Tag/karpenter.sh/nodepool"): "*"}})
    };
    let mut request = owned("Request");
    request["StringEquals"]["aws:RequestTag/eks:eks-cluster-name"] = json!("shop");

    let access = of("AllowScopedEC2InstanceAccessActions");
    assert_eq!(words(&access["Action"]), set("ec2:RunInstances ec2:CreateFleet"));
    let mut resources = ec2("image snapshot", "");
    resources.extend(ec2("security-group subnet capacity-reservation placement-group", "*"));
    assert_eq!((words(&access["Resource"]), &access["Condition"]), (resources, &Value::Null));

    let templates = of("AllowScopedEC2LaunchTemplateAccessActions");
    assert_eq!(words(&templates["Action"]), set("ec2:RunInstances ec2:CreateFleet"));
    assert_eq!(
        (words(&templates["Resource"]), &templates["Condition"]),
        (ec2("launch-template", "*"), &owned("Resource"))
    );

    let tagged = of("AllowScopedEC2InstanceActionsWithTags");
    assert_eq!(words(&tagged["Action"]), set("ec2:RunInstances ec2:CreateFleet ec2:CreateLaunchTemplate"));
    assert_eq!((words(&tagged["Resource"]), &tagged["Condition"]), (ec2(MADE, "*"), &request));

    let creation = of("AllowScopedResourceCreationTagging");
    let mut condition = request.clone();
    condition["StringEquals"]["ec2:CreateAction"] = json!(["RunInstances", "CreateFleet", "CreateLaunchTemplate"]);
    assert_eq!(words(&creation["Action"]), set("ec2:CreateTags"));
    assert_eq!((words(&creation["Resource"]), &creation["Condition"]), (ec2(MADE, "*"), &condition));

    let tagging = of("AllowScopedResourceTagging");
    let mut condition = owned("Resource");
    condition["StringEqualsIfExists"] = json!({"aws:RequestTag/eks:eks-cluster-name": "shop"});
    condition["ForAllValues:StringEquals"] =
        json!({"aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]});
    assert_eq!(words(&tagging["Action"]), set("ec2:CreateTags"));
    assert_eq!((words(&tagging["Resource"]), &tagging["Condition"]), (ec2("instance", "*"), &condition));

    let deletion = of("AllowScopedDeletion");
    assert_eq!(words(&deletion["Action"]), set("ec2:TerminateInstances ec2:DeleteLaunchTemplate"));
    assert_eq!(
        (words(&deletion["Resource"]), &deletion["Condition"]),
        (ec2("instance launch-template", "*"), &owned("Resource"))
    );
    assert_eq!(statements("NodeLifecycle").len(), 6);
}

#[test]
fn the_node_role_is_passed_and_profiles_are_the_clusters_own() {
    // covers: API-IAM-08, API-IAM-09, API-IAM-10, API-IAM-11
    let of = |sid: &str| statement("IAMIntegration", sid);
    let pass = of("AllowPassingInstanceRole");
    assert_eq!(words(&pass["Action"]), set("iam:PassRole"));
    assert_eq!(words(&pass["Resource"]), set("arn:aws:iam::111122223333:role/KarpenterNodeRole-shop"));
    let services = words(&pass["Condition"]["StringEquals"]["iam:PassedToService"]);
    assert_eq!(services, set("ec2.amazonaws.com ec2.amazonaws.com.cn"));

    let tags = |kind: &str, name: bool| {
        let mut tags = json!({format!("aws:{kind}Tag/kubernetes.io/cluster/shop"): "owned",
            format!("aws:{kind}Tag/topology.kubernetes.io/region"): "eu-west-1"});
        if name {
            tags[format!("aws:{kind}Tag/eks:eks-cluster-name")] = json!("shop");
        }
        tags
    };
    let class = |kind: &str| format!("aws:{kind}Tag/karpenter.k8s.aws/ec2nodeclass");
    for (sid, actions, request, resource) in [
        ("AllowScopedInstanceProfileCreationActions", "iam:CreateInstanceProfile", true, false),
        ("AllowScopedInstanceProfileTagActions", "iam:TagInstanceProfile", true, true),
        (
            "AllowScopedInstanceProfileActions",
            "iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile iam:DeleteInstanceProfile",
            false,
            true,
        ),
    ] {
        let found = of(sid);
        let mut equal = json!({});
        let mut like = json!({});
        for (given, kind) in [(request, "Request"), (resource, "Resource")] {
            if given {
                let more = tags(kind, kind == "Request");
                equal.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                like[class(kind)] = json!("*");
            }
        }
        assert_eq!(words(&found["Action"]), set(actions), "{sid}");
        assert_eq!(words(&found["Resource"]), set("arn:aws:iam::111122223333:instance-profile/*"), "{sid}");
        assert_eq!(found["Condition"], json!({"StringEquals": equal, "StringLike": like}), "{sid}");
    }
    assert_eq!(statements("IAMIntegration").len(), 4);
}

#[test]
fn reading_is_bound_to_the_region_the_cluster_and_the_queue() {
    // covers: API-IAM-12, API-IAM-13, API-IAM-14, API-IAM-15, API-IAM-16, API-IAM-17, API-IAM-18, API-IAM-19, SEED0-27
    let cluster = "arn:aws:eks:eu-west-1:111122223333:cluster/shop";
    let describes = "CapacityReservations Images Instances InstanceStatus InstanceTypeOfferings InstanceTypes LaunchTemplates \
        PlacementGroups SecurityGroups SpotPriceHistory Subnets";
    let describes: Vec<String> = describes.split_whitespace().map(|what| format!("ec2:Describe{what}")).collect();
    for (part, sid, actions, resource, condition) in [
        ("EKSIntegration", "AllowAPIServerEndpointDiscovery", "eks:DescribeCluster", cluster, Value::Null),
        (
            "Interruption",
            "AllowInterruptionQueueActions",
            "sqs:DeleteMessage sqs:GetQueueUrl sqs:ReceiveMessage",
            "arn:aws:sqs:eu-west-1:111122223333:shop",
            Value::Null,
        ),
        (
            "ZonalShift",
            "AllowZonalShiftStatusReadOnly",
            "arc-zonal-shift:GetManagedResource",
            "*",
            json!({"StringEquals": {"arc-zonal-shift:ResourceIdentifier": cluster}}),
        ),
        (
            "ResourceDiscovery",
            "AllowRegionalReadActions",
            &describes.join(" "),
            "*",
            json!({"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}),
        ),
        (
            "ResourceDiscovery",
            "AllowSSMReadActions",
            "ssm:GetParameter",
            "arn:aws:ssm:eu-west-1::parameter/aws/service/*",
            Value::Null,
        ),
        ("ResourceDiscovery", "AllowPricingReadActions", "pricing:GetProducts", "*", Value::Null),
        ("ResourceDiscovery", "AllowUnscopedInstanceProfileListAction", "iam:ListInstanceProfiles", "*", Value::Null),
        (
            "ResourceDiscovery",
            "AllowInstanceProfileReadActions",
            "iam:GetInstanceProfile",
            "arn:aws:iam::111122223333:instance-profile/*",
            Value::Null,
        ),
    ] {
        let found = statement(part, sid);
        assert_eq!(words(&found["Action"]), set(actions), "{sid}");
        assert_eq!(words(&found["Resource"]), set(resource), "{sid}");
        assert_eq!(found["Condition"], condition, "{sid}");
    }
    let counts: Vec<usize> = PARTS.iter().map(|(part, _)| statements(part).len()).collect();
    assert_eq!(counts, [6, 4, 1, 1, 1, 5], "and nothing else is allowed");
}

#[test]
fn tags_are_made_and_never_taken_away() {
    // covers: SEED0-28
    let actions: BTreeSet<String> =
        PARTS.iter().flat_map(|(part, _)| statements(part)).flat_map(|one| words(&one["Action"])).collect();
    for needed in ["ec2:RunInstances", "ec2:CreateFleet", "ec2:TerminateInstances", "ec2:CreateTags"] {
        assert!(actions.contains(needed), "{needed}");
    }
    assert!(!actions.iter().any(|action| action.contains("DeleteTags") || action.contains('*')), "{actions:?}");
}

#[test]
fn the_stack_makes_roles_policies_profile_queue_and_rules() {
    // covers: API-CF-01, API-CF-02, API-CF-03, API-CF-04, API-CF-05, API-CF-06, API-CF-07, API-CF-08, API-IAM-30
    // covers: SEED1-02, SEED1-03, SEED1-04, SEED1-05, SEED3-34, EXT-12, SEED4-24
    let template = template();
    let resources = &template["Resources"];
    assert_eq!(template["Parameters"].as_object().unwrap().keys().collect::<Vec<_>>(), ["ClusterName"]);
    let named = |id: &str, kind: &str, property: &str, name: &str| {
        assert_eq!(resources[id]["Type"], kind, "{id}");
        let found = &resources[id]["Properties"][property];
        let text = found["Fn::Sub"].as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| format!("${{{}}}", found["Ref"].as_str().unwrap()));
        assert_eq!(text, name, "{id}");
    };
    named("KarpenterNodeRole", "AWS::IAM::Role", "RoleName", "KarpenterNodeRole-${ClusterName}");
    named("KarpenterControllerRole", "AWS::IAM::Role", "RoleName", "KarpenterControllerRole-${ClusterName}");
    named(
        "KarpenterNodeInstanceProfile",
        "AWS::IAM::InstanceProfile",
        "InstanceProfileName",
        "KarpenterNodeInstanceProfile-${ClusterName}",
    );
    named("KarpenterInterruptionQueue", "AWS::SQS::Queue", "QueueName", "${ClusterName}");
    let managed = |id: &str, field: &str| -> BTreeSet<String> {
        let list = resources[id]["Properties"]["ManagedPolicyArns"].as_array().unwrap();
        list.iter().map(|entry| entry[field].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(
        managed("KarpenterNodeRole", "Fn::Sub"),
        set(
            "AmazonEKS_CNI_Policy AmazonEKSWorkerNodePolicy AmazonEC2ContainerRegistryPullOnly AmazonSSMManagedInstanceCore"
        )
    );
    let policies: BTreeSet<String> = PARTS.iter().map(|(part, _)| format!("{part}Policy")).collect();
    assert_eq!(managed("KarpenterControllerRole", "Ref"), policies);
    for (part, _) in PARTS {
        let name = format!("KarpenterController{part}Policy-${{ClusterName}}");
        named(&format!("{part}Policy"), "AWS::IAM::ManagedPolicy", "ManagedPolicyName", &name);
    }
    let trust = |id: &str| &resources[id]["Properties"]["AssumeRolePolicyDocument"]["Statement"][0];
    assert_eq!(trust("KarpenterNodeRole")["Principal"]["Service"]["Fn::Sub"], "ec2.${AWS::URLSuffix}");
    let controller = trust("KarpenterControllerRole");
    assert_eq!(controller["Principal"]["Service"], "pods.eks.amazonaws.com");
    assert_eq!(controller["Action"], json!(["sts:AssumeRole", "sts:TagSession"]));
    assert_eq!(resources["KarpenterNodeInstanceProfile"]["Properties"]["Roles"], json!([{"Ref": "KarpenterNodeRole"}]));

    let queue = &resources["KarpenterInterruptionQueue"]["Properties"];
    assert_eq!((&queue["MessageRetentionPeriod"], &queue["SqsManagedSseEnabled"]), (&json!(300), &json!(true)));
    let policy = &resources["KarpenterInterruptionQueuePolicy"]["Properties"];
    assert_eq!(policy["Queues"], json!([{"Ref": "KarpenterInterruptionQueue"}]));
    let [allow, deny] = &policy["PolicyDocument"]["Statement"].as_array().unwrap()[..] else { panic!() };
    assert_eq!((&allow["Effect"], &allow["Action"]), (&json!("Allow"), &json!("sqs:SendMessage")));
    assert_eq!(allow["Principal"]["Service"], json!(["events.amazonaws.com", "sqs.amazonaws.com"]));
    let rules = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/*";
    assert_eq!(allow["Condition"], json!({"ArnLike": {"aws:SourceArn": {"Fn::Sub": rules}}}));
    assert_eq!((&deny["Effect"], &deny["Action"]), (&json!("Deny"), &json!("sqs:*")));
    assert_eq!(deny["Condition"], json!({"Bool": {"aws:SecureTransport": "false"}}));

    let rules = [
        ("ScheduledChangeRule", "aws.health", "AWS Health Event"),
        ("SpotInterruptionRule", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
        ("RebalanceRule", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
        ("InstanceStateChangeRule", "aws.ec2", "EC2 Instance State-change Notification"),
        ("CapacityReservationInterruptionRule", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    ];
    for (id, source, detail) in rules {
        let properties = &resources[id]["Properties"];
        assert_eq!(properties["EventPattern"], json!({"source": [source], "detail-type": [detail]}), "{id}");
        assert_eq!(properties["Targets"][0]["Id"], "KarpenterInterruptionQueueTarget");
        // Named after the stack, Karpenter-<cluster>.
        assert_eq!(properties["Name"], Value::Null);
    }
    assert_eq!(resources.as_object().unwrap().len(), 5 + PARTS.len() + rules.len());
    let outputs: Vec<&String> = template["Outputs"].as_object().unwrap().keys().collect();
    assert_eq!(outputs, ["ControllerRoleArn", "NodeRoleName", "NodeInstanceProfileName", "InterruptionQueueName"]);
}

#[test]
fn the_terraform_module_gives_the_same_policies() {
    for (part, file) in PARTS {
        let text = read(&format!("deploy/terraform/policies/{file}.json.tftpl"));
        let filled = [
            ("${partition}", "aws"),
            ("${region}", "eu-west-1"),
            ("${account}", "111122223333"),
            ("${cluster}", "shop"),
            ("${node_role_arn}", "arn:aws:iam::111122223333:role/KarpenterNodeRole-shop"),
            ("${queue_arn}", "arn:aws:sqs:eu-west-1:111122223333:shop"),
        ];
        let text = filled.iter().fold(text, |text, (from, to)| text.replace(from, to));
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["Statement"], Value::Array(statements(part)), "{part}");
    }
}

#[test]
fn the_seeds_installation_names_the_template_and_the_stack() {
    // covers: SEED1-01
    let script = read("examples/seeds/001/install.sh");
    for words in [
        "aws cloudformation deploy",
        "--stack-name \"Karpenter-${CLUSTER_NAME}\"",
        "--template-file deploy/cloudformation/karpenter.yaml",
        "--capabilities CAPABILITY_NAMED_IAM",
        "--parameter-overrides \"ClusterName=${CLUSTER_NAME}\"",
    ] {
        assert!(script.contains(words), "{words}");
    }
    let parameter = &template()["Parameters"]["ClusterName"];
    assert_eq!((&parameter["Type"], &parameter["Default"]), (&json!("String"), &Value::Null));
    // Nothing of the stack asks the cluster anything: it may not exist yet.
    assert!(!read("deploy/cloudformation/karpenter.yaml").contains("AWS::EKS::"));
}

#[test]
fn what_surrounds_us_is_left_to_its_owners() {
    // covers: SEED1-31, SEED3-33
    let stack = template();
    let kinds =
        stack["Resources"].as_object().unwrap().values().map(|resource| resource["Type"].as_str().unwrap().to_owned());
    let kinds: BTreeSet<String> = kinds.collect();
    assert!(!kinds.iter().any(|kind| kind.starts_with("AWS::EKS::") || kind.starts_with("AWS::Logs::")), "{kinds:?}");
    let module = ["controller.tf", "nodes.tf", "interruptions.tf", "chart.tf"]
        .map(|file| read(&format!("deploy/terraform/{file}")))
        .join("\n");
    for resource in
        ["resource \"aws_eks_cluster\"", "resource \"aws_cloudwatch_log_group\"", "enabled_cluster_log_types"]
    {
        assert!(!module.contains(resource), "{resource}: the cluster's own logging is not ours to set");
    }
    // Whoever may ask the queue for its attributes is not kept from it, as long as the wire is encrypted.
    let policy = &stack["Resources"]["KarpenterInterruptionQueuePolicy"]["Properties"]["PolicyDocument"]["Statement"];
    let denied = policy.as_array().unwrap().iter().filter(|statement| statement["Effect"] == "Deny");
    for statement in denied {
        assert_eq!(statement["Condition"], json!({"Bool": {"aws:SecureTransport": "false"}}));
    }
}
