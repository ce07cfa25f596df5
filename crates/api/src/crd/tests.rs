use super::*;

fn version(kind: Kind) -> Value {
    crd(kind)["spec"]["versions"][0].clone()
}

#[test]
fn names_and_scope() {
    for (kind, name, plural, singular, short, category, scope, versions) in [
        (Kind::NodePool, "nodepools.karpenter.sh", "nodepools", "nodepool", None, "karpenter", "Cluster", "v1"),
        (Kind::NodeClaim, "nodeclaims.karpenter.sh", "nodeclaims", "nodeclaim", None, "karpenter", "Cluster", "v1"),
        (
            Kind::NodeOverlay,
            "nodeoverlays.karpenter.sh",
            "nodeoverlays",
            "nodeoverlay",
            Some(json!(["overlays"])),
            "karpenter",
            "Cluster",
            "v1alpha1",
        ),
        (
            Kind::CapacityBuffer,
            "capacitybuffers.autoscaling.x-k8s.io",
            "capacitybuffers",
            "capacitybuffer",
            Some(json!(["cb"])),
            "autoscaling",
            "Namespaced",
            "v1beta1",
        ),
        (
            Kind::EC2NodeClass,
            "ec2nodeclasses.karpenter.k8s.aws",
            "ec2nodeclasses",
            "ec2nodeclass",
            Some(json!(["ec2nc", "ec2ncs"])),
            "karpenter",
            "Cluster",
            "v1",
        ),
    ] {
        let crd = crd(kind);
        let spec = &crd["spec"];
        assert_eq!(crd["metadata"]["name"], name);
        assert_eq!(spec["names"]["plural"], plural);
        assert_eq!(spec["names"]["singular"], singular);
        assert_eq!(spec["names"]["kind"], kind.as_str());
        assert_eq!(spec["names"]["listKind"], format!("{}List", kind.as_str()));
        assert_eq!(spec["names"].get("shortNames"), short.as_ref());
        assert_eq!(spec["names"]["categories"], json!([category]));
        assert_eq!(spec["scope"], scope);
        assert_eq!(spec["versions"][0]["name"], versions);
        assert_eq!((&spec["versions"][0]["served"], &spec["versions"][0]["storage"]), (&json!(true), &json!(true)));
    }
}

#[test]
fn columns_of_kubectl_get() {
    let columns = |kind| -> String {
        let version = version(kind);
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        let name = |column: &Value| {
            let wide = if column.get("priority") == Some(&json!(1)) { "+" } else { "" };
            format!("{wide}{}", column["name"].as_str().unwrap())
        };
        columns.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    for (kind, want) in [
        (Kind::NodePool, "NodeClass Nodes Ready Age +Weight +CPU +Memory"),
        (Kind::NodeClaim, "Type Capacity Zone Node Ready Age +ImageID +ID +NodePool +NodeClass +Drifted"),
        (Kind::NodeOverlay, "Ready Age +Weight"),
        (Kind::CapacityBuffer, "Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age"),
        (Kind::EC2NodeClass, "Ready Age +Role"),
    ] {
        assert_eq!(columns(kind), want);
    }
}

#[test]
fn pools_can_be_scaled() {
    // covers: API-NP-30
    let scale = version(Kind::NodePool)["subresources"]["scale"].clone();
    assert_eq!(scale, json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}));
    for kind in Kind::ALL {
        assert_eq!(version(kind)["subresources"]["status"], json!({}));
        assert_eq!(version(kind)["subresources"].get("scale").is_some(), kind == Kind::NodePool);
    }
}

#[test]
fn the_yaml_reads_back_as_the_definitions() {
    let read: Vec<Value> = serde_saphyr::from_multiple(&crds_yaml()).unwrap();
    assert_eq!(read, crds());
    assert_eq!(crds_yaml(), crds_yaml());
    assert_eq!(crd_file_name(Kind::EC2NodeClass), "karpenter.k8s.aws_ec2nodeclasses.yaml");
}

#[test]
fn every_field_a_user_can_write_is_described() {
    fn check(schema: &Value, path: &str) {
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let described = child.get("description").and_then(Value::as_str).is_some_and(|text| text.ends_with('.'));
            let plumbing = path == ".metadata" || path.ends_with(".template.metadata");
            assert!(described || plumbing, "{path} has no description");
            check(child, &path);
            check(&child["items"], &path);
        }
    }
    for kind in Kind::ALL {
        check(&version(kind)["schema"]["openAPIV3Schema"], "");
    }
}
