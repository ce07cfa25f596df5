//! The node classes of the users' own documents: what their selectors find, what their machines are launched with.

use base64::Engine;
use karpenter_aws_sim::Options;
use karpenter_ec2::interruption::{Kind, parse};
use karpenter_provider::CloudProvider;
use karpenter_provider_aws::Parts;
use karpenter_provider_aws::interruption::Interruption;
use serde_json::{Value, json};

use crate::lab::{CAPACITY, Lab, TYPE, claim, quiet};

fn tagged(tag: &str, value: &str) -> Value {
    json!([{"tags": {tag: value}}])
}

fn spec(more: Value) -> Value {
    let mut spec = json!({
        "role": "KarpenterNodeRole-demo",
        "subnetSelectorTerms": tagged("karpenter.sh/discovery", "demo"),
        "securityGroupSelectorTerms": tagged("karpenter.sh/discovery", "demo"),
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

/// What machines of the class are told at boot, and what their template says, for one type.
async fn launched(
    lab: &Lab,
    name: &str,
    instance_type: &str,
) -> (karpenter_provider_aws::calls::NewLaunchTemplate, String) {
    let ask = claim(name, &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &[instance_type])]);
    lab.provider.create(&ask).await.unwrap();
    let template = lab
        .region
        .templates()
        .into_iter()
        .find(|template| {
            template.tags.contains_key("karpenter.sh/nodepool") && template.tags["karpenter.sh/nodepool"] == "pool"
        })
        .unwrap();
    let text = base64::engine::general_purpose::STANDARD.decode(&template.user_data).unwrap();
    (template, String::from_utf8(text).unwrap())
}

fn volumes(
    template: &karpenter_provider_aws::calls::NewLaunchTemplate,
) -> Vec<(String, Option<i64>, Option<bool>, String)> {
    let devices = template.block_devices.iter().map(|device| {
        let volume = device.volume.clone().unwrap_or_default();
        (
            device.device_name.clone().unwrap_or_default(),
            volume.size_gib,
            volume.encrypted,
            volume.volume_type.unwrap_or_default(),
        )
    });
    devices.collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_seeds_class_pins_a_release_for_ordinary_and_gpu_machines() {
    // covers: SEED0-10, SEED0-11, SEED0-13, SEED0-14, SEED0-20, SEED0-24, SEED0-33, SEED0-35, SEED2-04
    let lab = Lab::new(quiet(1)).await;
    let root =
        json!({"deviceName": "/dev/xvda", "ebs": {"volumeSize": "120Gi", "volumeType": "gp3", "encrypted": true}});
    lab.ready_with(spec(json!({
        "amiFamily": "AL2023", "amiSelectorTerms": [{"alias": "al2023@v20250505"}],
        "role": "karpenter-demo-20250501123456789000000001", "blockDeviceMappings": [root],
    })))
    .await;
    let looked_up = lab.region.calls()["GetParameter"];
    assert_eq!(looked_up, 5, "one for each image of the release");
    let (template, text) = launched(&lab, "plain", "m5.large").await;
    assert_eq!(volumes(&template), [("/dev/xvda".to_owned(), Some(120), Some(true), "gp3".to_owned())]);
    assert!(text.contains("node.eks.aws/v1alpha1"), "{text}");
    let images = lab.class().await.status.unwrap().amis.unwrap();
    let of = |kind: &str| {
        let found = lab.region.instances().into_iter().find(|one| one.instance.instance_type == kind).unwrap();
        images.iter().find(|ami| ami.id == found.instance.image_id).cloned().unwrap()
    };
    let gpu = claim("gpu", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["g4dn.xlarge"])]);
    lab.provider.create(&gpu).await.unwrap();
    let needs = |kind: &str| {
        of(kind).requirements.iter().map(|one| format!("{} {}", one.key, one.operator)).collect::<Vec<_>>()
    };
    assert!(needs("g4dn.xlarge").contains(&"karpenter.k8s.aws/instance-gpu-count Exists".to_owned()));
    assert!(needs("m5.large").contains(&"karpenter.k8s.aws/instance-gpu-count DoesNotExist".to_owned()));
    let status = lab.class().await.status.unwrap();
    let subnets: Vec<String> = status.subnets.unwrap().into_iter().map(|subnet| subnet.id).collect();
    for one in lab.region.instances() {
        assert!(subnets.contains(&one.instance.subnet_id.unwrap()), "nowhere else");
    }
    assert!(lab.region.calls()["CreateFleet"] > 0 && !lab.region.calls().contains_key("CreateAutoScalingGroup"));
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    lab.settle_class().await;
    assert_eq!(lab.region.calls()["GetParameter"], looked_up, "once a day");
}

#[tokio::test(start_paused = true)]
async fn the_second_seeds_images_by_id_keep_working_where_the_alias_does_not() {
    // covers: SEED1-09, SEED1-10, SEED1-11
    let ids = ["ami-0aaaaaaaaaaaaaaaa", "ami-0bbbbbbbbbbbbbbbb"];
    let lab = Lab::new(Options { listed_ids: ids.map(str::to_owned).to_vec(), ..quiet(1) }).await;
    let root = json!({"deviceName": "/dev/xvda", "ebs": {"volumeSize": "200Gi", "volumeType": "gp3"}});
    let terms: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
    lab.ready_with(spec(json!({
        "amiFamily": "AL2", "role": "KarpenterNodeRole-demo", "amiSelectorTerms": terms, "blockDeviceMappings": [root],
        "securityGroupSelectorTerms": tagged("kubernetes.io/cluster/demo", "owned"),
    })))
    .await;
    let (template, text) = launched(&lab, "one", "m5.large").await;
    assert!(text.contains("/etc/eks/bootstrap.sh 'simulated'"), "{text}");
    assert!(ids.contains(&template.image_id.as_str()));
    assert_eq!(volumes(&template)[0].1, Some(200));
    lab.patch_class(json!({"spec": {"amiFamily": null, "amiSelectorTerms": [{"alias": "al2@latest"}]}})).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("AMIsReady").await.1, "UnsupportedAlias", "there is no such image for 1.36");
}

