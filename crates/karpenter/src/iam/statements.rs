//! The controller's policies: one for each part, so that none outgrows what IAM takes in one document.

use serde_json::{Map, Value, json};

use super::scope::Scope;

/// The tag that says which cluster something belongs to has the cluster in its key.
fn owned(prefix: &str, scope: &Scope) -> (String, Value) {
    (format!("aws:{prefix}Tag/kubernetes.io/cluster/{}", scope.names.cluster), json!("owned"))
}

fn named(scope: &Scope) -> (String, Value) {
    ("aws:RequestTag/eks:eks-cluster-name".to_owned(), json!(scope.names.cluster))
}

fn in_region(prefix: &str, scope: &Scope) -> (String, Value) {
    (format!("aws:{prefix}Tag/topology.kubernetes.io/region"), json!(scope.names.region))
}

/// There, whatever its value: a permission check sends the pool's tag empty.
fn present(prefix: &str, key: &str) -> (String, Value) {
    (format!("aws:{prefix}Tag/{key}"), json!("*"))
}

const POOL: &str = "karpenter.sh/nodepool";
const CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Policy {
    /// As in `KarpenterController<part>Policy-<cluster>`.
    pub(super) part: &'static str,
    pub(super) statements: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statement {
    pub(super) id: &'static str,
    pub(super) actions: Vec<&'static str>,
    pub(super) resources: Vec<String>,
    /// Operator, then key and value.
    pub(super) conditions: Vec<(&'static str, Vec<(String, Value)>)>,
}

impl Statement {
    fn new(id: &'static str, actions: &[&'static str], resources: Vec<String>) -> Self {
        Self { id, actions: actions.to_vec(), resources, conditions: Vec::new() }
    }

    fn if_(mut self, operator: &'static str, keys: impl Into<Vec<(String, Value)>>) -> Self {
        self.conditions.push((operator, keys.into()));
        self
    }

    fn to_json(&self) -> Value {
        let mut statement = json!({
            "Sid": self.id, "Effect": "Allow", "Action": self.actions, "Resource": self.resources,
        });
        if !self.conditions.is_empty() {
            let keys = |keys: &[(String, Value)]| Value::Object(keys.iter().cloned().collect::<Map<_, _>>());
            let all: Map<String, Value> =
                self.conditions.iter().map(|(operator, of)| ((*operator).to_owned(), keys(of))).collect();
            statement["Condition"] = Value::Object(all);
        }
        statement
    }
}

impl Policy {
    pub(super) fn document(&self) -> Value {
        document(self.statements.iter().map(Statement::to_json).collect())
    }
}

pub(super) fn document(statements: Vec<Value>) -> Value {
    json!({"Version": "2012-10-17", "Statement": statements})
}

/// All that are needed, without empty ones.
pub(super) fn policies(scope: &Scope) -> Vec<Policy> {
    let parts = [
        ("NodeLifecycle", node_lifecycle(scope)),
        ("IAMIntegration", iam_integration(scope)),
        ("EKSIntegration", eks_integration(scope)),
        ("Interruption", interruption(scope)),
        ("ZonalShift", zonal_shift(scope)),
        ("ResourceDiscovery", resource_discovery(scope)),
    ];
    let all = parts.into_iter().map(|(part, statements)| Policy { part, statements });
    all.filter(|policy| !policy.statements.is_empty()).collect()
}

fn node_lifecycle(scope: &Scope) -> Vec<Statement> {
    let mut used = vec![
        scope.regional("image"),
        scope.regional("snapshot"),
        scope.tagged("security-group"),
        scope.tagged("subnet"),
        scope.tagged("placement-group"),
    ];
    if scope.uses.reservations {
        used.push(scope.tagged("capacity-reservation"));
    }
    let made = || -> Vec<String> {
        ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"]
            .map(|resource| scope.tagged(resource))
            .into()
    };
    let ours = |statement: Statement| {
        statement.if_("StringEquals", [owned("Resource", scope)]).if_("StringLike", [present("Resource", POOL)])
    };
    vec![
        Statement::new("AllowScopedEC2InstanceAccessActions", &["ec2:RunInstances", "ec2:CreateFleet"], used),
        ours(Statement::new(
            "AllowScopedEC2LaunchTemplateAccessActions",
            &["ec2:RunInstances", "ec2:CreateFleet"],
            vec![scope.tagged("launch-template")],
        )),
        Statement::new(
            "AllowScopedEC2InstanceActionsWithTags",
            &["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
            made(),
        )
        .if_("StringEquals", [owned("Request", scope), named(scope)])
        .if_("StringLike", [present("Request", POOL)]),
        Statement::new("AllowScopedResourceCreationTagging", &["ec2:CreateTags"], made())
            .if_(
                "StringEquals",
                [
                    owned("Request", scope),
                    named(scope),
                    ("ec2:CreateAction".to_owned(), json!(["RunInstances", "CreateFleet", "CreateLaunchTemplate"])),
                ],
            )
            .if_("StringLike", [present("Request", POOL)]),
        ours(Statement::new("AllowScopedResourceTagging", &["ec2:CreateTags"], vec![scope.tagged("instance")]))
            .if_("StringEqualsIfExists", [named(scope)])
            .if_(
                "ForAllValues:StringEquals",
                [("aws:TagKeys".to_owned(), json!(["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]))],
            ),
        ours(Statement::new(
            "AllowScopedDeletion",
            &["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            vec![scope.tagged("instance"), scope.tagged("launch-template")],
        )),
    ]
}

fn iam_integration(scope: &Scope) -> Vec<Statement> {
    let pass = Statement::new(
        "AllowPassingInstanceRole",
        &["iam:PassRole"],
        vec![scope.iam(&format!("role/{}", scope.node_role))],
    )
    .if_("StringEquals", [("iam:PassedToService".to_owned(), json!(["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]))]);
    if !scope.uses.public_services {
        return vec![pass];
    }
    let profiles = || vec![scope.iam("instance-profile/*")];
    vec![
        pass,
        Statement::new("AllowScopedInstanceProfileCreationActions", &["iam:CreateInstanceProfile"], profiles())
            .if_("StringEquals", [owned("Request", scope), named(scope), in_region("Request", scope)])
            .if_("StringLike", [present("Request", CLASS)]),
        Statement::new("AllowScopedInstanceProfileTagActions", &["iam:TagInstanceProfile"], profiles())
            .if_(
                "StringEquals",
                [
                    owned("Resource", scope),
                    in_region("Resource", scope),
                    owned("Request", scope),
                    named(scope),
                    in_region("Request", scope),
                ],
            )
            .if_("StringLike", [present("Resource", CLASS), present("Request", CLASS)]),
        Statement::new(
            "AllowScopedInstanceProfileActions",
            &["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            profiles(),
        )
        .if_("StringEquals", [owned("Resource", scope), in_region("Resource", scope)])
        .if_("StringLike", [present("Resource", CLASS)]),
    ]
}

/// Also with an endpoint given: the service network of AL2023 nodes comes from there.
fn eks_integration(scope: &Scope) -> Vec<Statement> {
    vec![Statement::new("AllowAPIServerEndpointDiscovery", &["eks:DescribeCluster"], vec![scope.cluster_arn()])]
}

fn interruption(scope: &Scope) -> Vec<Statement> {
    let actions = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"];
    let queue = scope.queue.iter();
    queue.map(|name| Statement::new("AllowInterruptionQueueActions", &actions, vec![scope.queue_arn(name)])).collect()
}

fn zonal_shift(scope: &Scope) -> Vec<Statement> {
    if !scope.uses.zonal_shift {
        return Vec::new();
    }
    let key = "arc-zonal-shift:ResourceIdentifier".to_owned();
    vec![
        Statement::new("AllowZonalShiftStatusReadOnly", &["arc-zonal-shift:GetManagedResource"], anything())
            .if_("StringEquals", [(key, json!(scope.cluster_arn()))]),
    ]
}

fn resource_discovery(scope: &Scope) -> Vec<Statement> {
    let mut reads = vec![
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
    ];
    if scope.uses.reservations {
        reads.insert(0, "ec2:DescribeCapacityReservations");
    }
    let ssm = |account: &str, path: &str| {
        format!(
            "arn:{}:ssm:{}:{account}:parameter/{}",
            scope.names.partition,
            scope.names.region,
            path.trim_start_matches('/')
        )
    };
    let mut statements = vec![
        Statement::new("AllowRegionalReadActions", &reads, anything())
            .if_("StringEquals", [("aws:RequestedRegion".to_owned(), json!(scope.names.region))]),
        Statement::new("AllowSSMReadActions", &["ssm:GetParameter"], vec![ssm("", "aws/service/*")]),
    ];
    if !scope.parameters.is_empty() {
        let own = scope.parameters.iter().map(|name| ssm(&scope.names.account, name)).collect();
        statements.push(Statement::new("AllowOwnSSMReadActions", &["ssm:GetParameter"], own));
    }
    if scope.uses.public_services {
        statements.extend([
            Statement::new("AllowPricingReadActions", &["pricing:GetProducts"], anything()),
            Statement::new("AllowUnscopedInstanceProfileListAction", &["iam:ListInstanceProfiles"], anything()),
            Statement::new(
                "AllowInstanceProfileReadActions",
                &["iam:GetInstanceProfile"],
                vec![scope.iam("instance-profile/*")],
            ),
        ]);
    }
    statements
}

fn anything() -> Vec<String> {
    vec!["*".to_owned()]
}
