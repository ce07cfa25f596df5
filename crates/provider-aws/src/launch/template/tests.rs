use karpenter_ec2::nodeclass::{CapacityReservation, ReservationKind};
use serde_json::{Value, json};

use super::*;
use crate::launch::candidates::Ask;
use crate::launch::fleet;
use crate::subnets::Subnets;
use crate::testing::{Fake, ZONES, at, claim, class, facts, types};

struct Fixture {
    class: EC2NodeClass,
    claim: NodeClaim,
    types: Vec<InstanceType>,
    capacity_type: &'static str,
    tenancy: &'static str,
    ipv6: bool,
    reserved_capacity: bool,
    region: &'static str,
    group: Option<&'static str>,
    kubelets: Kubelets,
}

impl Fixture {
    fn new(spec: Value, names: &[&str]) -> Self {
        let found = types(&facts(), names);
        Self {
            class: class(spec),
            claim: claim(&[]),
            types: found.iter().map(|kind| InstanceType::clone(kind)).collect(),
            capacity_type: "on-demand",
            tenancy: "default",
            ipv6: false,
            reserved_capacity: true,
            region: "us-east-1",
            group: None,
            kubelets: Kubelets::new(),
        }
    }

    fn plan(&self) -> Result<Vec<Planned>, TemplateError> {
        let cluster = ClusterFacts {
            name: "here".into(),
            endpoint: "https://api".into(),
            ca_bundle: None,
            cidr: Some("10.0.0.0/16".into()),
        };
        let around = Surroundings {
            region: self.region,
            cluster: &cluster,
            cluster_dns: None,
            ipv6: self.ipv6,
            reserved_capacity: self.reserved_capacity,
            placement_group_id: self.group,
            partition: self.group.map(|_| 2),
            tag_spot_requests: true,
            kubelets: &self.kubelets,
        };
        let tags = crate::tags::launch_tags(&self.class, Some(&self.claim), "here").unwrap();
        let choice =
            Choice { types: &self.types, capacity_type: self.capacity_type, tenancy: self.tenancy, tags: &tags };
        plan(&self.class, &self.claim, &choice, &around)
    }

    fn one(&self) -> NewLaunchTemplate {
        let mut planned = self.plan().unwrap();
        assert_eq!(planned.len(), 1);
        planned.remove(0).template
    }
}

