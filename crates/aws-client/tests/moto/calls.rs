use std::time::Duration;

use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::{TypeFacts, builtin};
use karpenter_ec2::interruption::{self, Kind};
use karpenter_provider_aws::calls::{
    CreateFleet, DescribeImages, DescribeInstances, DescribeLaunchTemplates, Filter, FleetConfig, FleetKind,
    InstanceState, Interface, MetadataOptions, NewInstanceProfile, NewLaunchTemplate, Override, ReceiveMessages, Tags,
};
use serde_json::json;

use crate::server::{IMAGE, Moto, REGION, ROLE, start};

/// One server for all of it: starting Python takes longer than every call.
#[tokio::test]
async fn the_wire_is_understood_on_both_sides() {
    let Some(moto) = start().await else { return };
    moto.make_role().await;
    moto.lay_out("wire").await;
    types(&moto).await;
    launches(&moto).await;
    profiles(&moto).await;
    messages(&moto).await;
    others(&moto).await;
}

async fn types(moto: &Moto) {
    // covers: AWS-OPS-05
    let ec2 = &moto.connection.aws.ec2;
    let connected = ec2.describe_instance_types_dry_run().await;
    assert!(connected.as_ref().map_or_else(|error| error.is_dry_run(), |()| true), "{connected:?}");
    let offered = ec2.describe_instance_type_offerings(1000).await.unwrap();
    assert!(offered.iter().any(|(name, zone)| name == "m5.large" && zone.starts_with(REGION)), "{}", offered.len());
    // Our catalogue was made from the same source by other means; what EC2 does not tell is left out.
    let found = ec2.describe_instance_types(100).await.unwrap();
    assert!(found.len() > 500, "{}", found.len());
    let plain = |facts: &TypeFacts| TypeFacts {
        network_mbps: None,
        branch_limits: None,
        // Newer than our catalogue.
        ena: None,
        nitro_enclaves: None,
        cpu_features: Vec::new(),
        usage_classes: Vec::new(),
        ..facts.clone()
    };
    let known = builtin::catalogue();
    let pairs: Vec<(TypeFacts, TypeFacts)> =
        found.iter().filter_map(|facts| Some((plain(facts), plain(known.find(&facts.name)?)))).collect();
    let differing: Vec<&(TypeFacts, TypeFacts)> = pairs.iter().filter(|(told, known)| told != known).collect();
    assert!(pairs.len() > 500, "{}", pairs.len());
    assert!(differing.is_empty(), "{} of {}, the first: {:#?}", differing.len(), pairs.len(), differing.first());
}

fn template(name: &str) -> NewLaunchTemplate {
    NewLaunchTemplate {
        name: name.to_owned(),
        image_id: IMAGE.to_owned(),
        instance_profile: "profile".to_owned(),
        monitoring: false,
        user_data: "dGV4dA==".to_owned(),
        block_devices: Vec::new(),
        metadata: MetadataOptions {
            http_endpoint: "enabled".to_owned(),
            http_protocol_ipv6: Some("disabled".to_owned()),
            http_put_response_hop_limit: 1,
            http_tokens: "required".to_owned(),
            instance_metadata_tags: "disabled",
        },
        interfaces: vec![Interface::default()],
        tenancy: "default".to_owned(),
        placement_group_id: None,
        partition: None,
        nested_virtualization: None,
        enclaves: false,
        reservation: None,
        market_type: None,
        tags: [("eks:eks-cluster-name".to_owned(), "wire".to_owned())].into(),
        tag_spot_requests: false,
    }
}

