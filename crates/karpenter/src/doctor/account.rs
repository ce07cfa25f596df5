//! The account: one check for each thing the controller asks of AWS, with the very call it asks by.

use jiff::Timestamp;
use karpenter_ec2::family::AmiFamily;
use karpenter_ec2::images::{LATEST, alias_parameters};
use karpenter_provider_aws::calls::{
    Aws, Cluster, DescribeImages, DescribeInstances, DescribeLaunchTemplates, Filter, PriceQuery,
};
use karpenter_provider_aws::prices::has_price_list;

use super::advice::finding;
use super::{Finding, Patient, Verdict};
use crate::account::Account;

const DISCOVERY: &str = "karpenter.sh/discovery";
/// Fewer free addresses than this and a subnet is about to be full.
const FEW_ADDRESSES: i64 = 16;
const OLDEST: u32 = 26;
const NEWEST: u32 = 36;

/// In the order in which a controller would come across the faults.
pub(super) async fn examine(account: &Account, patient: &Patient, now: Timestamp) -> Vec<Finding> {
    let aws = &account.aws;
    let mut findings = vec![credentials(account).await, ec2(aws).await];
    let (found, cluster) = cluster(aws, patient).await;
    findings.push(found);
    findings.extend(network(aws, patient).await);
    if let Some(cluster) = &cluster {
        findings.push(images(aws, cluster).await);
    }
    findings.extend(reads(aws, patient, now).await);
    findings.push(queue(aws, patient).await);
    if !patient.isolated_vpc {
        findings.extend(public_services(aws).await);
    }
    findings
}

async fn credentials(account: &Account) -> Finding {
    match account.asks.caller().await {
        Ok(caller) => Finding::good("credentials", format!("{} of account {}", caller.arn, caller.account)),
        Err(error) => finding("credentials", Verdict::Broken, "sts:GetCallerIdentity", &error),
    }
}

async fn ec2(aws: &Aws) -> Finding {
    match aws.ec2.describe_instance_types_dry_run().await {
        Ok(()) => Finding::good("EC2", format!("answers in {}", aws.region)),
        Err(error) if error.is_dry_run() => Finding::good("EC2", format!("answers in {}", aws.region)),
        Err(error) => finding("EC2", Verdict::Broken, "ec2:DescribeInstanceTypes", &error),
    }
}

async fn cluster(aws: &Aws, patient: &Patient) -> (Finding, Option<Cluster>) {
    let subject = format!("cluster {}", patient.cluster);
    let found = match aws.eks.describe_cluster(&patient.cluster).await {
        Ok(found) => found,
        Err(error) if error.code == "ResourceNotFoundException" => {
            let seen = format!("there is none of this name in {}", aws.region);
            let advice = "check --cluster-name and the region";
            return (Finding::bad(subject, Verdict::Broken, seen, advice), None);
        }
        // With a cluster-endpoint given most of it can be done without.
        Err(error) => return (finding(&subject, Verdict::Lacking, "eks:DescribeCluster", &error), None),
    };
    let minor = found.version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    let told = format!("Kubernetes {} at {}", found.version, found.endpoint);
    let judged = match minor {
        Some(minor) if !(OLDEST..=NEWEST).contains(&minor) => Finding::bad(
            subject,
            Verdict::Lacking,
            told,
            format!("versions 1.{OLDEST} to 1.{NEWEST} are supported; another one may work"),
        ),
        _ => Finding::good(subject, told),
    };
    (judged, Some(found))
}

/// By the tag that examples select by. Node classes may select otherwise, so that nothing is tagged is no fault yet.
async fn network(aws: &Aws, patient: &Patient) -> Vec<Finding> {
    let tagged = [Filter::tag(DISCOVERY, &patient.cluster)];
    let tag = format!("{DISCOVERY}={}", patient.cluster);
    let untagged = |subject: &str, what: &str| {
        let advice =
            format!("tag the {what} of the nodes with it, or let node classes select them by other tags or by id");
        Finding::bad(subject, Verdict::Lacking, format!("nothing is tagged {tag}"), advice)
    };
    let subnets = match aws.ec2.describe_subnets(&tagged, 500).await {
        Err(error) => finding("subnets", Verdict::Broken, "ec2:DescribeSubnets", &error),
        Ok(all) if all.is_empty() => untagged("subnets", "subnets"),
        Ok(all) => {
            let full: Vec<&str> =
                all.iter().filter(|net| net.free_addresses < FEW_ADDRESSES).map(|net| net.id.as_str()).collect();
            let mut zones: Vec<&str> = all.iter().map(|net| net.zone.as_str()).collect();
            zones.sort_unstable();
            zones.dedup();
            let seen = format!("{} tagged {tag}, in {}", all.len(), zones.join(", "));
            if full.is_empty() {
                Finding::good("subnets", seen)
            } else {
                let advice = format!("hardly any address is left in {}: add subnets, or free some", full.join(", "));
                Finding::bad("subnets", Verdict::Lacking, seen, advice)
            }
        }
    };
    let groups = match aws.ec2.describe_security_groups(&tagged, 500).await {
        Err(error) => finding("security groups", Verdict::Broken, "ec2:DescribeSecurityGroups", &error),
        Ok(all) if all.is_empty() => untagged("security groups", "security groups"),
        Ok(all) => Finding::good("security groups", format!("{} tagged {tag}", all.len())),
    };
    vec![subnets, groups]
}

