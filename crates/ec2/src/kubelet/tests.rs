use serde_json::{Value, json};

use super::*;
use crate::nodeclass::json::facts as class_facts;
use crate::testing::{amount, facts, resolved_with};
use crate::{Circumstances, InstanceTypesError};

fn class(kubelet: Value) -> NodeClassFacts {
    class_facts(&json!({"spec": {"kubelet": kubelet}})).unwrap()
}

fn gate(kubelet_expressions: bool) -> Ec2Settings {
    Ec2Settings { kubelet_expressions, ..Ec2Settings::default() }
}

fn on(kubelet: Value, name: &str) -> Result<Resolved, ExpressionError> {
    resolve(&facts(name), &class(kubelet), &gate(true), &Formulas::new())
}

#[test]
fn a_setting_may_be_a_formula_over_the_type() {
    // covers: AWS-KC-11, AWS-KC-12, API-EC2-30
    // m5.xlarge: 4 vCPUs, 16 GiB, 4 interfaces with 15 addresses.
    for (source, want) in [
        ("vcpus * 10", 40),
        ("memory_mib / 1024", 16),
        ("default_enis * 100 + ips_per_eni", 415),
        ("instance_type == 'm5.xlarge' ? 7 : 8", 7),
        ("min(110, max_pods)", 58),
        ("max(58.9, 1)", 58),
    ] {
        assert_eq!(on(json!({"maxPods": source}), "m5.xlarge").unwrap().max_pods, Some(want), "{source}");
    }
}

#[test]
fn the_pods_of_a_formula_are_the_default_and_then_what_came_of_it() {
    // covers: AWS-KC-13
    let kubelet = json!({"maxPods": "max_pods / 2", "kubeReserved": {"memory": "max_pods * 16", "pid": "max_pods"}});
    let found = on(kubelet, "m5.xlarge").unwrap();
    assert_eq!(found.max_pods, Some(29));
    assert_eq!(found.kube_reserved["memory"], "464Mi".parse().unwrap());
    assert_eq!(found.kube_reserved["pid"], "29".parse().unwrap());
    let plain = on(json!({"kubeReserved": {"pid": "max_pods + 0"}}), "m5.xlarge").unwrap();
    assert_eq!((plain.max_pods, plain.kube_reserved["pid"]), (None, "58".parse().unwrap()));
}

#[test]
fn pods_are_a_count_that_fits_the_api() {
    // covers: AWS-KC-14
    for source in ["0 - 1", "2147483648", "1.0 / 0.0", "0.0 / 0.0", "vcpus / 0"] {
        let refused = on(json!({"maxPods": source}), "m5.large").unwrap_err();
        assert_eq!((refused.field.as_str(), refused.instance_type.as_str()), ("maxPods", "m5.large"), "{source}");
    }
    assert_eq!(on(json!({"maxPods": "2147483647"}), "m5.large").unwrap().max_pods, Some(i32::MAX));
    assert_eq!(on(json!({"maxPods": "0"}), "m5.large").unwrap().max_pods, Some(0));
}

#[test]
fn what_is_reserved_is_rounded_up_in_its_unit() {
    // covers: AWS-KC-15, API-EC2-31
    let reserved = |resource: &str, source: &str| {
        let found = on(json!({"systemReserved": {resource: source}}), "m5.large").unwrap();
        found.system_reserved[resource].to_string()
    };
    assert_eq!(reserved("cpu", "471 + 0"), "480m");
    assert_eq!(reserved("cpu", "480 + 0"), "480m");
    assert_eq!(reserved("memory", "625.9 + 0.0"), "640Mi");
    assert_eq!(reserved("ephemeral-storage", "2 + 1"), "3Gi");
    assert_eq!(reserved("pid", "1000 + 1"), "1001");
    let refused = on(json!({"kubeReserved": {"cpu": "0 - vcpus"}}), "m5.large").unwrap_err();
    assert_eq!(refused.field, "kubeReserved[cpu]");
}

#[test]
fn the_scheduler_counts_on_what_came_of_the_formulas() {
    // covers: AWS-KC-16
    let class = class(json!({"maxPods": "vcpus * 5", "kubeReserved": {"cpu": "vcpus * 33"}}));
    let kind = resolved_with("m5.xlarge", &class, &gate(true), &Circumstances::default());
    let told = resolve(&facts("m5.xlarge"), &class, &gate(true), &Formulas::new()).unwrap();
    assert_eq!(amount(&kind.capacity, "pods"), told.max_pods.unwrap().to_string());
    assert_eq!(kind.overhead.kube_reserved.get("cpu"), told.kube_reserved["cpu"]);
    assert_eq!(told.kube_reserved["cpu"].to_string(), "140m");
}

#[test]
fn without_the_gate_formulas_count_as_not_set() {
    // covers: AWS-KC-17
    let kubelet = json!({"maxPods": "no formula at all", "kubeReserved": {"cpu": "vcpus * 10", "memory": "1Gi"}});
    let found = resolve(&facts("m5.xlarge"), &class(kubelet), &gate(false), &Formulas::new()).unwrap();
    assert_eq!(found.max_pods, None);
    assert_eq!(found.kube_reserved, [("memory".to_owned(), "1Gi".parse().unwrap())].into());
}

#[test]
fn one_type_that_cannot_be_resolved_fails_the_whole_list() {
    // covers: AWS-IT-08
    let class = class(json!({"maxPods": "100 / (vcpus - 2)"}));
    let types = [facts("m5.xlarge"), facts("m5.large")];
    let region = &crate::catalogue::builtin::catalogue().regions[crate::testing::REGION];
    let place = crate::Place { name: crate::testing::REGION, facts: region };
    let refused = crate::resolve(&types, place, &class, &gate(true), &Circumstances::default()).unwrap_err();
    let InstanceTypesError::Expression(refused) = refused else { panic!("{refused}") };
    assert_eq!((refused.instance_type.as_str(), refused.field.as_str()), ("m5.large", "maxPods"));
}