async fn launches(moto: &Moto) {
    let ec2 = &moto.connection.aws.ec2;
    let subnets = ec2.describe_subnets(&[Filter::tag("karpenter.sh/discovery-wire", "wire")], 500).await.unwrap();
    assert!(subnets.len() > 2 && subnets.iter().all(|subnet| subnet.zone_id.starts_with("usw2-az")), "{subnets:?}");
    let groups = ec2.describe_security_groups(&[Filter::tag("karpenter.sh/discovery-wire", "*")], 500).await.unwrap();
    assert_eq!(groups.len(), 1);
    let images = DescribeImages {
        owners: Vec::new(),
        filters: vec![Filter::new("name", ["golden-*"])],
        include_deprecated: false,
        max_results: 1000,
    };
    let images = ec2.describe_images(&images).await.unwrap();
    let mut seen: Vec<(&str, bool)> =
        images.iter().map(|image| (image.architecture.as_str(), image.created.is_some())).collect();
    seen.sort_unstable();
    assert_eq!(seen, [("arm64", true), ("x86_64", true)]);

    let by_name = |name: &str| DescribeLaunchTemplates { names: vec![name.to_owned()], ..Default::default() };
    let missing = ec2.describe_launch_templates(&by_name("karpenter.k8s.aws/1")).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    let made = ec2.create_launch_template(&template("karpenter.k8s.aws/1")).await.unwrap();
    let found = ec2.describe_launch_templates(&by_name("karpenter.k8s.aws/1")).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&made));

    let tags: Tags = [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into();
    let of = Override {
        instance_type: "m5.large".to_owned(),
        zone: subnets[0].zone.clone(),
        subnet_id: subnets[0].id.clone(),
        image_id: IMAGE.to_owned(),
        priority: MicroUsd(96_000),
    };
    let config =
        |name: &str| FleetConfig { template_name: name.to_owned(), version: "$Latest", overrides: vec![of.clone()] };
    let fleet = |name: &str, dry_run| CreateFleet {
        client_token: Some("token".to_owned()),
        dry_run,
        kind: FleetKind::OnDemand,
        total: 2,
        configs: vec![config(name)],
        tags: tags.clone(),
        context: None,
        prioritized: false,
    };
    let checked = ec2.create_fleet(&fleet("karpenter.k8s.aws/1", true)).await.unwrap_err();
    assert!(checked.is_dry_run(), "{checked:?}");
    let unknown = ec2.create_fleet(&fleet("karpenter.k8s.aws/2", false)).await.unwrap_err();
    assert!(unknown.is_template_not_found(), "{unknown:?}");
    let answer = ec2.create_fleet(&fleet("karpenter.k8s.aws/1", false)).await.unwrap();
    assert!(answer.fleet_id.starts_with("fleet-") && answer.errors.is_empty(), "{answer:?}");
    let ids: Vec<String> = answer.instances.iter().flat_map(|some| some.ids.clone()).collect();
    assert_eq!(ids.len(), 2, "{answer:?}");
    assert_eq!((answer.instances[0].instance_type.as_str(), &answer.instances[0].zone), ("m5.large", &of.zone));

    let all = DescribeInstances {
        filters: vec![Filter::tag("karpenter.sh/nodepool", "*")],
        max_results: Some(1000),
        ..Default::default()
    };
    let found = ec2.describe_instances(&all).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].state, found[0].instance_type.as_str()), (InstanceState::Running, "m5.large"));
    assert_eq!((&found[0].zone, found[0].subnet_id.as_ref()), (&of.zone, Some(&of.subnet_id)));
    ec2.create_tags(&ids[..1], &[("Name".to_owned(), "node-1".to_owned())].into()).await.unwrap();
    let one = DescribeInstances { ids: ids[..1].to_vec(), ..Default::default() };
    assert_eq!(ec2.describe_instances(&one).await.unwrap()[0].tags["Name"], "node-1");
    let ended = ec2.terminate_instances(&ids).await.unwrap();
    assert!(ended.iter().all(|change| change.state == InstanceState::ShuttingDown), "{ended:?}");
    let unknown = ec2.terminate_instances(&["i-0123456789abcdef0".to_owned()]).await.unwrap_err();
    assert!(unknown.is_not_found(), "{unknown:?}");
    ec2.delete_launch_template_by_id(&made.id).await.unwrap();
    assert!(ec2.describe_launch_templates(&by_name("karpenter.k8s.aws/1")).await.unwrap_err().is_not_found());
    assert!(!ec2.describe_spot_price_history(jiff::Timestamp::UNIX_EPOCH, 2000).await.unwrap().is_empty());
}

