use super::*;

const AMI_TERMS: &str = "/spec/amiSelectorTerms";
const FAMILIES: [(&str, &str); 6] = [
    ("al2", "AL2"),
    ("al2023", "AL2023"),
    ("bottlerocket", "Bottlerocket"),
    ("windows2019", "Windows2019"),
    ("windows2022", "Windows2022"),
    ("windows2025", "Windows2025"),
];

fn base() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "class"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"*": "*"}}],
            "securityGroupSelectorTerms": [{"tags": {"*": "*"}}],
        },
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut table = Table::new(base());
    identity(&mut table);
    families(&mut table);
    aliases(&mut table);
    ami_terms(&mut table);
    network_terms(&mut table);
    reservations(&mut table);
    tags(&mut table);
    volumes(&mut table);
    interfaces(&mut table);
    options(&mut table);
    table.cases
}

fn identity(table: &mut Table) {
    let (role, profile) = ("/spec/role", "/spec/instanceProfile");
    table.admits_all("API-EC2-01", &[(role, Value::Null), (profile, json!("p"))]);
    table.refuses_all("API-EC2-01", "spec", &[(profile, json!("p"))]);
    table.refuses_all("API-EC2-01", "spec", &[(role, Value::Null)]);
    table.refuses_all("API-EC2-01", "spec.role", &[(role, json!(""))]);
    table.refuses_all("API-EC2-01", "spec.instanceProfile", &[(role, Value::Null), (profile, json!(""))]);
    table.update("API-EC2-01", None, &[], &[(role, json!("other"))]);
    let managed: [(&str, Value); 0] = [];
    let unmanaged = [(role, Value::Null), (profile, json!("p"))];
    table.update("API-EC2-01", None, &managed, &unmanaged);
    table.update("API-EC2-01", None, &unmanaged, &managed);
}

fn families(table: &mut Table) {
    let by_id = (AMI_TERMS, json!([{"id": "ami-0123456789abcdef0"}]));
    for family in ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"] {
        table.admits_all("API-EC2-02", &[by_id.clone(), ("/spec/amiFamily", json!(family))]);
    }
    table.refuses_all("API-EC2-02", "spec.amiFamily", &[by_id.clone(), ("/spec/amiFamily", json!("Ubuntu"))]);
    table.refuses_all("API-EC2-04", "spec", &[by_id]);
    for (alias, own) in FAMILIES {
        let term = (AMI_TERMS, json!([{"alias": format!("{alias}@latest")}]));
        table.admits_all("API-EC2-03", &[term.clone(), ("/spec/amiFamily", json!("Custom"))]);
        for (_, family) in FAMILIES {
            let changes = [term.clone(), ("/spec/amiFamily", json!(family))];
            if family == own {
                table.admits_all("API-EC2-03", &changes);
            } else {
                table.refuses_all("API-EC2-03", "spec", &changes);
            }
        }
    }
}

fn aliases(table: &mut Table) {
    let alias = |alias: &str| json!([{"alias": alias}]);
    let good = [
        "al2@latest",
        "al2@v20240625",
        "al2023@latest",
        "al2023@v20240625",
        "bottlerocket@latest",
        "bottlerocket@1.10.0",
        "windows2019@latest",
        "windows2022@latest",
        "windows2025@latest",
    ];
    table.admits("API-EC2-05", AMI_TERMS, good.map(alias));
    let bad = [
        "@latest",
        "al2023@",
        "al2023-latest",
        "ubuntu@latest",
        "AL2023@latest",
        "windows2019@v1.0.0",
        "windows2022@v1.0.0",
        "windows2025@v1.0.0",
        "",
        "al2023@a-version-that-is-far-too-long",
    ];
    table.refuses("API-EC2-05", "spec.amiSelectorTerms[0].alias", AMI_TERMS, bad.map(alias));
    let bare = ["al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025"];
    table.admits("API-EC2-06", AMI_TERMS, bare.map(alias));
    table.refuses("API-EC2-06", "spec.amiSelectorTerms[0].alias", AMI_TERMS, ["ubuntu", "latest"].map(alias));
}

