//! Launches from types as people say they are.

use std::sync::Arc;

use karpenter_api::{NodeOverlay, NodePool, labels};
use karpenter_aws_sim::Options;
use karpenter_provider::overlay::evaluate;
use karpenter_provider::{CloudProvider, LaunchError, TypesError};
use serde_json::{Value, json};

use crate::lab::{CAPACITY, Lab, TYPE, claim, on_demand, quiet};

/// Judges the overlay, and lets it hold.
async fn apply(lab: &Lab, pool: &NodePool, spec: Value) {
    let overlay: NodeOverlay = serde_json::from_value(json!({"metadata": {"name": "said"}, "spec": spec})).unwrap();
    let types = lab.provider.instance_types(pool).await.unwrap();
    let words = karpenter_ec2::vocabulary();
    let (_, accepted) = evaluate(&[Arc::new(overlay)], &[(Arc::new(pool.clone()), types)], &words);
    assert!(!accepted.is_empty());
    lab.parts.overlays.as_ref().unwrap().put(accepted, [pool]);
}

fn costs(kind: &str, price: &str) -> Value {
    json!({"requirements": [{"key": TYPE, "operator": "In", "values": [kind]}], "price": price})
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_pool_becomes_what_its_overlays_make_cheapest() {
    // covers: AWS-CP-07
    let lab = Lab::with(quiet(1), |settings| settings.node_overlays = true).await;
    let pool = lab.ready().await;
    let refused = lab.provider.create(&on_demand("early")).await.unwrap_err();
    assert!(
        matches!(&refused, LaunchError::Other { source, .. } if source.to_string().contains("evaluated")),
        "{refused:?}"
    );
    apply(&lab, &pool, costs("m5.2xlarge", "0.0001")).await;
    let mut ask = on_demand("chosen");
    // As the provisioner says of a claim that was chosen by such a price.
    ask.metadata
        .annotations
        .get_or_insert_default()
        .insert(labels::PRICE_OVERLAY_APPLIED.to_owned(), "true".to_owned());
    assert_eq!(lab.provider.create(&ask).await.unwrap().instance_type, "m5.2xlarge");
    let mut alone = on_demand("alone");
    alone.metadata.labels = None;
    alone.metadata.annotations = ask.metadata.annotations.clone();
    assert_ne!(lab.provider.create(&alone).await.unwrap().instance_type, "m5.2xlarge", "of no pool");
}

/// m5.large by another name, which no price list knows.
fn with_preview(mut options: Options) -> Options {
    let mut catalogue = (*options.catalogue).clone();
    let mut facts = catalogue.find("m5.large").unwrap().clone();
    facts.name = "m5.preview".into();
    catalogue.types.push(facts);
    catalogue.types.sort_by(|a, b| a.name.cmp(&b.name));
    let region = catalogue.regions.get_mut("us-east-1").unwrap();
    let zones = region.offered["m5.large"].clone();
    region.offered.insert("m5.preview".into(), zones);
    options.catalogue = Arc::new(catalogue);
    options
}

#[tokio::test(start_paused = true)]
async fn a_type_without_a_price_can_be_bought_once_somebody_says_what_it_costs() {
    // covers: API-NO-10
    let lab = Lab::with(with_preview(quiet(1)), |settings| settings.node_overlays = true).await;
    let pool = lab.ready().await;
    let sold = || async {
        let types = lab.provider.instance_types(&pool).await.unwrap();
        let preview = types.iter().find(|kind| &*kind.name == "m5.preview").unwrap();
        let priced = preview.offerings.iter().find(|offering| offering.available);
        priced.map(|offering| offering.price.0)
    };
    assert_eq!(sold().await, None);
    let narrower = json!({"requirements": [{"key": TYPE, "operator": "In", "values": ["m5.preview"]},
        {"key": CAPACITY, "operator": "In", "values": ["on-demand"]}], "price": "0.5"});
    let adjusted = json!({"requirements": costs("m5.preview", "")["requirements"], "priceAdjustment": "+1"});
    let not_in = json!({"requirements": [{"key": TYPE, "operator": "NotIn", "values": ["m5.large"]}], "price": "0.5"});
    for other in [narrower, adjusted, not_in] {
        apply(&lab, &pool, other.clone()).await;
        assert_eq!(sold().await, None, "{other}");
    }
    apply(&lab, &pool, costs("m5.preview", "0.07")).await;
    assert_eq!(sold().await, Some(70_000));
    let ask = claim("new", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m5.preview"])]);
    assert_eq!(lab.provider.create(&ask).await.unwrap().instance_type, "m5.preview");
    let known = lab.provider.instance_types(&pool).await.unwrap();
    let store = lab.parts.overlays.as_ref().unwrap();
    assert!(matches!(store.apply("another", &known), Err(TypesError::Unevaluated { .. })));
}