async fn profiles(moto: &Moto) {
    let iam = &moto.connection.aws.iam;
    let name = "wire_1";
    assert!(iam.get_instance_profile(name).await.unwrap_err().is_not_found());
    let new = NewInstanceProfile {
        name: name.to_owned(),
        path: "/karpenter/us-west-2/wire/".to_owned(),
        tags: [("kubernetes.io/cluster/wire".to_owned(), "owned".to_owned())].into(),
    };
    iam.create_instance_profile(&new).await.unwrap();
    assert!(iam.create_instance_profile(&new).await.unwrap_err().is_already_exists());
    let missing = iam.add_role_to_instance_profile(name, "nobody").await.unwrap_err();
    assert!(missing.is_role_not_found(), "{missing:?}");
    iam.add_role_to_instance_profile(name, ROLE).await.unwrap();
    let found = iam.get_instance_profile(name).await.unwrap();
    assert_eq!((found.path, found.roles), (new.path.clone(), vec![ROLE.to_owned()]));
    assert!(iam.list_instance_profiles("/karpenter/").await.unwrap().iter().any(|profile| profile.name == name));
    iam.remove_role_from_instance_profile(name, ROLE).await.unwrap();
    iam.delete_instance_profile(name).await.unwrap();
    assert!(iam.get_instance_profile(name).await.unwrap_err().is_not_found());
}

/// From an event on the bus to what it means.
async fn messages(moto: &Moto) {
    let sqs = &moto.connection.aws.sqs;
    assert!(sqs.get_queue_url("wire").await.unwrap_err().is_not_found());
    moto.json("sqs", "AmazonSQS.CreateQueue", json!({"QueueName": "wire"})).await;
    let pattern = json!({"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]});
    moto.json("events", "AWSEvents.PutRule", json!({"Name": "spot", "EventPattern": pattern.to_string()})).await;
    let arn = format!("arn:aws:sqs:{REGION}:123456789012:wire");
    moto.json("events", "AWSEvents.PutTargets", json!({"Rule": "spot", "Targets": [{"Id": "queue", "Arn": arn}]}))
        .await;
    let event = json!({
        "Source": "aws.ec2", "DetailType": "EC2 Spot Instance Interruption Warning",
        "Detail": json!({"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"}).to_string(),
    });
    moto.json("events", "AWSEvents.PutEvents", json!({"Entries": [event]})).await;
    let url = sqs.get_queue_url("wire").await.unwrap();
    let (visibility, wait) = (Duration::from_secs(20), Duration::from_secs(20));
    let request = ReceiveMessages { url: url.clone(), at_most: 10, visibility, wait };
    let messages = sqs.receive_messages(&request).await.unwrap();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].sent_at.is_some(), "{messages:?}");
    let meant = interruption::parse(&messages[0].body).unwrap();
    assert_eq!((meant.kind, meant.instances), (Kind::SpotInterrupted, vec!["i-0123456789abcdef0".to_owned()]));
    sqs.delete_message(&url, &messages[0].receipt_handle).await.unwrap();
}

async fn others(moto: &Moto) {
    let aws = &moto.connection.aws;
    let cluster = aws.eks.describe_cluster("wire").await.unwrap();
    assert_eq!(cluster.version, "1.32");
    assert!(cluster.arn.ends_with(":cluster/wire") && cluster.service_ipv4_cidr.is_some(), "{cluster:?}");
    assert_eq!(aws.eks.describe_cluster("none").await.unwrap_err().code, "ResourceNotFoundException");
    let parameter = json!({"Name": "/images/golden", "Type": "String", "Value": IMAGE});
    moto.json("ssm", "AmazonSSM.PutParameter", parameter).await;
    assert_eq!(aws.ssm.get_parameter("/images/golden").await.unwrap(), IMAGE);
    assert!(aws.ssm.get_parameter("/images/none").await.unwrap_err().is_not_found());
    assert_eq!(moto.connection.caller().await.unwrap().account, "123456789012");
    assert!(
        moto.connection
            .zones()
            .await
            .unwrap()
            .iter()
            .any(|(name, id)| name == "us-west-2a" && id.starts_with("usw2-az"))
    );
}
