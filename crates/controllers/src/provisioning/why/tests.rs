use std::sync::Arc;

use karpenter_core::labels::Vocabulary;
use karpenter_core::settings::Settings;
use karpenter_core::{Pool, Resources};

use super::*;

fn world(pools: &[&str]) -> World {
    let pool = |name: &&str| Pool {
        name: (*name).into(),
        weight: 0,
        labels: Default::default(),
        node_class_label: ("c".into(), "d".into()),
        taints: Vec::new(),
        requirements: Vec::new(),
        limits: Resources::new(),
        instance_types: Arc::from([]),
    };
    World {
        now: jiff::Timestamp::UNIX_EPOCH,
        settings: Settings::default(),
        vocabulary: Arc::new(Vocabulary::kubernetes()),
        pools: pools.iter().map(pool).collect(),
        nodes: Vec::new(),
        pods: Vec::new(),
        daemon_sets: Vec::new(),
        namespaces: Default::default(),
        storage: Default::default(),
        services: Vec::new(),
        workload_selectors: Default::default(),
        disruption_budgets: Vec::new(),
    }
}

fn failure(met: [bool; 3], pairs: [bool; 3]) -> TypeFailure {
    let requests: Resources = [("cpu", "2".parse().unwrap()), ("memory", "1Gi".parse().unwrap())].into_iter().collect();
    TypeFailure {
        requirements_met: met[0],
        fits: met[1],
        has_offering: met[2],
        requirements_and_fits: pairs[0],
        requirements_and_offering: pairs[1],
        fits_and_offering: pairs[2],
        requirements: "zone In [a]".to_owned(),
        requests: (requests.clone(), requests),
        suspicious_cpu: false,
    }
}

#[test]
fn a_type_failure_says_which_criteria_no_type_met() {
    // covers: SCH-ERR-06
    let (none, all) = ([false; 3], [true; 3]);
    for (met, pairs, want) in [
        (
            [false, false, false],
            none,
            "no instance type meets the requirements, or is large enough, or has an offering that fits",
        ),
        ([false, false, true], none, "no instance type meets the requirements, or is large enough"),
        ([true, false, false], none, "no instance type is large enough, or has an offering that fits"),
        ([false, true, true], none, "no instance type meets the requirements"),
        ([true, false, true], none, "no instance type is large enough"),
        ([true, true, false], none, "no instance type has an offering that fits"),
        (
            all,
            [true, false, false],
            "no instance type that meets the requirements and is large enough has an offering that fits",
        ),
        (
            all,
            [false, true, false],
            "no instance type that meets the requirements and has an offering that fits is large enough",
        ),
        (
            all,
            [false, false, true],
            "no instance type that is large enough and has an offering that fits meets the requirements",
        ),
        (all, none, "no instance type meets the requirements, is large enough and has an offering that fits at once"),
    ] {
        let text = types(&failure(met, pairs));
        let want = format!("{want} (requirements: zone In [a]; needed with daemons: cpu 2, memory 1Gi)");
        assert_eq!(text, want, "{met:?} {pairs:?}");
    }
}

#[test]
fn groups_of_daemons_give_a_range() {
    // covers: SCH-DS-13
    let mut failure = failure([true, false, true], [false; 3]);
    failure.requests.1.set("cpu", "3".parse().unwrap());
    assert!(types(&failure).contains("at least cpu 2, memory 1Gi, at most cpu 3, memory 1Gi"), "{}", types(&failure));
}

#[test]
fn a_million_cpus_are_taken_for_a_typo() {
    // covers: SCH-ERR-07
    let mut failure = failure([true, false, true], [false; 3]);
    assert!(!types(&failure).contains("m meant"));
    failure.suspicious_cpu = true;
    assert!(types(&failure).contains("was m meant instead of M?"));
}

#[test]
fn each_pool_is_named_with_its_own_reason() {
    // covers: SCH-ERR-08, SCH-ERR-09
    let world = world(&["general", "gpu"]);
    let reasons = vec![
        (0, PoolReason::Limit { resource: "cpu".to_owned() }),
        (1, PoolReason::MinValues { keys: vec!["karpenter.k8s.aws/instance-family".into()] }),
    ];
    let both = Reason::Pools(reasons);
    assert_eq!(
        reason(&world, &both),
        "NodePool general: every instance type would exceed the limit of cpu; NodePool gpu: minValues cannot be met for \
         karpenter.k8s.aws/instance-family"
    );
    assert_eq!(code(&both), "NoNodePoolFits");
    assert_eq!(code(&Reason::Pools(vec![(0, PoolReason::HostPort), (1, PoolReason::HostPort)])), "HostPort");
}

#[test]
fn long_lists_are_cut() {
    // covers: SCH-ERR-19
    let keys: Vec<Arc<str>> = (0..7).map(|i| format!("key-{i}").into()).collect();
    let text = pool_reason(&PoolReason::Incompatible { keys, undefined: None, hint: None });
    assert_eq!(text, "requirements have nothing in common on key-0, key-1, key-2, key-3, key-4 and 2 more");
}

#[test]
fn an_undefined_label_comes_with_a_hint() {
    let reason = PoolReason::Incompatible {
        keys: vec!["a".into()],
        undefined: Some("zone".into()),
        hint: Some("topology.kubernetes.io/zone".into()),
    };
    assert_eq!(
        pool_reason(&reason),
        "the label zone is asked for and not defined, did you mean topology.kubernetes.io/zone?, and requirements have nothing in common on a"
    );
}

#[test]
fn topology_is_told_with_its_counts() {
    // covers: SCH-TOPO-55
    let constraint = TopologyConstraint {
        kind: TopologyKind::Spread,
        key: "zone".into(),
        counts: vec![("a".into(), 2), ("b".into(), 1)],
        pod_domains: "Exists".to_owned(),
        node_domains: "In [a]".to_owned(),
    };
    assert_eq!(
        topology(&constraint),
        "topology spread over zone cannot be met (counts a: 2, b: 1; the pod allows Exists, the node In [a])"
    );
}