fn ami_terms(table: &mut Table) {
    let field = "spec.amiSelectorTerms";
    let terms = |terms: Value| [(AMI_TERMS, terms), ("/spec/amiFamily", json!("AL2023"))];
    for others in [json!({"tags": {"a": "b"}}), json!({"name": "n"}), json!({"owner": "o"})] {
        for exclusive in [json!({"id": "ami-1"}), json!({"alias": "al2023@latest"})] {
            let mut term = exclusive;
            term.as_object_mut().expect("an object").extend(others.as_object().expect("an object").clone());
            table.refuses_all("API-EC2-07", field, &terms(json!([term])));
        }
    }
    table.refuses_all("API-EC2-07", field, &terms(json!([{"alias": "al2023@latest", "id": "ami-1"}])));
    table.refuses_all("API-EC2-07", field, &terms(json!([{"alias": "al2023@latest"}, {"id": "ami-1"}])));
    table.admits_all("API-EC2-08", &terms(json!([{"name": "n", "owner": "self"}])));
    table.admits_all("API-EC2-08", &terms(json!([{"tags": {"a": "b"}, "owner": "123456789012"}])));
    table.admits_all("API-EC2-08", &terms(json!([{"name": "n", "tags": {"a": "*"}}])));
    table.admits_all("API-EC2-08", &terms(json!([{"ssmParameter": "/my/parameter"}, {"id": "ami-1"}])));
    for bad in bad_terms("id", "ami-1") {
        table.refuses_all("API-EC2-09", field, &terms(bad));
    }
    table.refuses_all("API-EC2-09", field, &terms(json!([{"owner": "self"}])));
    table.refuses_all("API-EC2-09", field, &terms(json!([{"id": "snap-1"}])));
}

/// No terms, empty terms, empty tags, too many: refused in every list that must select something.
fn bad_terms(field: &str, value: &str) -> Vec<Value> {
    let good = json!({field: value});
    vec![
        Value::Null,
        json!([]),
        json!([{}]),
        json!([{"tags": {}}]),
        json!([{"tags": {"": "v"}}]),
        json!([{"tags": {"k": ""}}]),
        json!([good, {}]),
        json!([good, {"tags": {"k": ""}}]),
        json!(vec![good; 31]),
    ]
}

fn network_terms(table: &mut Table) {
    let (subnets, groups) = ("/spec/subnetSelectorTerms", "/spec/securityGroupSelectorTerms");
    let (subnet_field, group_field) = ("spec.subnetSelectorTerms", "spec.securityGroupSelectorTerms");
    table.admits("API-EC2-09", subnets, [json!([{"id": "subnet-12345749"}]), json!([{"tags": {"a": "*"}}])]);
    table.admits(
        "API-EC2-09",
        groups,
        [json!([{"id": "sg-1"}]), json!([{"name": "n"}]), json!([{"tags": {"a": "b"}}])],
    );
    table.refuses("API-EC2-09", subnet_field, subnets, bad_terms("id", "subnet-1"));
    table.refuses("API-EC2-09", group_field, groups, bad_terms("id", "sg-1"));
    table.refuses("API-EC2-09", subnet_field, subnets, [json!([{"id": "net-1"}])]);
    let tags: serde_json::Map<_, _> = (0..21).map(|i| (format!("t{i}"), json!("x"))).collect();
    table.refuses("API-EC2-09", subnet_field, subnets, [json!([{"tags": tags}])]);

    let tags = json!({"a": "b"});
    table.refuses("API-EC2-10", subnet_field, subnets, [json!([{"id": "subnet-1", "tags": tags}])]);
    table.refuses(
        "API-EC2-10",
        group_field,
        groups,
        [
            json!([{"id": "sg-1", "tags": tags}]),
            json!([{"id": "sg-1", "name": "n"}]),
            json!([{"name": "n", "tags": tags}]),
        ],
    );
    // One good term beside a bad one is enough, as in the reference.
    table.admits("API-EC2-10", subnets, [json!([{"id": "subnet-1", "tags": tags}, {"id": "subnet-2"}])]);
    table.admits("API-EC2-10", groups, [json!([{"id": "sg-1", "name": "n"}, {"id": "sg-2"}])]);
}

