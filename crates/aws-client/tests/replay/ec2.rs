use jiff::Timestamp;
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::{Accelerator, AcceleratorKind, CapacityClass, EbsOptimization, Gpu};
use karpenter_provider_aws::calls::{
    BlockDevice, CapacityReservation, CapacityReservationTarget, ConnectionTracking, CreateFleet, DescribeImages,
    DescribeInstances, DescribeLaunchTemplates, Filter, FleetConfig, FleetError, FleetInstances, FleetKind, Instance,
    InstanceState, InstanceStatus, Interface, MetadataOptions, NewLaunchTemplate, Override, PlacementGroup,
    RunInstances, StatusCheck, Tags, Volume,
};

use crate::server::{Asked, Server};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn tags(all: &[(&str, &str)]) -> Tags {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn fleet(kind: FleetKind, prioritized: bool) -> CreateFleet {
    let of = |instance_type: &str, micro| Override {
        instance_type: instance_type.to_owned(),
        zone: "us-east-1a".to_owned(),
        subnet_id: "subnet-1".to_owned(),
        image_id: "ami-1".to_owned(),
        priority: MicroUsd(micro),
    };
    let config = FleetConfig {
        template_name: "karpenter.k8s.aws/1".to_owned(),
        version: "$Latest",
        overrides: vec![of("m5.large", 96_000), of("m5.xlarge", 192_000)],
    };
    CreateFleet {
        client_token: Some("token".to_owned()),
        dry_run: false,
        kind,
        total: 3,
        configs: vec![config],
        tags: tags(&[("karpenter.sh/nodepool", "default")]),
        context: Some("context".to_owned()),
        prioritized,
    }
}

#[tokio::test]
async fn a_fleet_says_what_we_want_and_tells_what_became_of_it() {
    // covers: AWS-FLEET-12, AWS-FLEET-13, AWS-FLEET-16, AWS-FLEET-17, AWS-FLEET-19, API-IAM-20
    let server = Server::with(&["ec2.CreateFleet.errors.xml"]).await;
    let answer = server.connection.aws.ec2.create_fleet(&fleet(FleetKind::Spot, false)).await.unwrap();
    assert_eq!(answer.fleet_id, "fleet-1");
    assert_eq!(
        answer.instances,
        [FleetInstances {
            ids: vec!["i-1".to_owned(), "i-2".to_owned()],
            instance_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            subnet_id: Some("subnet-1".to_owned()),
            image_id: Some("ami-1".to_owned()),
        }]
    );
    let error = |code: &str, message: &str, instance_type: &str| FleetError {
        code: code.to_owned(),
        message: message.to_owned(),
        instance_type: instance_type.to_owned(),
        zone: "us-east-1a".to_owned(),
        subnet_id: Some("subnet-1".to_owned()),
    };
    assert_eq!(
        answer.errors,
        [
            error("InsufficientInstanceCapacity", "There is no Spot capacity available.", "m5.xlarge"),
            error("UnauthorizedOperation", "You are not authorized.", "m5.large"),
        ]
    );
    let asked = server.only();
    for (field, want) in [
        ("Type", "instant"),
        ("ClientToken", "token"),
        ("Context", "context"),
        ("TargetCapacitySpecification.TotalTargetCapacity", "3"),
        ("TargetCapacitySpecification.DefaultTargetCapacityType", "spot"),
        ("SpotOptions.AllocationStrategy", "price-capacity-optimized"),
        ("OnDemandOptions.AllocationStrategy", ""),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName", "karpenter.k8s.aws/1"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "$Latest"),
        ("LaunchTemplateConfigs.1.Overrides.2.InstanceType", "m5.xlarge"),
        ("LaunchTemplateConfigs.1.Overrides.2.AvailabilityZone", "us-east-1a"),
        ("LaunchTemplateConfigs.1.Overrides.2.SubnetId", "subnet-1"),
        ("LaunchTemplateConfigs.1.Overrides.2.ImageId", "ami-1"),
        ("LaunchTemplateConfigs.1.Overrides.2.Priority", "0.192"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.2.ResourceType", "volume"),
        ("TagSpecification.3.ResourceType", "fleet"),
        ("TagSpecification.3.Tag.1.Key", "karpenter.sh/nodepool"),
        ("DryRun", ""),
    ] {
        assert_eq!(asked.field(field), want, "{field}");
    }
}

#[tokio::test]
async fn each_way_to_buy_has_its_options() {
    // covers: AWS-FLEET-12, AWS-FLEET-14, AWS-FLEET-15
    let kind = "TargetCapacitySpecification.DefaultTargetCapacityType";
    let reserved = "ReservedCapacityOptions.ReservationType.1";
    for (way, prioritized, fields) in [
        (FleetKind::OnDemand, false, [(kind, "on-demand"), ("OnDemandOptions.AllocationStrategy", "lowest-price")]),
        (FleetKind::OnDemand, true, [(kind, "on-demand"), ("OnDemandOptions.AllocationStrategy", "prioritized")]),
        (FleetKind::Spot, true, [(kind, "spot"), ("SpotOptions.AllocationStrategy", "capacity-optimized-prioritized")]),
        (FleetKind::Reserved, false, [(kind, "on-demand"), ("OnDemandOptions.AllocationStrategy", "lowest-price")]),
        (FleetKind::CapacityBlock, false, [(kind, "capacity-block"), (reserved, "")]),
        (
            FleetKind::InterruptibleReservation,
            false,
            [(kind, "reserved-capacity"), (reserved, "interruptible-capacity-reservation")],
        ),
    ] {
        let server = Server::with(&["ec2.CreateFleet.launched.xml"]).await;
        server.connection.aws.ec2.create_fleet(&fleet(way, prioritized)).await.unwrap();
        let asked = server.only();
        for (field, want) in fields {
            assert_eq!(asked.field(field), want, "{way:?} {field}: {:?}", asked.fields);
        }
    }
}

#[tokio::test]
async fn a_launch_is_checked_with_an_interface_in_the_subnet() {
    let server = Server::with(&["ec2.RunInstances.412-dry-run.xml"]).await;
    let request = RunInstances {
        template_name: "karpenter.k8s.aws/1".to_owned(),
        instance_type: "m5.large".to_owned(),
        subnet_id: "subnet-1".to_owned(),
        tags: tags(&[("karpenter.sh/nodepool", "")]),
    };
    let error = server.connection.aws.ec2.run_instances_dry_run(&request).await.unwrap_err();
    assert!(error.is_dry_run(), "{error:?}");
    let asked = server.only();
    for (field, want) in [
        ("DryRun", "true"),
        ("MinCount", "1"),
        ("SubnetId", ""),
        ("NetworkInterface.1.SubnetId", "subnet-1"),
        ("NetworkInterface.1.DeviceIndex", "0"),
        ("LaunchTemplate.LaunchTemplateName", "karpenter.k8s.aws/1"),
        ("TagSpecification.3.ResourceType", "network-interface"),
        ("TagSpecification.3.Tag.1.Key", "karpenter.sh/nodepool"),
    ] {
        assert_eq!(asked.field(field), want, "{field}");
    }
}

fn template() -> NewLaunchTemplate {
    NewLaunchTemplate {
        name: "karpenter.k8s.aws/1".to_owned(),
        image_id: "ami-1".to_owned(),
        instance_profile: "profile".to_owned(),
        monitoring: true,
        user_data: "dGV4dA==".to_owned(),
        block_devices: vec![BlockDevice {
            device_name: Some("/dev/xvda".to_owned()),
            volume: Some(Volume {
                delete_on_termination: Some(true),
                encrypted: Some(true),
                iops: Some(3000),
                throughput: Some(125),
                size_gib: Some(20),
                volume_type: Some("gp3".to_owned()),
                initialization_rate: Some(200),
                ..Volume::default()
            }),
        }],
        metadata: MetadataOptions {
            http_endpoint: "enabled".to_owned(),
            http_protocol_ipv6: Some("disabled".to_owned()),
            http_put_response_hop_limit: 1,
            http_tokens: "required".to_owned(),
            instance_metadata_tags: "disabled",
        },
        interfaces: vec![Interface {
            card_index: Some(0),
            device_index: 0,
            kind: Some("efa".to_owned()),
            security_groups: vec!["sg-1".to_owned(), "sg-2".to_owned()],
            associate_public_ip: Some(false),
            ipv4_prefix_count: Some(1),
            primary_ipv6: Some(true),
            ipv6_address_count: Some(1),
            connection_tracking: Some(ConnectionTracking {
                tcp_established: Some(60),
                udp_stream: None,
                udp: Some(30),
            }),
            ..Interface::default()
        }],
        tenancy: "dedicated".to_owned(),
        placement_group_id: Some("pg-1".to_owned()),
        partition: Some(2),
        nested_virtualization: Some("enabled".to_owned()),
        enclaves: false,
        reservation: Some(CapacityReservationTarget::Only("cr-1".to_owned())),
        market_type: Some("capacity-block".to_owned()),
        tags: tags(&[("eks:eks-cluster-name", "shop")]),
        tag_spot_requests: true,
    }
}

#[tokio::test]
async fn a_template_has_everything_of_a_node() {
    // covers: AWS-LT-09, AWS-LT-10, AWS-LT-19, AWS-LT-20, AWS-LT-21, AWS-LT-24
    let server = Server::with(&["ec2.CreateLaunchTemplate.made.xml"]).await;
    let made = server.connection.aws.ec2.create_launch_template(&template()).await.unwrap();
    assert_eq!((made.id.as_str(), made.name.as_str()), ("lt-1", "karpenter.k8s.aws/1"));
    let asked = server.only();
    let data = |field: &str| asked.field(&format!("LaunchTemplateData.{field}")).to_owned();
    for (field, want) in [
        ("ImageId", "ami-1"),
        ("IamInstanceProfile.Name", "profile"),
        ("Monitoring.Enabled", "true"),
        ("UserData", "dGV4dA=="),
        ("BlockDeviceMapping.1.DeviceName", "/dev/xvda"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "20"),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("BlockDeviceMapping.1.Ebs.Iops", "3000"),
        ("BlockDeviceMapping.1.Ebs.Throughput", "125"),
        ("BlockDeviceMapping.1.Ebs.VolumeInitializationRate", "200"),
        ("BlockDeviceMapping.1.Ebs.KmsKeyId", ""),
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.HttpProtocolIpv6", "disabled"),
        ("MetadataOptions.HttpPutResponseHopLimit", "1"),
        ("MetadataOptions.InstanceMetadataTags", "disabled"),
        ("NetworkInterface.1.DeviceIndex", "0"),
        ("NetworkInterface.1.NetworkCardIndex", "0"),
        ("NetworkInterface.1.InterfaceType", "efa"),
        ("NetworkInterface.1.SecurityGroupId.2", "sg-2"),
        ("NetworkInterface.1.AssociatePublicIpAddress", "false"),
        ("NetworkInterface.1.Ipv4PrefixCount", "1"),
        ("NetworkInterface.1.PrimaryIpv6", "true"),
        ("NetworkInterface.1.Ipv6AddressCount", "1"),
        ("NetworkInterface.1.ConnectionTrackingSpecification.TcpEstablishedTimeout", "60"),
        ("NetworkInterface.1.ConnectionTrackingSpecification.UdpStreamTimeout", ""),
        ("SecurityGroupId.1", ""),
        ("Placement.Tenancy", "dedicated"),
        ("Placement.GroupId", "pg-1"),
        ("Placement.PartitionNumber", "2"),
        ("CpuOptions.NestedVirtualization", "enabled"),
        ("EnclaveOptions.Enabled", "false"),
        ("CapacityReservationSpecification.CapacityReservationPreference", "capacity-reservations-only"),
        ("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", "cr-1"),
        ("InstanceMarketOptions.MarketType", "capacity-block"),
        ("TagSpecification.1.ResourceType", "network-interface"),
        ("TagSpecification.2.ResourceType", "spot-instances-request"),
        ("TagSpecification.2.Tag.1.Value", "shop"),
    ] {
        assert_eq!(data(field), want, "{field}: {:#?}", asked.fields);
    }
    assert_eq!(asked.field("TagSpecification.1.ResourceType"), "launch-template");
    assert_eq!(asked.field("TagSpecification.1.Tag.1.Key"), "eks:eks-cluster-name");
    assert!(!asked.field("ClientToken").is_empty(), "the SDK's own token");
}

#[tokio::test]
async fn instances_are_read_to_the_last_page() {
    let server = Server::with(&["ec2.DescribeInstances.first.xml", "ec2.DescribeInstances.last.xml"]).await;
    let request = DescribeInstances {
        filters: vec![Filter::new("instance-state-name", ["pending", "running"])],
        max_results: Some(1000),
        ..DescribeInstances::default()
    };
    let found = server.connection.aws.ec2.describe_instances(&request).await.unwrap();
    assert_eq!(
        found[0],
        Instance {
            id: "i-1".to_owned(),
            state: InstanceState::Running,
            instance_type: "p5.48xlarge".to_owned(),
            image_id: "ami-1".to_owned(),
            zone: "us-east-1a".to_owned(),
            zone_id: Some("use1-az1".to_owned()),
            subnet_id: Some("subnet-1".to_owned()),
            launched_at: at("2026-01-02T03:04:05Z"),
            tags: tags(&[("karpenter.sh/nodepool", "default"), ("Name", "node-1")]),
            spot_request_id: Some("sir-1".to_owned()),
            capacity_reservation_id: Some("cr-1".to_owned()),
            reservation_preference: Some("capacity-reservations-only".to_owned()),
            lifecycle: Some("capacity-block".to_owned()),
            tenancy: Some("default".to_owned()),
            security_groups: vec!["sg-1".to_owned()],
            efa_interfaces: 2,
            placement_group_id: Some("pg-1".to_owned()),
            partition: Some(3),
        }
    );
    assert_eq!(found.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["i-1", "i-2"]);
    assert_eq!((found[1].lifecycle.clone(), found[1].efa_interfaces), (None, 0));
    let asked = server.asked();
    assert_eq!(asked.iter().map(|asked| asked.field("NextToken")).collect::<Vec<_>>(), ["", "more"]);
    assert_eq!(asked[0].field("MaxResults"), "1000");
    assert_eq!(asked[0].field("Filter.1.Value.2"), "running");
}

#[tokio::test]
async fn ids_are_asked_for_without_a_page_size() {
    let server = Server::with(&["ec2.DescribeInstances.last.xml"]).await;
    let request = DescribeInstances { ids: vec!["i-2".to_owned()], ..DescribeInstances::default() };
    server.connection.aws.ec2.describe_instances(&request).await.unwrap();
    let asked = server.only();
    assert_eq!((asked.field("InstanceId.1"), asked.field("MaxResults")), ("i-2", ""));
}

#[tokio::test]
async fn spot_prices_are_read_to_the_last_page() {
    // covers: AWS-PRICE-09
    let server =
        Server::with(&["ec2.DescribeSpotPriceHistory.first.xml", "ec2.DescribeSpotPriceHistory.last.xml"]).await;
    let from = at("2026-01-02T03:04:05Z");
    let found = server.connection.aws.ec2.describe_spot_price_history(from, 2000).await.unwrap();
    let rows: Vec<_> = found
        .iter()
        .map(|row| (row.instance_type.as_str(), row.zone.as_str(), row.price.as_str(), row.timestamp.is_some()))
        .collect();
    assert_eq!(rows, [("m5.large", "us-east-1a", "0.0351", true), ("m5.large", "us-east-1b", "0.0399", true)]);
    let asked = &server.asked()[0];
    for (field, want) in [
        ("StartTime", "2026-01-02T03:04:05Z"),
        ("MaxResults", "2000"),
        ("ProductDescription.1", "Linux/UNIX"),
        ("ProductDescription.2", "Linux/UNIX (Amazon VPC)"),
    ] {
        assert_eq!(asked.field(field), want, "{field}");
    }
}

#[tokio::test]
async fn reservations_and_groups_are_read() {
    let server =
        Server::with(&["ec2.DescribeCapacityReservations.two.xml", "ec2.DescribePlacementGroups.one.xml"]).await;
    let ec2 = &server.connection.aws.ec2;
    let found = ec2.describe_capacity_reservations(&[], &[Filter::tag("team", "a")], Some(1000)).await.unwrap();
    assert_eq!(
        found[0],
        CapacityReservation {
            id: "cr-1".to_owned(),
            zone: "us-east-1a".to_owned(),
            instance_type: "m5.large".to_owned(),
            instance_match_criteria: "targeted".to_owned(),
            owner_id: "111122223333".to_owned(),
            reservation_type: "default".to_owned(),
            interruptible: true,
            available: 3,
            end: None,
            tags: tags(&[("team", "a")]),
        }
    );
    assert_eq!(
        (found[1].reservation_type.as_str(), found[1].end, found[1].interruptible),
        ("capacity-block", Some(at("2026-02-03T11:30:00Z")), false)
    );
    let groups = ec2.describe_placement_groups(&[Filter::new("group-name", ["spread"])]).await.unwrap();
    assert_eq!(
        groups,
        [PlacementGroup {
            id: "pg-1".to_owned(),
            name: "parts".to_owned(),
            strategy: "partition".to_owned(),
            partitions: 7,
        }]
    );
    let asked = server.asked();
    assert_eq!((asked[0].field("Filter.1.Name"), asked[0].field("MaxResults")), ("tag:team", "1000"));
    assert_eq!(asked[1].field("Filter.1.Value.1"), "spread");
}

#[tokio::test]
async fn the_health_of_instances_is_read() {
    let server = Server::with(&["ec2.DescribeInstanceStatus.impaired.xml"]).await;
    let found = server.connection.aws.ec2.describe_instance_status(&[]).await.unwrap();
    let check =
        |status: &str, since: Option<&str>| StatusCheck { status: status.to_owned(), impaired_since: since.map(at) };
    assert_eq!(
        found,
        [InstanceStatus {
            instance_id: "i-1".to_owned(),
            system_checks: vec![check("passed", None)],
            instance_checks: vec![check("failed", Some("2026-01-02T03:04:05Z"))],
            events: vec!["instance-retirement".to_owned()],
        }]
    );
}

#[tokio::test]
async fn images_are_read_with_their_dates() {
    let server = Server::with(&["ec2.DescribeImages.two.xml"]).await;
    let request = DescribeImages {
        owners: vec!["self".to_owned(), "amazon".to_owned()],
        filters: vec![Filter::new("name", ["golden-*"])],
        include_deprecated: true,
        max_results: 1000,
    };
    let found = server.connection.aws.ec2.describe_images(&request).await.unwrap();
    assert_eq!((found[0].architecture.as_str(), found[0].created), ("x86_64", Some(at("2026-01-02T03:04:05Z"))));
    assert_eq!(found[0].deprecated_from, Some(at("2028-01-02T03:04:00Z")));
    assert_eq!((found[1].architecture.as_str(), found[1].deprecated_from), ("arm64", None));
    let asked = server.only();
    for (field, want) in [("Owner.2", "amazon"), ("IncludeDeprecated", "true"), ("MaxResults", "1000")] {
        assert_eq!(asked.field(field), want, "{field}");
    }
}

#[tokio::test]
async fn the_network_of_a_class_is_read() {
    let server = Server::with(&["ec2.DescribeSubnets.one.xml", "ec2.DescribeSecurityGroups.one.xml"]).await;
    let ec2 = &server.connection.aws.ec2;
    let subnets = ec2.describe_subnets(&[Filter::tag("karpenter.sh/discovery", "*")], 500).await.unwrap();
    assert_eq!(
        (subnets[0].id.as_str(), subnets[0].zone_id.as_str(), subnets[0].free_addresses),
        ("subnet-1", "use1-az1", 251)
    );
    let groups = ec2.describe_security_groups(&[Filter::new("group-name", ["nodes"])], 500).await.unwrap();
    assert_eq!((groups[0].id.as_str(), groups[0].name.as_str()), ("sg-1", "nodes"));
    let asked = server.asked();
    assert_eq!((asked[0].field("Filter.1.Name"), asked[0].field("MaxResults")), ("tag-key", "500"));
}

#[tokio::test]
async fn templates_are_found_and_instances_ended() {
    let server = Server::with(&["ec2.DescribeLaunchTemplates.one.xml", "ec2.TerminateInstances.two.xml"]).await;
    let ec2 = &server.connection.aws.ec2;
    let request = DescribeLaunchTemplates { names: vec!["karpenter.k8s.aws/1".to_owned()], ..Default::default() };
    assert_eq!(ec2.describe_launch_templates(&request).await.unwrap()[0].id, "lt-1");
    let ended = ec2.terminate_instances(&["i-1".to_owned(), "i-2".to_owned()]).await.unwrap();
    let states: Vec<_> = ended.iter().map(|change| (change.id.as_str(), change.state)).collect();
    assert_eq!(states, [("i-1", InstanceState::ShuttingDown), ("i-2", InstanceState::Terminated)]);
    let asked: Vec<Asked> = server.asked();
    assert_eq!((asked[0].field("LaunchTemplateName.1"), asked[0].field("MaxResults")), ("karpenter.k8s.aws/1", ""));
    assert_eq!(asked[1].field("InstanceId.2"), "i-2");
}

#[tokio::test]
async fn types_are_what_the_catalogue_wants_to_know() {
    // covers: AWS-IT-01, AWS-IT-02
    let server =
        Server::with(&["ec2.DescribeInstanceTypes.two.xml", "ec2.DescribeInstanceTypeOfferings.two.xml"]).await;
    let ec2 = &server.connection.aws.ec2;
    let types = ec2.describe_instance_types(100).await.unwrap();
    let gpu = &types[0];
    assert_eq!((&*gpu.name, gpu.vcpus, gpu.memory_mib), ("p5.48xlarge", 192, 2_097_152));
    assert_eq!((gpu.clock_mhz, gpu.cpu_manufacturer.as_deref()), (Some(3600), Some("AMD")));
    assert_eq!((gpu.hypervisor.as_deref(), gpu.bare_metal, gpu.ena), (Some("nitro"), false, Some(true)));
    assert_eq!(gpu.usage_classes, [CapacityClass::OnDemand, CapacityClass::Spot, CapacityClass::CapacityBlock]);
    assert_eq!(gpu.network_cards.iter().map(|card| card.max_enis).collect::<Vec<_>>(), [2, 1], "in card order");
    assert_eq!((gpu.efa_max, gpu.ipv4_per_eni, gpu.encryption_in_transit), (32, 50, true));
    assert_eq!((gpu.local_disk_gb, gpu.local_disk_is_nvme), (30400, true));
    assert_eq!((gpu.ebs_optimized, gpu.ebs_max_mbps), (EbsOptimization::Default, Some(80_000)));
    assert_eq!(gpu.gpus, [Gpu { name: "H100".into(), manufacturer: "NVIDIA".into(), count: 8, memory_mib: 81_920 }]);
    assert_eq!(gpu.placement_strategies.iter().map(|text| &**text).collect::<Vec<_>>(), ["cluster", "spread"]);
    assert_eq!(
        types[1].accelerators,
        [Accelerator {
            kind: AcceleratorKind::Neuron,
            name: "Inferentia2".into(),
            manufacturer: "AWS".into(),
            count: 1,
            cores_per_device: 2,
        }],
        "reported twice, counted once"
    );
    let offered = ec2.describe_instance_type_offerings(1000).await.unwrap();
    assert_eq!(offered[1], ("m5.large".to_owned(), "us-east-1b".to_owned()));
    let asked = server.asked();
    for (field, want) in [
        ("MaxResults", "100"),
        ("Filter.1.Name", "supported-virtualization-type"),
        ("Filter.1.Value.1", "hvm"),
        ("Filter.2.Value.2", "arm64"),
    ] {
        assert_eq!(asked[0].field(field), want, "{field}");
    }
    assert_eq!((asked[1].field("LocationType"), asked[1].field("MaxResults")), ("availability-zone", "1000"));
}
