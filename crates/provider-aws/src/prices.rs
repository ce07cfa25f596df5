//! Prices: on demand from the price list, spot from its history; bundled ones until they come.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::PricesByZone;
use serde_json::Value;

use crate::calls::{Aws, AwsError, PriceQuery, SpotPrice};

const SPOT_PAGE: u32 = 2000;
const PRODUCT_PAGE: u32 = 100;

#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    #[error(transparent)]
    Aws(#[from] AwsError),
    #[error("{0} brought no prices")]
    Nothing(&'static str),
}

/// On-demand prices of shared tenancy and bare metal; both must bring something, or half the list would seem gone.
pub async fn on_demand(aws: &Aws) -> Result<BTreeMap<Arc<str>, MicroUsd>, PriceError> {
    let shared = query(&aws.region, "Shared", "Compute Instance");
    let metal = query(&aws.region, "Dedicated", "Compute Instance (bare metal)");
    let (shared, metal) =
        futures_util::future::join(aws.pricing.get_products(&shared), aws.pricing.get_products(&metal)).await;
    let (shared, metal) = (parse(&shared?, &aws.region), parse(&metal?, &aws.region));
    if shared.is_empty() {
        return Err(PriceError::Nothing("the price list of shared instances"));
    }
    if metal.is_empty() {
        return Err(PriceError::Nothing("the price list of bare metal"));
    }
    let mut prices = shared;
    prices.extend(metal);
    Ok(prices)
}

fn query(region: &str, tenancy: &str, family: &str) -> PriceQuery {
    let filters = vec![
        ("regionCode", region.to_owned()),
        ("serviceCode", "AmazonEC2".to_owned()),
        ("preInstalledSw", "NA".to_owned()),
        ("operatingSystem", "Linux".to_owned()),
        ("capacitystatus", "Used".to_owned()),
        ("marketoption", "OnDemand".to_owned()),
        ("tenancy", tenancy.to_owned()),
        ("productFamily", family.to_owned()),
    ];
    PriceQuery { filters, max_results: PRODUCT_PAGE }
}

/// What cannot be read is skipped: the list has thousands of items, and one odd one must not hide the rest.
fn parse(items: &[String], region: &str) -> BTreeMap<Arc<str>, MicroUsd> {
    let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
    items.iter().filter_map(|item| parse_item(item, currency)).collect()
}

fn parse_item(item: &str, currency: &str) -> Option<(Arc<str>, MicroUsd)> {
    let item: Value = serde_json::from_str(item).ok()?;
    let instance_type = item.pointer("/product/attributes/instanceType")?.as_str()?;
    let terms = item.pointer("/terms/OnDemand")?.as_object()?.values();
    let dimensions = terms.filter_map(|term| term.get("priceDimensions")?.as_object()).flat_map(|all| all.values());
    let price = |dimension: &Value| {
        let text = dimension.get("pricePerUnit")?.get(currency)?.as_str()?;
        MicroUsd::from_dollars(text.parse().ok()?).filter(|price| price.0 > 0)
    };
    let price = dimensions.filter_map(price).next()?;
    Some((Arc::from(instance_type), price))
}

/// The latest spot prices. No price at all is a failure, not an empty market.
pub async fn spot(aws: &Aws, now: Timestamp) -> Result<PricesByZone, PriceError> {
    let records = aws.ec2.describe_spot_price_history(now, SPOT_PAGE).await?;
    let prices = latest(&records);
    if prices.is_empty() { Err(PriceError::Nothing("the spot price history")) } else { Ok(prices) }
}

fn latest(records: &[SpotPrice]) -> PricesByZone {
    let mut newest: BTreeMap<(&str, &str), (Timestamp, MicroUsd)> = BTreeMap::new();
    for record in records {
        let price = record.price.parse().ok().and_then(MicroUsd::from_dollars);
        let (Some(at), Some(price)) = (record.timestamp, price) else { continue };
        let held = newest.entry((&record.instance_type, &record.zone)).or_insert((at, price));
        if held.0 < at {
            *held = (at, price);
        }
    }
    let mut prices = PricesByZone::new();
    for ((instance_type, zone), (_, price)) in newest {
        prices.entry(Arc::from(instance_type)).or_default().insert(Arc::from(zone), price);
    }
    prices
}

/// Whether the price list may be asked: it has no private endpoint, and does not know the government's regions.
pub fn has_price_list(region: &str, isolated_vpc: bool) -> bool {
    !isolated_vpc && !region.starts_with("us-gov")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn product(name: &str, price: &str) -> String {
        json!({
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"x.y": {"priceDimensions": {"x.y.z": {"pricePerUnit": {"USD": price, "CNY": "7"}}}}}},
        })
        .to_string()
    }

    #[test]
    fn products_are_read_one_by_one() {
        // covers: AWS-PRICE-05
        let items = [
            product("m5.large", "0.0960000000"),
            product("free", "0.0000000000"),
            "broken".to_owned(),
            "{}".to_owned(),
            product("c5.large", "0.085"),
            product("odd", "cheap"),
        ];
        let found = parse(&items, "us-east-1");
        let want = [("c5.large", 85_000), ("m5.large", 96_000)];
        assert_eq!(found, want.into_iter().map(|(name, price)| (Arc::from(name), MicroUsd(price))).collect());
        assert_eq!(parse(&items, "cn-north-1")["m5.large"], MicroUsd(7_000_000));
    }

    #[test]
    fn the_price_list_is_asked_twice() {
        // covers: AWS-PRICE-04
        let shared = query("eu-west-1", "Shared", "Compute Instance");
        assert_eq!(shared.max_results, 100);
        let get = |key: &str| shared.filters.iter().find(|(name, _)| *name == key).unwrap().1.as_str();
        let got = ["regionCode", "serviceCode", "preInstalledSw", "operatingSystem", "capacitystatus", "marketoption"]
            .map(get);
        assert_eq!(got, ["eu-west-1", "AmazonEC2", "NA", "Linux", "Used", "OnDemand"]);
        assert_eq!((get("tenancy"), get("productFamily")), ("Shared", "Compute Instance"));
    }

    #[test]
    fn the_latest_spot_price_counts() {
        // covers: AWS-PRICE-09
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let record = |zone: &str, price: &str, timestamp| SpotPrice {
            instance_type: "m5.large".into(),
            zone: zone.into(),
            price: price.into(),
            timestamp,
        };
        let found = latest(&[
            record("a", "0.02", at(5)),
            record("a", "0.03", at(9)),
            record("a", "0.04", at(7)),
            record("b", "0.05", None),
            record("c", "dear", at(1)),
        ]);
        assert_eq!(found, [(Arc::from("m5.large"), [(Arc::from("a"), MicroUsd(30_000))].into())].into());
    }

    #[test]
    fn some_places_have_no_price_list() {
        // covers: AWS-PRICE-08
        for (region, isolated, want) in
            [("us-east-1", false, true), ("us-east-1", true, false), ("us-gov-west-1", false, false)]
        {
            assert_eq!(has_price_list(region, isolated), want, "{region} {isolated}");
        }
    }
}
