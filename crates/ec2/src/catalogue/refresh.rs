//! Newer prices over older ones. A refresh may be partial, so what it does not mention keeps its price; one that
//! brings nothing at all is a failure and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::MicroUsd;

use super::{PricesByZone, RegionFacts};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the refresh brought no prices")]
pub struct NoPrices;

impl RegionFacts {
    pub fn merge_on_demand(&mut self, newer: BTreeMap<Arc<str>, MicroUsd>) -> Result<(), NoPrices> {
        if newer.is_empty() {
            return Err(NoPrices);
        }
        self.on_demand.extend(newer);
        Ok(())
    }

    /// After the first refresh only what it and later ones list has a spot price.
    pub fn merge_spot(&mut self, newer: PricesByZone) -> Result<(), NoPrices> {
        if newer.values().all(BTreeMap::is_empty) {
            return Err(NoPrices);
        }
        let known = self.spot.known_mut();
        for (instance_type, zones) in newer {
            known.entry(instance_type).or_default().extend(zones);
        }
        Ok(())
    }
}

/// The region whose endpoint serves the price list: there are only a few.
pub fn price_list_endpoint(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SpotPrices;

    fn prices(items: &[(&str, u64)]) -> BTreeMap<Arc<str>, MicroUsd> {
        items.iter().map(|(name, micro)| (Arc::from(*name), MicroUsd(*micro))).collect()
    }

    #[test]
    fn what_a_refresh_does_not_mention_keeps_its_price() {
        // covers: AWS-PRICE-06
        let mut region = RegionFacts { on_demand: prices(&[("a", 1), ("b", 2)]), ..RegionFacts::default() };
        region.merge_on_demand(prices(&[("b", 3), ("c", 4)])).unwrap();
        assert_eq!(region.on_demand, prices(&[("a", 1), ("b", 3), ("c", 4)]));
        assert_eq!(region.merge_on_demand(prices(&[])), Err(NoPrices));
        assert_eq!(region.on_demand.len(), 3);
    }

    #[test]
    fn spot_prices_are_merged_by_type_and_zone() {
        // covers: AWS-PRICE-02, AWS-PRICE-10, AWS-PRICE-11
        let mut region = RegionFacts {
            on_demand: prices(&[("a", 100), ("b", 100)]),
            spot: SpotPrices::LikeOnDemand,
            ..RegionFacts::default()
        };
        assert_eq!(region.merge_spot([("a".into(), prices(&[]))].into()), Err(NoPrices));
        assert_eq!(region.spot_price("a", "z1"), Some(MicroUsd(100)), "nothing has been learnt yet");
        region.merge_spot([("a".into(), prices(&[("z1", 10), ("z2", 20)]))].into()).unwrap();
        region.merge_spot([("a".into(), prices(&[("z2", 25), ("z3", 30)]))].into()).unwrap();
        let found = ["z1", "z2", "z3", "z4"].map(|zone| region.spot_price("a", zone));
        assert_eq!(found, [Some(MicroUsd(10)), Some(MicroUsd(25)), Some(MicroUsd(30)), None]);
        assert_eq!(region.spot_price("b", "z1"), None);
    }

    #[test]
    fn price_lists_are_served_from_a_few_regions() {
        // covers: AWS-PRICE-07
        for (region, want) in [
            ("ap-southeast-2", "ap-south-1"),
            ("cn-north-1", "cn-northwest-1"),
            ("eu-west-1", "eu-central-1"),
            ("us-west-2", "us-east-1"),
            ("sa-east-1", "us-east-1"),
            ("af-south-1", "us-east-1"),
        ] {
            assert_eq!(price_list_endpoint(region), want, "{region}");
        }
    }
}