fn reservations(table: &mut Table) {
    let (terms, field) = ("/spec/capacityReservationSelectorTerms", "spec.capacityReservationSelectorTerms");
    let tags = json!({"a": "b"});
    table.admits(
        "API-EC2-11",
        terms,
        [
            json!([{"tags": tags}]),
            json!([{"id": "cr-12345749"}]),
            json!([{"instanceMatchCriteria": "open"}]),
            json!([{"instanceMatchCriteria": "targeted"}]),
            json!([{"instanceMatchCriteria": "open", "tags": tags}]),
            json!([{"instanceMatchCriteria": "open", "tags": tags, "ownerID": "012345678901"}]),
            json!([{"tags": tags, "ownerID": "012345678901"}]),
            Value::Null,
        ],
    );
    table.refuses(
        "API-EC2-11",
        field,
        terms,
        [
            json!([{"id": "r-12345749"}]),
            json!([{"tags": tags, "ownerID": "01234567890"}]),
            json!([{"ownerID": "012345678901"}]),
            json!([{"id": "cr-1", "tags": tags}]),
            json!([{"id": "cr-1", "ownerID": "012345678901"}]),
            json!([{"id": "cr-1", "instanceMatchCriteria": "open"}]),
            json!([{"instanceMatchCriteria": "invalid"}]),
            json!([{}]),
            json!([{"tags": {}}]),
            json!([{"tags": {"k": ""}}]),
            json!([{"id": "cr-1"}, {}]),
        ],
    );
}

fn tags(table: &mut Table) {
    let good =
        ["karpenter.sh/custom-key", "karpenter.sh/managed", "kubernetes.io/role/key", "Name", "karpenter.sh/discovery"];
    table.admits("API-EC2-12", "/spec/tags", good.map(|key| json!({key: "v"})));
    table.admits("API-EC2-12", "/spec/tags", [json!({}), json!({"a": ""})]);
    let bad = [
        "",
        "eks:eks-cluster-name",
        "kubernetes.io/cluster/mine",
        "kubernetes.io/cluster",
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
    ];
    table.refuses("API-EC2-12", "spec.tags", "/spec/tags", bad.map(|key| json!({key: "v"})));
}

