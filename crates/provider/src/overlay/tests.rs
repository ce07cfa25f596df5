use karpenter_core::Overhead;
use serde_json::{Value, json};

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const TYPE: &str = "node.kubernetes.io/instance-type";

fn words() -> Vocabulary {
    Vocabulary::kubernetes()
}

fn set(pairs: &[(&str, &[&str])]) -> Requirements {
    let mut requirements = Requirements::new();
    for (key, values) in pairs {
        requirements.add(key, Requirement::one_of(values.iter().copied()));
    }
    requirements
}

/// On demand at a dollar in zone a and two in zone b, spot at half of that.
fn kind(name: &str) -> Arc<InstanceType> {
    let offering = |zone: &str, class: &str, micro: u64| Offering {
        requirements: set(&[(ZONE, &[zone]), (CAPACITY_TYPE, &[class])]),
        price: MicroUsd(micro),
        available: true,
        reservation: None,
    };
    let capacity = [("cpu", "4"), ("memory", "8Gi"), ("pods", "58")];
    Arc::new(InstanceType {
        name: name.into(),
        requirements: set(&[(TYPE, &[name]), (ZONE, &["a", "b"]), (CAPACITY_TYPE, &["on-demand", "spot"])]),
        capacity: capacity.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect(),
        overhead: Overhead::default(),
        offerings: vec![
            offering("a", "on-demand", 1_000_000),
            offering("a", "spot", 500_000),
            offering("b", "on-demand", 2_000_000),
            offering("b", "spot", 1_000_000),
        ],
    })
}

fn types(names: &[&str]) -> InstanceTypes {
    names.iter().map(|name| kind(name)).collect::<Vec<_>>().into()
}

fn pool(name: &str, labels: Value) -> Arc<NodePool> {
    let template = json!({"metadata": {"labels": labels}, "spec": {"requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}}});
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"template": template}})).unwrap())
}

fn overlay(name: &str, requirements: &[(&str, &str, &[&str])], more: Value) -> Arc<NodeOverlay> {
    let requirements: Vec<Value> =
        requirements.iter().map(|(key, op, values)| json!({"key": key, "operator": op, "values": values})).collect();
    let mut spec = json!({"requirements": requirements});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
}

/// One pool with two types, and what becomes of them.
fn judged(overlays: &[Arc<NodeOverlay>]) -> (Vec<(String, Standing)>, InstanceTypes) {
    let (pool, types) = (pool("default", json!({"team": "a"})), types(&["large", "small"]));
    let (standings, accepted) = evaluate(overlays, &[(pool.clone(), types.clone())], &words());
    (standings, accepted.apply(&pool, &types, &words()))
}

fn prices(types: &InstanceTypes, name: &str) -> Vec<f64> {
    let kind = types.iter().find(|kind| &*kind.name == name).unwrap();
    kind.offerings.iter().map(|offering| offering.price.dollars()).collect()
}

fn standing(standings: &[(String, Standing)], name: &str) -> Standing {
    standings.iter().find(|(of, _)| of == name).unwrap().1.clone()
}

const UNCHANGED: [f64; 4] = [1.0, 0.5, 2.0, 1.0];

#[test]
fn a_price_is_replaced_or_shifted_and_never_negative() {
    // covers: SCH-OVERLAY-02, SCH-OVERLAY-03
    for (change, want) in [
        (json!({"price": "3.5"}), [3.5, 3.5, 3.5, 3.5]),
        (json!({"priceAdjustment": "+0.75"}), [1.75, 1.25, 2.75, 1.75]),
        (json!({"priceAdjustment": "-10%"}), [0.9, 0.45, 1.8, 0.9]),
        (json!({"priceAdjustment": "+100%"}), [2.0, 1.0, 4.0, 2.0]),
        (json!({"priceAdjustment": "-100%"}), [0.0; 4]),
        (json!({"priceAdjustment": "-15"}), [0.0; 4]),
    ] {
        let (standings, types) = judged(&[overlay("o", &[], change.clone())]);
        assert_eq!(standings, [("o".to_owned(), Standing::Valid)], "{change}");
        assert_eq!(prices(&types, "large"), want, "{change}");
    }
    for bad in [json!({"price": "much"}), json!({"priceAdjustment": "ten%"})] {
        let (standings, types) = judged(&[overlay("o", &[], bad.clone())]);
        assert!(matches!(standing(&standings, "o"), Standing::Invalid(_)), "{bad}");
        assert_eq!(prices(&types, "large"), UNCHANGED);
    }
}

