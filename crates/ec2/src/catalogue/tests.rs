use super::*;

fn region(prices: &[(&str, u64)]) -> RegionFacts {
    RegionFacts {
        zones: [("r-1a".into(), "id-1".into())].into(),
        offered: [("m5.large".into(), Arc::new(["r-1a".into()].into()))].into(),
        on_demand: prices.iter().map(|(name, micro)| (Arc::from(*name), MicroUsd(*micro))).collect(),
        ..RegionFacts::default()
    }
}

#[test]
fn an_assumed_spot_price_is_four_tenths_to_six_digits_and_says_so() {
    let facts = region(&[("m5.large", 96_003)]);
    assert_eq!(facts.spot_price("m5.large", "r-1a"), Some(MicroUsd(38_401)));
    assert_eq!(facts.spot_price("m5.large", "r-1z"), Some(MicroUsd(38_401)), "the same in every zone");
    assert_eq!(facts.spot_price("c5.large", "r-1a"), None);
    assert!(facts.spot_is_assumed());
    let mut told = facts;
    told.spot.known_mut();
    assert!(!told.spot_is_assumed());
    assert_eq!(told.spot_price("m5.large", "r-1a"), None);
}

#[test]
fn errors_about_regions_name_what_there_is() {
    let catalogue = Catalogue {
        origin: "here".to_owned(),
        types: Vec::new(),
        regions: [
            ("r-1".to_owned(), region(&[("m5.large", 1)])),
            ("r-2".to_owned(), region(&[])),
            ("r-3".to_owned(), RegionFacts { zones: [].into(), ..region(&[("m5.large", 1)]) }),
        ]
        .into(),
    };
    for (name, parts) in [
        (
            "r-9",
            vec!["\"r-9\" is not in the catalogue (here), which knows r-1, r-2;", "--catalog", "refresh --region r-9"],
        ),
        ("r-2", vec!["no on-demand prices for region \"r-2\", only for r-1;", "--catalog", "refresh --region r-2"]),
        ("r-3", vec!["\"r-3\" is not in the catalogue"]),
        ("r-1", vec!["no instance type that is both offered and priced in region \"r-1\""]),
    ] {
        let text = catalogue.region(name).unwrap_err().to_string();
        for part in parts {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn only_architectures_of_kubernetes_nodes_are_for_sale() {
    let with_arch =
        |arch: &str| TypeFacts { arch: vec![arch.into()], ..builtin::catalogue().find("m5.large").unwrap().clone() };
    let facts = region(&[("m5.large", 1)]);
    for (arch, want) in [("x86_64", 1), ("arm64", 1), ("arm64_mac", 0), ("i386", 0)] {
        let catalogue = Catalogue { types: vec![with_arch(arch)], ..Catalogue::default() };
        assert_eq!(catalogue.for_sale(&facts).count(), want, "{arch}");
    }
}
