use super::*;
use crate::testing;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(day * 86_400).unwrap()
}

fn image(id: &str, name: &str, arch: &str, day: i64) -> Image {
    Image { id: id.into(), name: name.into(), architecture: arch.into(), created: Some(at(day)), deprecated_from: None }
}

fn ids(chosen: &[ChosenImage]) -> Vec<&str> {
    chosen.iter().map(|image| image.id.as_str()).collect()
}

fn names(family: AmiFamily, version: &str, kubernetes: &str) -> Vec<String> {
    alias_parameters(family, version, kubernetes).into_iter().map(|parameter| parameter.name).collect()
}

#[test]
fn aliases_stand_for_these_parameters() {
    // covers: AWS-AMI-04, AWS-AMI-05
    let eks = "/aws/service/eks/optimized-ami/1.31";
    assert_eq!(
        names(AmiFamily::Al2, "latest", "1.31"),
        [
            format!("{eks}/amazon-linux-2/recommended/image_id"),
            format!("{eks}/amazon-linux-2-arm64/recommended/image_id"),
            format!("{eks}/amazon-linux-2-gpu/recommended/image_id"),
        ]
    );
    assert_eq!(
        names(AmiFamily::Al2, "v20240807", "1.31"),
        [
            format!("{eks}/amazon-linux-2/amazon-eks-node-1.31-v20240807/image_id"),
            format!("{eks}/amazon-linux-2-arm64/amazon-eks-arm64-node-1.31-v20240807/image_id"),
            format!("{eks}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20240807/image_id"),
        ]
    );
    let al2023 = names(AmiFamily::Al2023, "v20240807", "1.31");
    assert_eq!(al2023.len(), 5);
    let release = "amazon-eks-node-al2023-arm64-nvidia-1.31-v20240807";
    assert_eq!(al2023[4], format!("{eks}/amazon-linux-2023/arm64/nvidia/{release}/image_id"));
    assert_eq!(
        names(AmiFamily::Al2023, "latest", "1.31")[2],
        format!("{eks}/amazon-linux-2023/x86_64/neuron/recommended/image_id")
    );
    let bottlerocket = "/aws/service/bottlerocket/aws-k8s-1.31";
    for version in ["1.20.0", "v1.20.0"] {
        assert_eq!(
            names(AmiFamily::Bottlerocket, version, "1.31"),
            [
                format!("{bottlerocket}/x86_64/1.20.0/image_id"),
                format!("{bottlerocket}/arm64/1.20.0/image_id"),
                format!("{bottlerocket}-nvidia/x86_64/1.20.0/image_id"),
                format!("{bottlerocket}-nvidia/arm64/1.20.0/image_id"),
            ]
        );
    }
    assert_eq!(
        names(AmiFamily::Windows2022, "latest", "1.31"),
        ["/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.31/image_id"]
    );
    for (family, version, mutable) in [
        (AmiFamily::Al2023, "latest", true),
        (AmiFamily::Bottlerocket, "1.20.0", false),
        (AmiFamily::Windows2019, "latest", true),
    ] {
        assert!(alias_parameters(family, version, "1.31").iter().all(|parameter| parameter.mutable == mutable));
    }
}

#[test]
fn variants_serve_types_by_gpu_and_accelerator() {
    // covers: AWS-AMI-08, AWS-AMI-09, AWS-AMI-19
    let images = |family: AmiFamily, architecture: &str| {
        let mut answers = Vec::new();
        for (position, parameter) in alias_parameters(family, "latest", "1.35").into_iter().enumerate() {
            if !parameter.name.contains("arm64") {
                let id = format!("ami-{position}");
                let query = ImageQuery::of_known(BTreeMap::from([(id.clone(), parameter.serves)]));
                answers.push((query, vec![image(&id, "image", architecture, 1)]));
            }
        }
        choose(&answers, at(9))
    };
    let pick = |chosen: &[ChosenImage], name: &str, class: &crate::NodeClassFacts| {
        let kind = testing::resolved(name, class);
        let sets: Vec<_> = chosen.iter().map(|image| (image.id.clone(), requirements(&image.requirements))).collect();
        image_for(&kind, sets.iter().map(|(id, set)| (id.as_str(), set))).map(str::to_owned)
    };
    let class = crate::NodeClassFacts::default();
    let al2023 = images(AmiFamily::Al2023, "x86_64");
    assert_eq!(pick(&al2023, "m5.large", &class).as_deref(), Some("ami-0"));
    assert_eq!(pick(&al2023, "g4dn.8xlarge", &class).as_deref(), Some("ami-1"));
    assert_eq!(pick(&al2023, "inf2.xlarge", &class).as_deref(), Some("ami-2"));
    assert_eq!(pick(&al2023, "c6g.large", &class), None);
    let bottlerocket = images(AmiFamily::Bottlerocket, "x86_64");
    assert_eq!(pick(&bottlerocket, "inf2.xlarge", &class), pick(&bottlerocket, "m5.large", &class));
    // One image for two variants stands in the list twice.
    assert_eq!(bottlerocket.iter().filter(|image| image.id == "ami-0").count(), 2);
    let windows = images(AmiFamily::Windows2022, "x86_64");
    assert_eq!(pick(&windows, "m5.large", &class), None);
    let class = crate::NodeClassFacts { ami_family: AmiFamily::Windows2022, ..class };
    assert_eq!(pick(&windows, "m5.large", &class).as_deref(), Some("ami-0"));
    assert!(images(AmiFamily::Al2023, "i386").is_empty());
}