#[test]
fn an_overlay_means_what_its_requirements_select() {
    // covers: SCH-OVERLAY-10, SCH-OVERLAY-11, SCH-OVERLAY-12
    let free = json!({"price": "0"});
    type Rows<'a> = &'a [(&'a str, &'a str, &'a [&'a str])];
    let rows: [(Rows<'_>, [f64; 4], [f64; 4]); 9] = [
        (&[], [0.0; 4], [0.0; 4]),
        (&[(TYPE, "In", &["large"])], [0.0; 4], UNCHANGED),
        (&[(TYPE, "NotIn", &["large"])], UNCHANGED, [0.0; 4]),
        (&[(ZONE, "In", &["a"])], [0.0, 0.0, 2.0, 1.0], [0.0, 0.0, 2.0, 1.0]),
        (&[(CAPACITY_TYPE, "In", &["spot"]), (ZONE, "In", &["b"])], [1.0, 0.5, 2.0, 0.0], [1.0, 0.5, 2.0, 0.0]),
        (&[("karpenter.sh/nodepool", "In", &["default"])], [0.0; 4], [0.0; 4]),
        (&[("karpenter.sh/nodepool", "In", &["other"])], UNCHANGED, UNCHANGED),
        (&[("team", "In", &["a"])], [0.0; 4], [0.0; 4]),
        // Nothing may be left undefined.
        (&[("unheard", "Exists", &[])], UNCHANGED, UNCHANGED),
    ];
    for (requirements, large, small) in rows {
        let (_, types) = judged(&[overlay("o", requirements, free.clone())]);
        assert_eq!(
            (prices(&types, "large"), prices(&types, "small")),
            (large.to_vec(), small.to_vec()),
            "{requirements:?}"
        );
    }
    // Capacity is of the type, if only one of its offerings is meant.
    let (_, types) = judged(&[overlay("o", &[(ZONE, "In", &["a"])], json!({"capacity": {"example.com/device": "2"}}))]);
    assert_eq!(types[0].capacity.get("example.com/device").units(), 2);
    let (_, types) = judged(&[overlay("o", &[(ZONE, "In", &["c"])], json!({"capacity": {"example.com/device": "2"}}))]);
    assert!(types[0].capacity.get("example.com/device").is_zero(), "no offering, no match");
}

#[test]
fn the_heaviest_has_its_way_and_lighter_ones_fill_in() {
    // covers: SCH-OVERLAY-08, SCH-OVERLAY-13
    let heavy = overlay(
        "heavy",
        &[(ZONE, "In", &["a"])],
        json!({"weight": 10, "price": "7", "capacity": {"example.com/a": "1"}}),
    );
    let light = overlay("light", &[], json!({"price": "8", "capacity": {"example.com/a": "2", "example.com/b": "3"}}));
    for order in [[heavy.clone(), light.clone()], [light, heavy]] {
        let (standings, types) = judged(&order);
        assert_eq!(standings.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["heavy", "light"]);
        assert!(standings.iter().all(|(_, standing)| *standing == Standing::Valid), "{standings:?}");
        assert_eq!(prices(&types, "large"), [7.0, 7.0, 8.0, 8.0]);
        let capacity = &types[0].capacity;
        assert_eq!((capacity.get("example.com/a").units(), capacity.get("example.com/b").units()), (1, 3));
    }
}