#[test]
fn the_name_is_the_content() {
    // covers: AWS-LT-01, AWS-LT-02
    let base = Fixture::new(json!({}), &["m5.large"]);
    let name = |fixture: &Fixture| fixture.one().name;
    let hash = name(&base).strip_prefix("karpenter.k8s.aws/").unwrap().parse::<u64>();
    assert!(hash.is_ok());
    assert_eq!(name(&base), name(&Fixture::new(json!({}), &["c5.large"])), "the list of types is not part of it");
    let mut others = vec![
        Fixture::new(json!({"detailedMonitoring": true}), &["m5.large"]),
        Fixture::new(json!({"userData": "echo"}), &["m5.large"]),
        Fixture::new(json!({"associatePublicIPAddress": false}), &["m5.large"]),
        Fixture::new(json!({"tags": {"a": "b"}}), &["m5.large"]),
    ];
    let mut renamed = Fixture::new(json!({}), &["m5.large"]);
    renamed.class.metadata.name = Some("other".to_owned());
    let mut spot = Fixture::new(json!({}), &["m5.large"]);
    spot.capacity_type = "spot";
    let mut dedicated = Fixture::new(json!({}), &["m5.large"]);
    dedicated.tenancy = "dedicated";
    let mut labelled = Fixture::new(json!({}), &["m5.large"]);
    labelled.claim.metadata.labels.get_or_insert_default().insert("x".to_owned(), "y".to_owned());
    others.extend([renamed, spot, dedicated, labelled]);
    let mut names: Vec<String> = others.iter().map(name).collect();
    names.push(name(&base));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn templates_that_are_the_same_to_ec2_are_one() {
    // covers: AWS-LT-03
    let of = |spec: Value| Fixture::new(spec, &["c5.large", "m5.large", "m5.4xlarge"]).plan().unwrap();
    assert_eq!(of(json!({})).len(), 2, "29 and 234 pods");
    let planned = of(json!({"kubelet": {"maxPods": 20, "podsPerCore": 2}}));
    assert_eq!((planned.len(), planned[0].types.len()), (1, 3), "the kubelet is told 20 in any case");
    let custom = json!({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-x86"}]});
    assert_eq!(of(custom).len(), 1, "the kubelet is told nothing");
}

#[test]
fn types_share_a_template_if_their_nodes_are_set_up_alike() {
    // covers: AWS-LT-03
    let planned = Fixture::new(json!({}), &["c5.large", "m5.large", "m5.xlarge", "m6g.large"]).plan().unwrap();
    let mut groups: Vec<(String, Vec<String>)> = planned
        .iter()
        .map(|p| (p.template.image_id.clone(), p.types.iter().map(|kind| kind.name.to_string()).collect()))
        .collect();
    groups.sort();
    let want =
        [("ami-arm", vec!["m6g.large"]), ("ami-x86", vec!["c5.large", "m5.large"]), ("ami-x86", vec!["m5.xlarge"])];
    let want = want.map(|(image, types)| (image.to_owned(), types.into_iter().map(str::to_owned).collect()));
    assert_eq!(groups, want);
    let fixed = Fixture::new(json!({"kubelet": {"maxPods": 20}}), &["m5.large", "m5.xlarge"]);
    assert_eq!(fixed.plan().unwrap().len(), 1, "both take as many pods as the class says");
}

#[test]
fn a_template_holds_what_the_class_says() {
    // covers: AWS-LT-09, AWS-LT-11, AWS-LT-16, AWS-LT-17, AWS-LT-19, AWS-LT-20, AWS-IP-14, AWS-AMI-24
    let template = Fixture::new(json!({}), &["m5.large"]).one();
    assert_eq!((template.instance_profile.as_str(), template.monitoring), ("profile", false));
    let volume =
        Volume { encrypted: Some(true), volume_type: Some("gp3".into()), size_gib: Some(20), ..Volume::default() };
    assert_eq!(template.block_devices, [BlockDevice { device_name: Some("/dev/xvda".into()), volume: Some(volume) }]);
    let metadata = MetadataOptions {
        http_endpoint: "enabled".into(),
        http_protocol_ipv6: Some("disabled".into()),
        http_put_response_hop_limit: 1,
        http_tokens: "required".into(),
        instance_metadata_tags: "disabled",
    };
    assert_eq!(template.metadata, metadata);
    let groups = vec!["sg-1".to_owned(), "sg-2".to_owned()];
    assert_eq!(template.interfaces, [Interface { security_groups: groups.clone(), ..Interface::default() }]);
    assert_eq!((template.tenancy.as_str(), template.placement_group_id), ("default", None));
    assert!(!template.enclaves && !template.tag_spot_requests);
    let spec = json!({
        "detailedMonitoring": true, "associatePublicIPAddress": false, "ipPrefixCount": 2,
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "21G", "iops": 0, "throughput": 125, "encrypted": false}},
            {"deviceName": "/dev/xvdb"},
        ],
    });
    let mut fixture = Fixture::new(spec, &["m5.large"]);
    fixture.group = Some("pg-1");
    fixture.tenancy = "dedicated";
    let template = fixture.one();
    let first = template.block_devices[0].volume.clone().unwrap();
    assert_eq!(
        (first.size_gib, first.iops, first.throughput, first.encrypted),
        (Some(20), None, Some(125), Some(false))
    );
    assert_eq!(template.block_devices[1], BlockDevice { device_name: Some("/dev/xvdb".into()), volume: None });
    let interface = &template.interfaces[0];
    assert_eq!((interface.associate_public_ip, interface.ipv4_prefix_count), (Some(false), Some(2)));
    assert_eq!(
        (template.tenancy.as_str(), template.placement_group_id.as_deref(), template.partition),
        ("dedicated", Some("pg-1"), Some(2))
    );
    assert!(template.monitoring);
}

#[test]
fn ipv6_clusters_ask_for_addresses() {
    // covers: AWS-LT-12, AWS-LT-18
    let mut fixture = Fixture::new(json!({"ipPrefixCount": 3}), &["m5.large"]);
    fixture.ipv6 = true;
    let interface = fixture.one().interfaces.remove(0);
    assert_eq!((interface.ipv6_address_count, interface.primary_ipv6), (Some(1), Some(true)));
    assert_eq!((interface.ipv4_prefix_count, interface.ipv6_prefix_count), (None, Some(3)));
    fixture.region = "us-iso-east-1";
    assert_eq!(fixture.one().metadata.http_protocol_ipv6, None);
}