#[test]
fn some_aliases_have_a_version_window() {
    // covers: AWS-AMI-10
    for (family, kubernetes, refused) in [
        (AmiFamily::Al2, "1.32", false),
        (AmiFamily::Al2, "1.33", true),
        (AmiFamily::Windows2025, "1.34", true),
        (AmiFamily::Windows2025, "1.35", false),
        (AmiFamily::Al2023, "1.36", false),
    ] {
        assert_eq!(unsupported_alias(family, kubernetes).is_some(), refused, "{family:?} {kubernetes}");
    }
}

#[test]
fn terms_become_queries() {
    // covers: AWS-AMI-01, AWS-AMI-11, AWS-AMI-12, AWS-AMI-14
    let text = |text: &str| Some(text.to_owned());
    let terms = [
        ImageTerm { id: text("ami-1"), ..Default::default() },
        ImageTerm { name: text("mine-*"), ..Default::default() },
        ImageTerm { name: text("theirs"), owner: text("123"), ..Default::default() },
        ImageTerm {
            tags: [("team".to_owned(), "a".to_owned()), ("tested".to_owned(), "*".to_owned())].into(),
            ..Default::default()
        },
        ImageTerm { id: text("ami-2"), ..Default::default() },
    ];
    let state = Filter::new("state", ["available"]);
    let want = [
        (vec!["self", "amazon"], vec![Filter::new("name", ["mine-*"]), state.clone()]),
        (vec!["123"], vec![Filter::new("name", ["theirs"]), state.clone()]),
        (vec![], vec![Filter::new("tag:team", ["a"]), Filter::new("tag-key", ["tested"]), state.clone()]),
        (vec![], vec![Filter::new("image-id", ["ami-1", "ami-2"]), state]),
    ];
    let found = queries(&terms);
    assert_eq!(found.len(), want.len());
    for (query, (owners, filters)) in found.iter().zip(want) {
        assert_eq!((query.owners.iter().map(String::as_str).collect::<Vec<_>>(), &query.filters), (owners, &filters));
    }
}

#[test]
fn the_newest_image_in_use_wins() {
    // covers: AWS-AMI-15, AWS-AMI-16, AWS-AMI-17, AWS-AMI-18
    let choose_of = |images: Vec<Image>| choose(&[(ImageQuery::default(), images)], at(10));
    let chosen = choose_of(vec![
        image("ami-a", "a", "x86_64", 1),
        image("ami-b", "b", "x86_64", 3),
        image("ami-c", "c", "x86_64", 2),
        image("ami-d", "d", "arm64", 2),
    ]);
    assert_eq!(ids(&chosen), ["ami-b", "ami-d"]);
    let keys: Vec<&str> = chosen[0].requirements.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["kubernetes.io/arch"], "tags and names are not requirements");
    // A tie in time goes to the greater name.
    assert_eq!(ids(&choose_of(vec![image("ami-b", "a", "x86_64", 3), image("ami-a", "b", "x86_64", 3)])), ["ami-a"]);
    // Deprecated ones only where nothing else is left, from the very second on.
    let mut old = image("ami-old", "z", "x86_64", 9);
    old.deprecated_from = Some(at(10));
    let both = choose_of(vec![old.clone(), image("ami-b", "b", "x86_64", 3)]);
    assert_eq!((ids(&both), both[0].deprecated), (vec!["ami-b"], false));
    let alone = choose_of(vec![old.clone()]);
    assert_eq!((ids(&alone), alone[0].deprecated), (vec!["ami-old"], true));
    old.deprecated_from = Some(at(11));
    assert_eq!(ids(&choose_of(vec![old, image("ami-b", "b", "x86_64", 3)])), ["ami-old"]);
    // Equal dates are listed by id.
    assert_eq!(
        ids(&choose_of(vec![image("ami-z", "a", "x86_64", 3), image("ami-y", "b", "arm64", 3)])),
        ["ami-y", "ami-z"]
    );
}

#[test]
fn requirements_are_listed_short_keys_first() {
    // covers: AWS-AMI-18
    let query = ImageQuery::of_known(BTreeMap::from([("ami-1".to_owned(), vec![Variant::Standard.requirements()])]));
    let chosen = choose(&[(query, vec![image("ami-1", "a", "x86_64", 1)])], at(1));
    let keys: Vec<&str> = chosen[0].requirements.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["kubernetes.io/arch", GPU_COUNT, ACCELERATOR_COUNT]);
}

#[test]
fn families_have_default_volumes() {
    // covers: AWS-AMI-24, AWS-AMI-25
    let of = |family| {
        default_volumes(family).into_iter().map(|(device, size)| format!("{device} {size}")).collect::<Vec<_>>()
    };
    assert_eq!(of(AmiFamily::Al2), ["/dev/xvda 20Gi"]);
    assert_eq!(of(AmiFamily::Al2023), ["/dev/xvda 20Gi"]);
    assert_eq!(of(AmiFamily::Bottlerocket), ["/dev/xvda 4Gi", "/dev/xvdb 20Gi"]);
    assert_eq!(of(AmiFamily::Windows2025), ["/dev/sda1 50Gi"]);
    assert!(of(AmiFamily::Custom).is_empty());
    assert_eq!(AmiFamily::Bottlerocket.ephemeral_device().unwrap().0, "/dev/xvdb");
}