#[tokio::test(start_paused = true)]
async fn the_fourth_seeds_class_says_what_is_missing() {
    // covers: SEED3-09, SEED3-25, SEED3-26, SEED3-29
    for (field, condition, reason) in [
        ("subnetSelectorTerms", "SubnetsReady", "SubnetsNotFound"),
        ("securityGroupSelectorTerms", "SecurityGroupsReady", "SecurityGroupsNotFound"),
    ] {
        let lab = Lab::new(quiet(1)).await;
        let id = if field == "subnetSelectorTerms" { "subnet-0123456789" } else { "sg-0123456789" };
        let mut missing =
            spec(json!({"amiSelectorTerms": [{"alias": "al2023"}], "role": "KarpenterNodeRole-eks-cluster-dev"}));
        missing[field] = json!([{"id": id}]);
        lab.create_class(missing).await;
        lab.settle_class().await;
        let (status, why, message) = lab.condition(condition).await;
        assert_eq!((status.as_str(), why.as_str()), ("False", reason), "{message}");
        assert_eq!(lab.condition("Ready").await.0, "False");
        assert!(!message.is_empty());
    }
    let lab = Lab::new(quiet(1)).await;
    lab.ready_with(spec(
        json!({"amiSelectorTerms": [{"alias": "al2023"}], "role": "KarpenterNodeRole-eks-cluster-dev"}),
    ))
    .await;
    let (_, text) = launched(&lab, "one", "m5.large").await;
    assert!(text.contains("node.eks.aws/v1alpha1"));
}

#[tokio::test(start_paused = true)]
async fn the_fifth_seeds_class_is_bottlerocket_with_two_volumes() {
    // covers: SEED4-11, SEED4-12, SEED4-13, SEED4-14, SEED4-17
    let lab = Lab::new(quiet(1)).await;
    let volume = |device: &str, size: &str| json!({"deviceName": device, "ebs": {"volumeSize": size, "volumeType": "gp3", "encrypted": true, "deleteOnTermination": true}});
    let pool = lab
        .ready_with(spec(json!({
            "amiFamily": "Bottlerocket", "amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "role": "karpenter-node-demo",
            "tags": {"platform": "demo", "Name": "karpenter.sh/demo", "karpenter.sh/discovery": "demo"},
            "metadataOptions": {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "required"},
            "blockDeviceMappings": [volume("/dev/xvda", "4Gi"), volume("/dev/xvdb", "20Gi")], "kubelet": {"maxPods": 110},
        })))
        .await;
    let (template, text) = launched(&lab, "one", "m5.large").await;
    let devices = volumes(&template);
    assert_eq!(
        devices.iter().map(|(name, size, ..)| (name.as_str(), *size)).collect::<Vec<_>>(),
        [("/dev/xvda", Some(4)), ("/dev/xvdb", Some(20))]
    );
    assert_eq!(template.metadata.http_put_response_hop_limit, 2);
    assert_eq!(
        (template.metadata.http_tokens.as_str(), template.metadata.http_endpoint.as_str()),
        ("required", "enabled")
    );
    assert!(text.contains("max-pods = 110"), "{text}");
    let kind = lab
        .provider
        .instance_types(&pool)
        .await
        .unwrap()
        .iter()
        .find(|kind| &*kind.name == "m5.large")
        .cloned()
        .unwrap();
    assert_eq!(
        (kind.capacity.get("pods").units(), kind.capacity.get("ephemeral-storage").to_string()),
        (110, "20Gi".to_owned())
    );
    let instance = lab.region.instances().remove(0).instance;
    assert_eq!(instance.tags["Name"], "karpenter.sh/demo");
    let mut stored = claim("one", &[]);
    let status = stored.status.get_or_insert_default();
    status.provider_id = Some(format!("aws:///{}/{}", instance.zone, instance.id));
    status.node_name = Some("ip-10-0-0-1".to_owned());
    karpenter_provider_aws::tagging::tag(&lab.parts, &lab.client, &stored).await.unwrap();
    let tags = lab.region.instances().remove(0).instance.tags;
    assert_eq!(
        (tags["Name"].as_str(), tags["karpenter.sh/nodeclaim"].as_str()),
        ("karpenter.sh/demo", "one"),
        "not overwritten"
    );
}

#[tokio::test(start_paused = true)]
async fn messages_of_auto_scaling_are_consumed_without_action() {
    // covers: SEED0-31, API-IQ-05
    let hook = json!({
        "version": "0", "id": "1", "detail-type": "EC2 Instance-terminate Lifecycle Action", "source": "aws.autoscaling",
        "account": "1", "time": "2026-01-02T00:00:00Z", "region": "us-east-1", "resources": [],
        "detail": {"LifecycleHookName": "hook", "AutoScalingGroupName": "group", "EC2InstanceId": "i-1"},
    })
    .to_string();
    assert_eq!(parse(&hook).unwrap().kind, Kind::NoOp);
    let lab = Lab::new(quiet(1)).await;
    lab.region.send_message(&hook);
    let parts: &Parts = &lab.parts;
    Interruption::new("simulated").round(parts).await.unwrap();
    assert_eq!(lab.region.queue_length(), 0);
    assert_eq!(lab.failures.0.lock().unwrap()[0], "received no_op");
    assert!(lab.notices.messages().is_empty());
}