#[test]
fn two_of_a_weight_may_not_say_something_of_the_same() {
    // covers: SCH-OVERLAY-14, SCH-OVERLAY-15, SCH-OVERLAY-16, SCH-OVERLAY-17, SCH-OVERLAY-18, SCH-GAP-23
    let device = |name: &str| json!({"capacity": {name: "1"}, "weight": 5});
    let both = json!({"price": "1", "capacity": {"example.com/z": "1"}, "weight": 5});
    let price = json!({"price": "1", "weight": 5});
    type Case = (&'static str, Vec<Arc<NodeOverlay>>, &'static [&'static str]);
    let cases: Vec<Case> = vec![
        ("the same price", vec![overlay("a", &[], price.clone()), overlay("b", &[], price.clone())], &["a"]),
        (
            "shadowed by a heavier one",
            vec![
                overlay("a", &[], price.clone()),
                overlay("b", &[], price.clone()),
                overlay("heavy", &[], json!({"price": "9", "weight": 9})),
            ],
            &["a"],
        ),
        (
            "other offerings",
            vec![
                overlay("a", &[(ZONE, "In", &["a"])], price.clone()),
                overlay("b", &[(ZONE, "In", &["b"])], price.clone()),
            ],
            &[],
        ),
        (
            "the same resource",
            vec![overlay("a", &[], device("example.com/x")), overlay("b", &[], device("example.com/x"))],
            &["a"],
        ),
        (
            "other resources",
            vec![overlay("a", &[], device("example.com/x")), overlay("b", &[], device("example.com/y"))],
            &[],
        ),
        (
            "not only the one before",
            vec![
                overlay("c", &[], device("example.com/x")),
                overlay("b", &[], device("example.com/y")),
                overlay("a", &[], device("example.com/x")),
            ],
            &["a"],
        ),
        ("price and capacity", vec![overlay("a", &[], price.clone()), overlay("b", &[], device("example.com/x"))], &[]),
        ("other weights", vec![overlay("a", &[], json!({"price": "1"})), overlay("b", &[], price.clone())], &[]),
        (
            "all or nothing",
            vec![overlay("a", &[(TYPE, "In", &["small"])], both), overlay("b", &[(TYPE, "In", &["small"])], price)],
            &["a"],
        ),
    ];
    for (what, overlays, losers) in cases {
        let (standings, types) = judged(&overlays);
        let lost: Vec<&str> = standings
            .iter()
            .filter(|(_, standing)| *standing == Standing::Conflict)
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(lost, losers, "{what}: {standings:?}");
        assert!(
            types.iter().all(|kind| kind.capacity.get("example.com/z").is_zero()),
            "{what}: nothing of a loser holds"
        );
    }
}

#[test]
fn what_cannot_be_understood_holds_nowhere() {
    // covers: SCH-OVERLAY-04, SCH-OVERLAY-09
    for (requirements, more) in [
        (&[("kubernetes.io/hostname", "In", ["x"].as_slice())][..], json!({"price": "0"})),
        (&[(TYPE, "NotIn", &[])], json!({"price": "0"})),
        (&[], json!({"price": "0", "capacity": {"cpu": "100"}})),
        (&[], json!({"price": "0", "capacity": {"pods": "100"}})),
    ] {
        let (standings, types) = judged(&[overlay("o", requirements, more.clone())]);
        assert!(matches!(standing(&standings, "o"), Standing::Invalid(_)), "{requirements:?} {more}");
        assert_eq!(prices(&types, "large"), UNCHANGED);
    }
}

#[test]
fn the_providers_types_stay_as_they_are() {
    // covers: SCH-OVERLAY-06, SCH-OVERLAY-23, SCH-OVERLAY-25, SCH-OVERLAY-26
    let (one, other) = (pool("one", json!({})), pool("other", json!({})));
    let given = types(&["large", "small"]);
    let before: Vec<InstanceType> = given.iter().map(|kind| (**kind).clone()).collect();
    let only = overlay(
        "o",
        &[(TYPE, "In", &["large"]), ("karpenter.sh/nodepool", "In", &["one"])],
        json!({"price": "0", "capacity": {"hugepages-2Mi": "1Gi"}}),
    );
    let pools = [(one.clone(), given.clone()), (other.clone(), given.clone())];
    let (_, accepted) = evaluate(&[only], &pools, &words());
    let (seen, unseen) = (accepted.apply(&one, &given, &words()), accepted.apply(&other, &given, &words()));
    assert!(given.iter().zip(&before).all(|(kind, before)| **kind == *before));
    assert!(unseen.iter().zip(given.iter()).all(|(a, b)| Arc::ptr_eq(a, b)), "another pool sees what there was");
    assert!(Arc::ptr_eq(&seen[1], &given[1]), "a type nothing is said of is the same");
    assert_eq!(seen[0].requirements, given[0].requirements, "what was added for matching is not in it");
    assert_eq!(seen[0].overhead, given[0].overhead);
    for (changed, kept) in seen[0].offerings.iter().zip(&given[0].offerings) {
        assert_eq!(Offering { price: kept.price, ..changed.clone() }, *kept, "nothing but the price");
    }
    assert_eq!(seen[0].allocatable().get("memory"), "7Gi".parse().unwrap(), "huge pages come out of memory");
}

#[test]
fn the_store_gives_what_was_evaluated_and_says_what_it_changed() {
    // covers: SCH-OVERLAY-22, SCH-OVERLAY-24
    let (pool, other) = (pool("p", json!({})), pool("q", json!({})));
    let list = types(&["large", "small"]);
    let store = Store::new(words());
    assert!(matches!(store.apply("p", &list), Err(crate::TypesError::Unevaluated { pool }) if pool == "p"));
    assert_eq!(store.marks("p", &["small"]), Marks::default());
    let said = [
        overlay("cheap", &[(TYPE, "In", &["small"])], json!({"price": "0.1"})),
        overlay(
            "more",
            &[(TYPE, "In", &["large"]), ("karpenter.sh/nodepool", "In", &["p"])],
            json!({"capacity": {"x.y/z": "1"}}),
        ),
    ];
    let pools = [(pool.clone(), list.clone()), (other.clone(), list.clone())];
    let (_, accepted) = evaluate(&said, &pools, &words());
    store.put(accepted, [&*pool, &*other]);
    let applied = store.apply("p", &list).unwrap();
    assert_eq!(applied[1].offerings[0].price, MicroUsd(100_000));
    let marks = |price, capacity| Marks { price, capacity };
    for (pool, names, want) in [
        ("p", &["small"][..], marks(true, false)),
        ("p", &["large"], marks(false, true)),
        ("p", &["small", "large"], marks(true, true)),
        ("p", &["unknown"], marks(false, false)),
        ("q", &["large"], marks(false, false)),
    ] {
        store.apply(pool, &list).unwrap();
        assert_eq!(store.marks(pool, names), want, "{pool} {names:?}");
    }
    assert!(Arc::ptr_eq(&applied, &store.apply("p", &list).unwrap()), "the same list gives the same answer");
    let news: InstanceTypes = vec![kind("large"), list[1].clone()].into();
    let again = store.apply("p", &news).unwrap();
    assert!(Arc::ptr_eq(&again[1], &applied[1]) && !Arc::ptr_eq(&again[0], &applied[0]), "what has not changed stays");
    let mut metadata = karpenter_api::ObjectMeta::default();
    marks(false, false).annotate(&mut metadata);
    assert_eq!(metadata.annotations, None);
    marks(true, true).annotate(&mut metadata);
    let keys: Vec<String> = metadata.annotations.unwrap().into_keys().collect();
    assert_eq!(keys, ["karpenter.sh/capacity-overlay-applied", "karpenter.sh/price-overlay-applied"]);
}

#[test]
fn a_price_for_named_types_is_known_by_name() {
    // covers: API-NO-10
    let pools = [(pool("p", json!({})), types(&["small"]))];
    let said = [
        overlay("heavy", &[(TYPE, "In", &["new"])], json!({"price": "2", "weight": 5})),
        overlay("light", &[(TYPE, "In", &["new", "newer"])], json!({"price": "1"})),
        overlay("shifted", &[(TYPE, "In", &["other"])], json!({"priceAdjustment": "+1"})),
        overlay("zonal", &[(TYPE, "In", &["zonal"]), (ZONE, "In", &["a"])], json!({"price": "1"})),
    ];
    let (_, accepted) = evaluate(&said, &pools, &words());
    let named: Vec<(&str, u64)> = accepted.named_prices().iter().map(|(name, price)| (&**name, price.0)).collect();
    assert_eq!(named, [("new", 2_000_000), ("newer", 1_000_000)]);
}
