use super::*;
use crate::NodeClassFacts;
use crate::nodeclass::Subnet;
use crate::testing::{resolved, subnet};

fn class() -> NodeClassFacts {
    let subnets: Vec<Subnet> = vec![subnet("s", "us-east-1a", Some("use1-az2"))];
    NodeClassFacts { subnets: Some(subnets), ..NodeClassFacts::default() }
}

#[test]
fn a_line_has_labels_requirements_and_quantities() {
    let line = json_line(&resolved("m5.large", &class()), Offerings::Hidden);
    assert!(!line.contains('\n'));
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "labels", "requirements", "capacity", "overhead", "allocatable"]);
    assert_eq!(value["labels"]["topology.kubernetes.io/zone"], "us-east-1a");
    assert_eq!(value["requirements"]["karpenter.sh/capacity-type"], serde_json::json!(["on-demand", "spot"]));
    assert_eq!(
        value["capacity"],
        serde_json::json!({"cpu": "2", "ephemeral-storage": "20Gi", "memory": "7577Mi", "pods": "29",
            "vpc.amazonaws.com/pod-eni": "9"}),
        "zeros are left out"
    );
    assert_eq!(value["overhead"]["systemReserved"], serde_json::json!({}));
    assert_eq!(value["allocatable"]["cpu"], "1930m");
}

#[test]
fn offerings_come_when_asked_for() {
    let line = json_line(&resolved("m5.large", &class()), Offerings::Shown);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        value["offerings"][0],
        serde_json::json!({"zone": "us-east-1a", "capacityType": "on-demand", "pricePerHour": 0.096, "available": true})
    );
    assert_eq!(value["offerings"].as_array().unwrap().len(), 12);
    assert_eq!(dollars(MicroUsd(2_000_000)).to_string(), "2");
    assert_eq!(dollars(MicroUsd(0)).to_string(), "0");
}

#[test]
fn exponents_are_not_shown() {
    let list: Resources = [("memory", "12e6".parse().unwrap())].into_iter().collect();
    assert_eq!(quantities(&list)["memory"], "12000000");
}

#[test]
fn the_table_lines_up() {
    let types = [resolved("g4dn.metal", &class()), resolved("m5.large", &NodeClassFacts::default())];
    assert_lines(
        &table(&types, Offerings::Hidden),
        &[
            "NAME        ARCH   VCPU     CPU   MEMORY    DISK  PODS  DEVICES   ON-DEMAND     SPOT  ZONES",
            "g4dn.metal  amd64    96  95690m  346.9Gi  17.0Gi   737  8 nvidia    $7.8240  $3.1296  us-east-1a",
            "m5.large    amd64     2   1930m    6.7Gi  17.0Gi    29              $0.0960  $0.0384  us-east-1abcdf",
        ],
    );
    let with_offerings = table(&types[..1], Offerings::Shown);
    let line = with_offerings.lines().nth(4).unwrap();
    assert_eq!(line, "    us-east-1b       on-demand    $7.8240  unavailable");
}

fn assert_lines(found: &str, want: &[&str]) {
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, want);
}