/// The newest image of the default family, by the parameter AWS publishes it under.
async fn images(aws: &Aws, cluster: &Cluster) -> Finding {
    let parameters = alias_parameters(AmiFamily::Al2023, LATEST, &cluster.version);
    let Some(parameter) = parameters.first() else {
        let seen = format!("AL2023 has none for Kubernetes {}", cluster.version);
        return Finding::bad("images", Verdict::Lacking, seen, "select images by id, name or tags");
    };
    match aws.ssm.get_parameter(&parameter.name).await {
        Ok(id) => Finding::good("images", format!("al2023@latest is {id}")),
        Err(error) if error.is_not_found() => Finding::bad(
            "images",
            Verdict::Lacking,
            format!("AWS publishes no AL2023 image for Kubernetes {}", cluster.version),
            "select images by id, name or tags",
        ),
        Err(error) => finding("images", Verdict::Broken, "ssm:GetParameter", &error),
    }
}

/// What else is read. Of some only a feature depends.
async fn reads(aws: &Aws, patient: &Patient, now: Timestamp) -> Vec<Finding> {
    let ours = || vec![Filter::new("tag:eks:eks-cluster-name", [patient.cluster.as_str()])];
    let images = DescribeImages {
        owners: Vec::new(),
        filters: vec![Filter::new("image-id", ["ami-00000000000000000"])],
        include_deprecated: false,
        max_results: 1000,
    };
    let instances = DescribeInstances { filters: ours(), max_results: Some(1000), ..DescribeInstances::default() };
    let templates =
        DescribeLaunchTemplates { filters: ours(), max_results: Some(200), ..DescribeLaunchTemplates::default() };
    let mut findings = Vec::new();
    let mut note = |subject: &str, verdict, action: &str, outcome: Result<String, _>| {
        findings.push(match outcome {
            Ok(seen) => Finding::good(subject, seen),
            Err(error) => finding(subject, verdict, action, &error),
        });
    };
    let count = |what: &'static str| move |number: usize| format!("{number} {what}");
    let found = aws.ec2.describe_images(&images).await.map(|_| "can be searched".to_owned());
    note("image search", Verdict::Broken, "ec2:DescribeImages", found);
    let found = aws.ec2.describe_instances(&instances).await.map(|all| count("of this cluster")(all.len()));
    note("instances", Verdict::Broken, "ec2:DescribeInstances", found);
    let found = aws.ec2.describe_launch_templates(&templates).await.map(|all| count("of this cluster")(all.len()));
    note("launch templates", Verdict::Broken, "ec2:DescribeLaunchTemplates", found);
    let found = aws.ec2.describe_instance_status(&ours()).await.map(|_| "is polled".to_owned());
    note("instance health", Verdict::Lacking, "ec2:DescribeInstanceStatus", found);
    let found = aws.ec2.describe_capacity_reservations(&[], &ours(), Some(1000)).await;
    let found = found.map(|_| "can be searched".to_owned());
    note("reservations", Verdict::Lacking, "ec2:DescribeCapacityReservations", found);
    let found = aws.ec2.describe_placement_groups(&ours()).await.map(|_| "can be searched".to_owned());
    note("placement groups", Verdict::Lacking, "ec2:DescribePlacementGroups", found);
    let found = aws.ec2.describe_spot_price_history(now, 2000).await.map(|all| count("of the region")(all.len()));
    note("spot prices", Verdict::Lacking, "ec2:DescribeSpotPriceHistory", found);
    findings
}

async fn queue(aws: &Aws, patient: &Patient) -> Finding {
    let Some(name) = &patient.queue else {
        let advice = "without a queue spot nodes end with no warning: set interruption-queue; `karpenter iam -o \
                      cloudformation` makes one";
        return Finding::bad("queue", Verdict::Lacking, "none is set", advice);
    };
    match aws.sqs.get_queue_url(name).await {
        Ok(url) => Finding::good("queue", url),
        Err(error) if error.is_not_found() => Finding::bad(
            "queue",
            Verdict::Lacking,
            format!("there is no queue {name} in {}", aws.region),
            "make it, with rules that send events to it: `karpenter iam -o cloudformation`, or terraform",
        ),
        Err(error) => finding("queue", Verdict::Lacking, "sqs:GetQueueUrl", &error),
    }
}

/// What has no endpoint in an isolated network.
async fn public_services(aws: &Aws) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.push(match aws.iam.list_instance_profiles("/karpenter/").await {
        Ok(all) => Finding::good("instance profiles", format!("{} of ours", all.len())),
        Err(error) => finding("instance profiles", Verdict::Lacking, "iam:ListInstanceProfiles", &error),
    });
    if has_price_list(&aws.region, false) {
        let one = |field, value: &str| (field, value.to_owned());
        let filters = vec![
            one("regionCode", &aws.region),
            one("instanceType", "m5.large"),
            one("operatingSystem", "Linux"),
            one("tenancy", "Shared"),
            one("marketoption", "OnDemand"),
        ];
        findings.push(match aws.pricing.get_products(&PriceQuery { filters, max_results: 100 }).await {
            Ok(_) => Finding::good("price list", "answers"),
            Err(error) => finding("price list", Verdict::Lacking, "pricing:GetProducts", &error),
        });
    }
    findings
}