#[test]
fn interfaces_follow_efa_requests_and_the_class() {
    // covers: AWS-LT-13, AWS-LT-14, AWS-LT-15, AWS-LT-22, AWS-LT-21
    let mut fixture = Fixture::new(json!({"cpuOptions": {"nestedVirtualization": "disabled"}}), &["m6i.32xlarge"]);
    let requests = json!({"requests": {EFA: "1", NITRO_SANDBOX: "1"}});
    fixture.claim.spec.resources = serde_json::from_value(requests).unwrap();
    let template = fixture.one();
    let told: Vec<_> = template.interfaces.iter().map(|i| (i.card_index, i.device_index, i.kind.as_deref())).collect();
    assert_eq!(told[0], (Some(0), 0, Some("efa")));
    assert!(told.iter().skip(1).all(|(_, device, _)| *device == 1));
    assert!(template.enclaves);
    assert_eq!(template.nested_virtualization.as_deref(), Some("disabled"));
    let spec = json!({
        "associatePublicIPAddress": true, "connectionTracking": {"udpTimeout": 30},
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        ],
    });
    let interfaces = Fixture::new(spec, &["m5.large"]).one().interfaces;
    assert_eq!(interfaces.len(), 2);
    assert_eq!(
        (interfaces[0].associate_public_ip, interfaces[0].connection_tracking.map(|t| t.udp)),
        (Some(true), Some(Some(30)))
    );
    assert_eq!((interfaces[1].kind.as_deref(), interfaces[1].associate_public_ip), (Some("efa-only"), None));
    assert_eq!((interfaces[1].connection_tracking, interfaces[1].security_groups.len()), (None, 2));
}

#[test]
fn a_launch_without_groups_or_images_fails_before_any_call() {
    // covers: AWS-LT-25
    let mut fixture = Fixture::new(json!({}), &["m5.large"]);
    fixture.class.status.as_mut().unwrap().security_groups = None;
    assert_eq!(fixture.plan().unwrap_err(), TemplateError::NoSecurityGroups);
    let mut fixture = Fixture::new(json!({}), &["m5.large"]);
    fixture.class.status.as_mut().unwrap().amis = None;
    assert_eq!(fixture.plan().unwrap_err(), TemplateError::NoImages);
    let mut fixture = Fixture::new(json!({}), &["m5.large"]);
    fixture.class.status.as_mut().unwrap().amis.as_mut().unwrap().truncate(1);
    assert!(matches!(fixture.plan().unwrap_err(), TemplateError::NoTypeFitsImages(_)));
}

fn reserved(kind: ReservationKind, interruptible: bool) -> Fixture {
    let mut class = facts();
    let reservation = |id: &str, zone: &str| CapacityReservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: zone.into(),
        kind,
        interruptible,
        expiring: false,
        remaining: 3,
    };
    class.capacity_reservations = vec![reservation("cr-1", ZONES[0]), reservation("cr-2", ZONES[1])];
    let mut fixture = Fixture::new(json!({}), &["m5.large"]);
    fixture.types = types(&class, &["m5.large"]).iter().map(|kind| InstanceType::clone(kind)).collect();
    fixture.types[0].offerings.retain(|offering| offering.reservation.is_some());
    fixture.capacity_type = "reserved";
    fixture.claim = claim(&[("karpenter.sh/capacity-type", "In", &["reserved"])]);
    fixture
}

#[test]
fn reservations_have_templates_of_their_own() {
    // covers: AWS-LT-23, AWS-LT-24, AWS-CR-10
    let planned = reserved(ReservationKind::Default, false).plan().unwrap();
    let targets: Vec<_> = planned.iter().map(|p| (p.reservation_id.clone(), p.template.reservation.clone())).collect();
    let only = |id: &str| (Some(id.to_owned()), Some(CapacityReservationTarget::Only(id.to_owned())));
    assert_eq!(targets, [only("cr-1"), only("cr-2")]);
    assert!(planned.iter().all(|planned| planned.template.market_type.is_none()));
    let market = |fixture: Fixture| fixture.plan().unwrap()[0].template.market_type.clone();
    assert_eq!(market(reserved(ReservationKind::CapacityBlock, false)).as_deref(), Some("capacity-block"));
    assert_eq!(market(reserved(ReservationKind::Default, true)).as_deref(), Some("interruptible-capacity-reservation"));
    let mut plain = Fixture::new(json!({}), &["m5.large"]);
    assert_eq!(plain.one().reservation, Some(CapacityReservationTarget::Never));
    plain.reserved_capacity = false;
    assert_eq!(plain.one().reservation, None);
}

fn request(fixture: &Fixture) -> Option<crate::calls::CreateFleet> {
    let words = karpenter_ec2::vocabulary();
    let ask = Ask::of(&fixture.claim, &words);
    let subnets = Subnets::new(std::sync::Arc::new(Fake::default()).aws(), std::time::Duration::from_secs(60));
    let chosen = subnets.choose(&fixture.class, &fixture.types, fixture.capacity_type, at(0));
    let tags = crate::tags::launch_tags(&fixture.class, Some(&fixture.claim), "here").unwrap();
    fleet::request(
        &fixture.class,
        &fixture.claim,
        &ask,
        fixture.capacity_type,
        &fixture.plan().unwrap(),
        &chosen,
        &tags,
    )
}

