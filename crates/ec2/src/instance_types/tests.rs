use super::*;
use crate::catalogue::{SpotPrices, builtin};
use crate::nodeclass::json;
use crate::testing::{REGION, all, amount, facts, quantity, resolved_with};

#[test]
fn types_are_sorted_priced_and_offered() {
    let types = all(&NodeClassFacts::default());
    assert!(types.is_sorted_by(|a, b| a.name < b.name));
    let region = &builtin::catalogue().regions[REGION];
    for instance_type in &types {
        assert!(region.on_demand.contains_key(&instance_type.name) && region.offered.contains_key(&instance_type.name));
    }
    assert!(!types.iter().any(|t| t.name.starts_with("mac")));
}

#[test]
fn types_that_nothing_sells_are_still_listed() {
    // covers: AWS-IT-09
    let region = RegionFacts { spot: SpotPrices::LikeOnDemand, ..builtin::catalogue().regions[REGION].clone() };
    let unpriced = RegionFacts { on_demand: [].into(), ..region };
    let place = Place { name: REGION, facts: &unpriced };
    let types = resolve(
        &[facts("m5.large")],
        place,
        &NodeClassFacts::default(),
        &Ec2Settings::default(),
        &Circumstances::default(),
    );
    let types = types.unwrap();
    assert_eq!(types.len(), 1);
    assert!(types[0].offerings.iter().all(|offering| !offering.available));
}

#[test]
fn nothing_is_listed_without_subnets_types_or_offers() {
    // covers: AWS-IT-05
    let list = |catalogue: &Catalogue, class: &NodeClassFacts| {
        instance_types(catalogue, REGION, class, &Ec2Settings::default()).unwrap_err()
    };
    let no_subnets = NodeClassFacts { subnets: Some(Vec::new()), ..NodeClassFacts::default() };
    assert_eq!(list(builtin::catalogue(), &no_subnets), InstanceTypesError::NoSubnets);
    let mut no_types = builtin::catalogue().clone();
    no_types.types.clear();
    assert!(matches!(
        list(&no_types, &NodeClassFacts::default()),
        InstanceTypesError::Region(RegionError::NothingForSale { .. })
    ));
    let mut no_offers = builtin::catalogue().clone();
    no_offers.regions.get_mut(REGION).unwrap().offered.clear();
    assert!(matches!(
        list(&no_offers, &NodeClassFacts::default()),
        InstanceTypesError::Region(RegionError::NothingForSale { .. })
    ));
}

#[test]
fn memory_seen_on_a_node_takes_the_place_of_the_estimate() {
    let circumstances = Circumstances {
        discovered_memory: [("m5.large".into(), quantity("7500Mi"))].into(),
        ..Circumstances::default()
    };
    let kubelet = json::facts(&serde_json::json!({"spec": {"kubelet": {"evictionHard": {"memory.available": "10%"}}}}));
    let class = kubelet.unwrap();
    let found = resolved_with("m5.large", &class, &Ec2Settings::default(), &circumstances);
    assert_eq!(amount(&found.capacity, "memory"), "7500Mi");
    let estimate = resolved_with("m5.large", &class, &Ec2Settings::default(), &Circumstances::default());
    assert_eq!(found.overhead, estimate.overhead, "percentages are of the estimate");
}

#[test]
fn answers_are_the_same_every_time() {
    let class = NodeClassFacts::default();
    assert_eq!(all(&class), all(&class));
}
