//! Before the first decision: what is found out, what is checked, and what is not asked.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use karpenter_aws_sim::{Script, Target};
use karpenter_provider::{CloudProvider, chain};
use karpenter_provider_aws::calls::service_of;
use karpenter_provider_aws::{Settings, startup, tasks};
use karpenter_testkit::lines::Lines;
use kube::Api;
use serde_json::json;
use tracing::Level;

use crate::lab::{CAPACITY, Lab, TYPE, claim, default_spec, on_demand, quiet};

fn fail(lab: &Lab, operation: &'static str, code: &str) {
    lab.region.script(Script::new(Target::Call { operation, server_fault: false }, code, 1));
}

#[tokio::test(start_paused = true)]
async fn a_start_needs_ec2_and_its_types() {
    // covers: AWS-OPS-05, AWS-OPS-12
    let lab = Lab::new(quiet(1)).await;
    lab.parts.start().await.unwrap();
    fail(&lab, "DescribeInstanceTypes", "AuthFailure");
    let refused = chain(&lab.parts.start().await.unwrap_err());
    assert!(refused.contains("connectivity") && refused.contains("AuthFailure"), "{refused}");
    fail(&lab, "DescribeInstanceTypeOfferings", "InternalError");
    let refused = chain(&lab.parts.start().await.unwrap_err());
    assert!(refused.contains("DescribeInstanceTypeOfferings"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn what_operators_leave_open_is_found_out() {
    // covers: AWS-OPS-06, AWS-OPS-07, AWS-OPS-08, AWS-OPS-10, SEED0-05
    let lab = Lab::new(quiet(1)).await;
    let discover = |mut settings: Settings| {
        let (aws, client) = (lab.region.aws(), lab.client.clone());
        async move {
            let found = startup::discover(&aws, &client, &mut settings, Some("b3Vy".to_owned())).await;
            found.map(|()| settings)
        }
    };
    let open = || Settings::new("simulated", "", "");
    let found = discover(open()).await.unwrap();
    assert_eq!(found.cluster_endpoint, lab.region.options().cluster_endpoint);
    assert_eq!((found.ca_bundle.as_deref(), found.cluster_dns), (Some("b3Vy"), None), "there is no kube-dns");
    assert_eq!(found.kubernetes_version, "1.36");
    let service =
        json!({"metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 53}]}});
    let service: Service = serde_json::from_value(service).unwrap();
    Api::namespaced(lab.client.clone(), "kube-system").create(&Default::default(), &service).await.unwrap();
    assert_eq!(discover(open()).await.unwrap().cluster_dns.as_deref(), Some("10.96.0.10"));
    let mut given = Settings::new("simulated", "https://mine", "");
    (given.ca_bundle, given.cluster_dns) = (Some("bWluZQ==".to_owned()), Some("fd00::a".to_owned()));
    let asked = lab.region.calls()["DescribeCluster"];
    let kept = discover(given.clone()).await.unwrap();
    assert_eq!(lab.region.calls()["DescribeCluster"], asked, "nobody asks EKS for what is given");
    assert_eq!(
        (&kept.cluster_endpoint, &kept.ca_bundle, &kept.cluster_dns),
        (&given.cluster_endpoint, &given.ca_bundle, &given.cluster_dns)
    );
    fail(&lab, "DescribeCluster", "AccessDeniedException");
    let refused = chain(&discover(open()).await.unwrap_err());
    assert!(refused.contains("endpoint"), "{refused}");
    let eks = Settings { eks_control_plane: true, ..Settings::new("simulated", "https://mine", "") };
    let before = lab.region.calls().get("DescribeCluster").copied().unwrap_or(0);
    assert_eq!(discover(eks).await.unwrap().kubernetes_version, lab.region.options().kubernetes_version);
    assert_eq!(lab.region.calls()["DescribeCluster"], before + 1, "EKS was asked");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_read_stays_what_it_was() {
    // covers: AWS-OPS-10, AWS-OPS-11, API-ST-11
    let lab = Lab::with(quiet(1), |settings| settings.eks_control_plane = true).await;
    let round = || lab.parts.version.round(&lab.parts, &lab.client);
    assert_eq!(round().await.unwrap(), Duration::from_secs(300));
    fail(&lab, "DescribeCluster", "ServerException");
    assert!(round().await.is_err());
    assert_eq!(lab.parts.version.current(), "1.36");
    let old = karpenter_aws_sim::Options { kubernetes_version: "1.20".to_owned(), ..quiet(1) };
    let lab = Lab::with(old, |settings| settings.eks_control_plane = true).await;
    let round = || lab.parts.version.round(&lab.parts, &lab.client);
    assert!(round().await.is_err(), "said once");
    assert!(round().await.is_ok());
    assert_eq!(lab.parts.version.current(), "1.20");
}

#[tokio::test(start_paused = true)]
async fn an_isolated_vpc_reaches_neither_prices_nor_iam() {
    // covers: AWS-OPS-17, API-IAM-34, API-EC2-52
    let lab = Lab::with(quiet(1), |settings| settings.isolated_vpc = true).await;
    let mut spec = default_spec();
    spec["role"] = serde_json::Value::Null;
    spec["instanceProfile"] = json!("mine");
    lab.ready_with(spec).await;
    for task in tasks(&lab.parts, &lab.client) {
        let _ = tokio::time::timeout(Duration::from_secs(30), (task.round)()).await;
    }
    lab.delete_class().await;
    lab.bury_class().await;
    let iam =
        ["GetProducts", "GetInstanceProfile", "ListInstanceProfiles", "DeleteInstanceProfile", "CreateInstanceProfile"];
    let calls = lab.region.calls();
    assert!(iam.iter().all(|call| !calls.contains_key(call)), "{calls:?}");
    // Services with an endpoint in such a network.
    let reachable = ["ec2", "ssm", "sqs", "eks"];
    for call in calls.keys() {
        let service = service_of(call).unwrap_or_else(|| panic!("no permission is listed for {call}"));
        assert!(reachable.contains(&service), "{call} is a call of {service}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_deserves_a_word_gets_one() {
    // covers: AWS-FLEET-11, AWS-UD-07
    let (lines, _listening) = Lines::heard(Level::WARN);
    let said = |text: &str| {
        let found = lines.with(text);
        lines.clear();
        found
    };
    let lab = Lab::new(quiet(1)).await;
    let mut spec = default_spec();
    spec["userData"] = json!(format!("#!/bin/bash\n# {}", "x".repeat(14_800)));
    lab.ready_with(spec).await;
    said("");
    lab.provider.create(&on_demand("large")).await.unwrap();
    assert!(said("approaching the EC2 user data size limit") > 0, "said, and launched all the same");
    // Spot is closed, so on-demand it is, and there are only two types to choose from.
    let spot =
        Target::Pool { class: Some(karpenter_ec2::catalogue::CapacityClass::Spot), instance_type: None, zone: None };
    lab.region.script(Script::new(spot, "InsufficientInstanceCapacity", 1000));
    let ask =
        |name: &str, types: &[&str]| claim(name, &[(CAPACITY, "In", &["spot", "on-demand"]), (TYPE, "In", types)]);
    let few: &[&str] = &["m5.large", "c5.large"];
    let _ = lab.provider.create(&ask("one", few)).await;
    said("");
    assert_eq!(lab.provider.create(&ask("two", few)).await.unwrap().capacity_type, "on-demand");
    assert_eq!(said("flexible to spot"), 1);
}