#[test]
fn a_fleet_has_an_override_for_each_type_and_zone() {
    // covers: AWS-FLEET-12, AWS-FLEET-14, AWS-FLEET-15, AWS-FLEET-16, AWS-FLEET-17, AWS-FLEET-18, AWS-FLEET-20
    let mut fixture = Fixture::new(json!({"context": "ctx"}), &["c5.large", "m5.large", "m6g.large"]);
    let made = request(&fixture).unwrap();
    assert_eq!((made.kind.target_capacity_type(), made.total, made.context.as_deref()), ("on-demand", 1, Some("ctx")));
    assert_eq!(made.kind.allocation_strategy(made.prioritized), Some("lowest-price"));
    assert!(made.configs.iter().all(|config| config.version == "$Latest"));
    let mut overrides: Vec<_> = made.configs.iter().flat_map(|config| &config.overrides).collect();
    overrides.sort();
    assert_eq!(overrides.len(), 6);
    let first = overrides[0];
    assert_eq!((first.instance_type.as_str(), first.zone.as_str(), first.priority.0), ("c5.large", ZONES[0], 85_000));
    assert_eq!((first.subnet_id.as_str(), first.image_id.as_str()), ("subnet-us-east-1a", "ami-x86"));
    let annotate = |fixture: &mut Fixture, key: &str| {
        fixture.claim.metadata.annotations.get_or_insert_default().insert(key.to_owned(), "true".to_owned());
    };
    annotate(&mut fixture, "karpenter.sh/nodeclaim-min-values-relaxed");
    annotate(&mut fixture, "karpenter.sh/price-overlay-applied");
    fixture.capacity_type = "spot";
    let made = request(&fixture).unwrap();
    assert_eq!(made.context, None);
    assert_eq!(made.kind.allocation_strategy(made.prioritized), Some("capacity-optimized-prioritized"));
    let elsewhere = claim(&[("topology.kubernetes.io/zone", "In", &["us-east-1c"])]);
    fixture.claim = elsewhere;
    assert!(request(&fixture).is_none(), "a zone without subnet gives nothing");
    for (kind, interruptible, target) in [
        (ReservationKind::Default, false, "on-demand"),
        (ReservationKind::CapacityBlock, false, "capacity-block"),
        (ReservationKind::Default, true, "reserved-capacity"),
    ] {
        let made = request(&reserved(kind, interruptible)).unwrap();
        assert_eq!(made.kind.target_capacity_type(), target);
        let zones: Vec<_> =
            made.configs.iter().map(|config| (config.overrides.len(), &config.overrides[0].zone)).collect();
        assert_eq!(zones.len(), 2);
        assert!(zones.iter().all(|(count, _)| *count == 1), "each template buys from its own reservation");
    }
}

#[test]
fn the_lowest_partition_that_is_allowed() {
    // covers: AWS-PG-07
    let words = karpenter_ec2::vocabulary();
    let of = |operator: &str, values: &[&str]| {
        let claim = claim(&[(aws::PLACEMENT_GROUP_PARTITION, operator, values)]);
        partition(&Ask::of(&claim, &words).requirements, 12)
    };
    assert_eq!(of("In", &["10", "9"]), Some(9));
    assert_eq!(of("NotIn", &["1"]), Some(2));
    assert_eq!(of("Gt", &["4"]), Some(5));
    assert_eq!(partition(&Requirements::new(), 12), None);
}

#[test]
fn a_node_is_told_what_came_of_the_formulas() {
    // covers: AWS-KC-16, AWS-KC-18, AWS-LT-03
    let kubelet = json!({"kubeReserved": {"cpu": "vcpus * 33", "memory": "1Gi"}, "systemReserved": {"cpu": "vcpus"}});
    let mut fixture = Fixture::new(json!({"kubelet": kubelet}), &["m5.large", "c5.large", "m5.xlarge"]);
    let resolved = |cpu: &str| Resolved {
        kube_reserved: [("cpu".to_owned(), cpu.parse().unwrap()), ("memory".to_owned(), "1Gi".parse().unwrap())].into(),
        ..Resolved::default()
    };
    for (name, cpu) in [("m5.large", "70m"), ("c5.large", "70m"), ("m5.xlarge", "140m")] {
        fixture.kubelets.insert(name.into(), resolved(cpu));
    }
    let planned = fixture.plan().unwrap();
    let told = |planned: &Planned| {
        let text = base64::engine::general_purpose::STANDARD.decode(&planned.template.user_data).unwrap();
        String::from_utf8(text).unwrap()
    };
    let mut seen: Vec<(usize, bool, bool)> = planned
        .iter()
        .map(|planned| {
            let text = told(planned);
            assert!(!text.contains("vcpus"), "{text}");
            assert!(!text.contains("systemReserved"), "it held nothing else: {text}");
            assert!(text.contains("memory: 1Gi"), "{text}");
            (planned.types.len(), text.contains("cpu: 70m"), text.contains("cpu: 140m"))
        })
        .collect();
    seen.sort();
    assert_eq!(seen, [(1, false, true), (2, true, false)], "one template for each outcome");
}
