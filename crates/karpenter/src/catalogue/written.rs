//! A catalogue as the files of a folder: what `--catalog` reads.

use std::fmt::Write;

use jiff::Timestamp;
use karpenter_ec2::catalogue::{TypeFacts, text};
use serde_json::{Value, json};

use super::refresh::Gathered;

/// Names and contents.
pub(super) fn files(gathered: &Gathered, now: Timestamp) -> Vec<(&'static str, String)> {
    let china = gathered.region.starts_with("cn-");
    let on_demand = |currency: &str, shown: bool| {
        let rows = gathered.on_demand.iter().filter(|_| shown);
        let rows = rows.map(|(name, price)| format!("{},{name},{}", gathered.region, dollars(price.dollars())));
        table(&format!("region,instance_type,{currency}_per_hour"), rows)
    };
    let zones = gathered.zones.iter().map(|(name, id)| format!("{},{name},{id}", gathered.region));
    let offerings = gathered.offered.iter().map(|(name, zones)| {
        let ids: Vec<&str> = zones.iter().map(String::as_str).collect();
        format!("{},{name},{}", gathered.region, ids.join(";"))
    });
    let mut all = vec![
        (text::INSTANCE_TYPES, records(&gathered.types, now)),
        (text::ON_DEMAND_PRICES, on_demand("usd", !china)),
        (text::OFFERINGS, table("region,instance_type,zone_ids", offerings)),
        (text::ZONES, table("region,zone,zone_id", zones)),
    ];
    if china {
        all.push((text::ON_DEMAND_PRICES_CN, on_demand("cny", true)));
    }
    if !gathered.spot.is_empty() {
        let rows = gathered.spot.iter().flat_map(|(name, zones)| {
            let row = move |(zone, price): (&std::sync::Arc<str>, &karpenter_core::MicroUsd)| {
                format!("{},{name},{zone},{}", gathered.region, dollars(price.dollars()))
            };
            zones.iter().map(row)
        });
        all.push((text::SPOT_PRICES, table("region,instance_type,zone,usd_per_hour", rows)));
    }
    all
}

fn table(header: &str, rows: impl Iterator<Item = String>) -> String {
    rows.fold(format!("{header}\n"), |mut text, row| {
        text.push_str(&row);
        text.push('\n');
        text
    })
}

/// Millionths are exact in six digits.
fn dollars(price: f64) -> String {
    let text = format!("{price:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One a line.
fn records(types: &[TypeFacts], now: Timestamp) -> String {
    let month: String = now.to_string().chars().take(7).collect();
    let mut out = "[\n".to_owned();
    for (at, facts) in types.iter().enumerate() {
        let comma = if at + 1 < types.len() { "," } else { "" };
        writeln!(out, "{}{comma}", record(facts, &month)).expect("a string takes everything");
    }
    out.push_str("]\n");
    out
}

/// Every key of the format; what we do not keep of EC2's answer is not published here.
fn record(facts: &TypeFacts, month: &str) -> Value {
    let cards: Vec<Value> = facts
        .network_cards
        .iter()
        .map(|card| json!({"max_enis": card.max_enis, "baseline_mbps": null, "peak_mbps": null}))
        .collect();
    let gpus: Vec<Value> = facts
        .gpus
        .iter()
        .map(|gpu| {
            json!({"name": gpu.name, "manufacturer": gpu.manufacturer, "count": gpu.count, "memory_mib": gpu.memory_mib})
        })
        .collect();
    let accelerators: Vec<Value> = facts
        .accelerators
        .iter()
        .map(|device| {
            json!({
                "kind": device.kind.as_str(), "name": device.name, "manufacturer": device.manufacturer,
                "count": device.count, "memory_mib": null, "cores_per_device": device.cores_per_device,
            })
        })
        .collect();
    json!({
        "name": facts.name,
        "as_of": month,
        "arch": facts.arch,
        "cpu_manufacturer": facts.cpu_manufacturer,
        "clock_ghz": facts.clock_mhz.map(|mhz| f64::from(mhz) / 1000.0),
        "cpu_features": facts.cpu_features,
        "vcpus": facts.vcpus,
        "memory_mib": facts.memory_mib,
        "hypervisor": facts.hypervisor,
        "bare_metal": facts.bare_metal,
        "usage_classes": facts.usage_classes.iter().map(|class| class.as_str()).collect::<Vec<_>>(),
        "max_enis": facts.network_cards.iter().map(|card| card.max_enis).sum::<u32>(),
        "ipv4_per_eni": facts.ipv4_per_eni,
        "default_network_card": facts.default_network_card,
        "network_cards": cards,
        "network_mbps": facts.network_mbps,
        "efa_max": facts.efa_max,
        "ena": facts.ena,
        "trunking": facts.branch_limits.map(|limits| limits.trunking),
        "branch_enis": facts.branch_limits.map(|limits| limits.branch_enis),
        "encryption_in_transit": facts.encryption_in_transit,
        "nitro_enclaves": facts.nitro_enclaves,
        "ebs_optimized": facts.ebs_optimized.as_str(),
        "ebs_max_mbps": facts.ebs_max_mbps,
        "local_disk_gb": facts.local_disk_gb,
        "local_nvme_gb": if facts.local_disk_is_nvme { facts.local_disk_gb } else { 0 },
        "gpus": gpus,
        "accelerators": accelerators,
        "placement_strategies": facts.placement_strategies,
    })
}