fn volumes(table: &mut Table) {
    let (devices, field) = ("/spec/blockDeviceMappings", "spec.blockDeviceMappings");
    let sized = |size: &str| json!([{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]);
    let good = [
        "1Gi", "20Gi", "59000Gi", "1G", "58G", "500G", "64000G", "1Ti", "17Ti", "18Ti", "19Ti", "28Ti", "49Ti", "58Ti",
        "1T", "45T", "64T",
    ];
    table.admits("API-EC2-14", devices, good.map(sized));
    let bad =
        ["0Gi", "59001Gi", "64001G", "0G", "59Ti", "65T", "100T", "Ti", "T", "Gi", "1.5Ti", "1Mi", "10", "-1Gi", ""];
    table.refuses("API-EC2-14", field, devices, bad.map(sized));
    let root = json!({"rootVolume": true, "ebs": {"volumeSize": "1Gi"}});
    let plain = json!({"rootVolume": false, "ebs": {"snapshotID": "snap-1"}});
    table.admits("API-EC2-14", devices, [json!([root, plain]), json!([plain, {"deviceName": "/dev/xvdb"}])]);
    table.refuses("API-EC2-14", field, devices, [json!([root, plain, root]), json!(vec![plain; 51])]);
    table.refuses("API-EC2-14", field, devices, [json!([{"ebs": {"encrypted": true}}])]);
    table.refuses("API-EC2-14", field, devices, [json!([{"ebs": {"volumeSize": "1Gi", "volumeType": "gp4"}}])]);

    let rated = |ebs: Value| json!([{"ebs": ebs}]);
    table.admits(
        "API-EC2-15",
        devices,
        [100, 300].map(|rate| rated(json!({"snapshotID": "snap-1", "volumeInitializationRate": rate}))),
    );
    table.refuses(
        "API-EC2-15",
        field,
        devices,
        [
            rated(json!({"volumeSize": "1Gi", "volumeInitializationRate": 200})),
            rated(json!({"snapshotID": "", "volumeInitializationRate": 200})),
            rated(json!({"snapshotID": "snap-1", "volumeInitializationRate": 99})),
            rated(json!({"snapshotID": "snap-1", "volumeInitializationRate": 888})),
        ],
    );
}

fn interfaces(table: &mut Table) {
    let (interfaces, field) = ("/spec/networkInterfaces", "spec.networkInterfaces");
    let at = |card: i32, device: i32, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let primary = at(0, 0, "interface");
    table.admits(
        "API-EC2-16",
        interfaces,
        [
            json!([]),
            json!([primary]),
            json!([primary, at(0, 1, "efa-only"), at(1, 0, "interface"), at(1, 1, "efa-only")]),
        ],
    );
    table.refuses(
        "API-EC2-16",
        field,
        interfaces,
        [
            json!([primary, at(0, 1, "efa")]),
            json!([primary, at(-1, 1, "interface")]),
            json!([primary, at(1, -1, "interface")]),
            json!([primary, at(1, 1, "interface"), at(1, 1, "interface")]),
            json!([at(0, 1, "interface")]),
            json!([at(0, 0, "efa-only")]),
            json!([primary, at(0, 1, "efa-only"), at(0, 2, "efa-only")]),
            json!([primary, {"networkCardIndex": 1}]),
        ],
    );
}

fn options(table: &mut Table) {
    let metadata = "/spec/metadataOptions";
    table.admits(
        "API-EC2-13",
        metadata,
        [
            json!({"httpEndpoint": "disabled", "httpProtocolIPv6": "enabled", "httpPutResponseHopLimit": 64, "httpTokens": "optional"}),
            json!({"httpPutResponseHopLimit": 1}),
            json!({}),
        ],
    );
    table.refuses(
        "API-EC2-13",
        "spec.metadataOptions",
        metadata,
        [
            json!({"httpEndpoint": "test"}),
            json!({"httpProtocolIPv6": "test"}),
            json!({"httpTokens": "test"}),
            json!({"httpPutResponseHopLimit": 0}),
            json!({"httpPutResponseHopLimit": 65}),
        ],
    );

    let (tracking, field) = ("/spec/connectionTracking", "spec.connectionTracking");
    table.refuses("API-EC2-17", field, tracking, [json!({})]);
    for (name, low, high) in
        [("tcpEstablishedTimeout", 60, 432_000), ("udpStreamTimeout", 60, 180), ("udpTimeout", 30, 60)]
    {
        table.admits("API-EC2-17", tracking, [json!({name: low}), json!({name: high})]);
        table.refuses("API-EC2-17", field, tracking, [json!({name: low - 1}), json!({name: high + 1})]);
    }

    let (group, field) = ("/spec/placementGroupSelector", "spec.placementGroupSelector");
    table.admits("API-EC2-18", group, [json!({"name": "n"}), json!({"id": "pg-1"})]);
    table.refuses(
        "API-EC2-18",
        field,
        group,
        [json!({}), json!({"name": "n", "id": "pg-1"}), json!({"name": ""}), json!({"id": "group-1"})],
    );

    table.admits(
        "API-EC2-19",
        "/spec/kubelet",
        [
            json!({"maxPods": "a CEL expression", "anything": {"nested": [1, null, {"deep": true}]}}),
            json!({"registerWithTaints": 5}),
            json!({}),
        ],
    );
    table.refuses("API-EC2-19", "spec.kubelet", "/spec/kubelet", [json!("text"), json!([])]);

    table.admits("fields", "/spec/cpuOptions", [json!({}), json!({"nestedVirtualization": "enabled"})]);
    table.refuses("fields", "spec.cpuOptions", "/spec/cpuOptions", [json!({"nestedVirtualization": "maybe"})]);
    table.refuses("fields", "spec.instanceStorePolicy", "/spec/instanceStorePolicy", texts(["RAID1"]));
    table.refuses("fields", "spec.ipPrefixCount", "/spec/ipPrefixCount", [json!(-1), json!(3_000_000_000_i64)]);
}
