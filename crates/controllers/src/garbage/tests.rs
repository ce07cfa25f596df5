use super::*;
use karpenter_api::Time;
use karpenter_core::Resources;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn claim(id: &str, registered: bool) -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.name = Some(id.to_owned());
    claim.status.get_or_insert_default().provider_id = Some(id.to_owned());
    if registered {
        claim.conditions_at(at(0)).set_true(REGISTERED);
    }
    claim
}

fn machine(id: &str, launched: i64, deleting: bool) -> Machine {
    Machine {
        provider_id: id.to_owned(),
        image_id: String::new(),
        labels: Default::default(),
        annotations: Default::default(),
        capacity: Resources::new(),
        allocatable: Resources::new(),
        instance_type: String::new(),
        zone: String::new(),
        capacity_type: String::new(),
        launched_at: at(launched),
        deleting,
        node_claim: None,
        node_pool: None,
        node_class: None,
        cluster: None,
    }
}

#[test]
fn registered_claims_without_a_machine_are_suspects() {
    // covers: LC-GC-01
    let deleting = {
        let mut claim = claim("deleting", true);
        claim.metadata.deletion_timestamp = Some(Time(at(0)));
        claim
    };
    let claims = vec![
        claim("alive", true),
        claim("gone", true),
        claim("going", true),
        claim("unregistered", false),
        claim("", true),
        deleting,
    ];
    let claims: Vec<Arc<NodeClaim>> = claims.into_iter().map(Arc::new).collect();
    let machines = [machine("alive", 0, false), machine("going", 0, true)];
    let found: Vec<_> =
        suspects(&claims, &machines).iter().map(|claim| claim.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(found, ["gone", "going"]);
}

#[test]
fn a_kubelet_that_reports_spares_its_claim() {
    // covers: LC-GC-02
    let node = |status: &str| -> Node {
        serde_json::from_value(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})).unwrap()
    };
    assert!(is_spared(Matches::One(&node("True"))));
    assert!(!is_spared(Matches::One(&node("Unknown"))));
    assert!(!is_spared(Matches::One(&node("False"))));
    assert!(!is_spared(Matches::None));
    assert!(!is_spared(Matches::Several));
}

#[test]
fn machines_that_no_claim_holds_are_leaks_after_half_a_minute() {
    // covers: LC-GC-07, AWS-GC-01, CP-B2, CP-B3, CP-E13, CP-J1
    let machines = [
        machine("held", 0, false),
        machine("held-by-a-deleting-claim", 0, false),
        machine("young", 71, false),
        machine("just-old-enough-to-be-young", 70, false),
        machine("old", 69, false),
        machine("old-and-going", 0, true),
    ];
    let ids = BTreeSet::from(["held".to_owned(), "held-by-a-deleting-claim".to_owned()]);
    let holders = Holders { ids, ..Holders::default() };
    let found: Vec<_> =
        leaks(&machines, &holders, at(100)).iter().map(|machine| machine.provider_id.as_str()).collect();
    assert_eq!(found, ["old"]);
}

#[test]
fn a_machine_that_a_claim_is_about_to_adopt_is_no_leak() {
    // covers: LC-GC-07
    let waiting = |name: &str, pool: &str, created: i64| {
        let mut claim = claim("", false);
        claim.metadata.name = Some(name.to_owned());
        claim.metadata.labels = Some([("karpenter.sh/nodepool".to_owned(), pool.to_owned())].into());
        claim.metadata.creation_timestamp = Some(Time(at(created)));
        claim
    };
    let of = |pool: Option<&str>, named: Option<&str>| Machine {
        node_pool: pool.map(str::to_owned),
        node_claim: named.map(str::to_owned),
        ..machine("i", 40, false)
    };
    for (machine, claim, leaks_then) in [
        (of(Some("p"), None), waiting("c", "p", 39), false),
        // It was created after the machine was launched, and by more than clocks differ.
        (of(Some("p"), None), waiting("c", "p", 70), false),
        (of(Some("p"), None), waiting("c", "p", 71), true),
        (of(Some("p"), None), waiting("c", "q", 39), true),
        (of(None, None), waiting("c", "q", 39), false),
        (of(Some("p"), Some("c")), waiting("c", "p", 99), false),
        (of(Some("p"), Some("d")), waiting("c", "p", 39), true),
    ] {
        let machines = [machine];
        let holders = Holders { launching: vec![Arc::new(claim.clone())], ..Holders::default() };
        let found = leaks(&machines, &holders, at(10_000));
        assert_eq!(!found.is_empty(), leaks_then, "{machines:?} for {claim:?}");
    }
    let mut going = waiting("c", "p", 39);
    assert!(is_launching(&going));
    going.metadata.deletion_timestamp = Some(Time(at(50)));
    assert!(!is_launching(&going));
    assert!(!is_launching(&claim("i", false)), "it has its machine");
}

#[test]
fn leaks_are_looked_for_eagerly_after_the_start() {
    // covers: LC-GC-07, AWS-GC-03
    for (sweeps, want) in [(1, 10), (20, 10), (21, 120), (1_000, 120)] {
        assert_eq!(leak_sweep_pause(sweeps), Duration::from_secs(want), "{sweeps}");
    }
}

#[test]
fn a_claim_that_cannot_be_read_holds_a_machine() {
    let of_claim = |name: Option<&str>| Machine { node_claim: name.map(str::to_owned), ..machine("i-1", 0, false) };
    let claim = |name: &str, id: Option<&str>| {
        let object = json!({"metadata": {"name": name}, "status": {"providerID": id}});
        Arc::new(Unreadable::of(Kind::NodeClaim, &object.to_string(), "it makes no sense"))
    };
    for (unreadable, machine, held) in [
        (claim("a", Some("i-1")), of_claim(None), true),
        (claim("a", Some("i-1")), of_claim(Some("b")), true),
        (claim("a", Some("i-2")), of_claim(Some("a")), true),
        (claim("a", None), of_claim(Some("a")), true),
        (claim("a", Some("i-2")), of_claim(None), false),
        (claim("a", Some("i-2")), of_claim(Some("b")), false),
        (claim("a", None), of_claim(Some("b")), false),
        // Neither says anything of the other.
        (claim("a", None), of_claim(None), true),
    ] {
        let machines = [machine];
        let holders = Holders { unreadable: vec![unreadable.clone()], ..Holders::default() };
        assert_eq!(leaks(&machines, &holders, at(100)).is_empty(), held, "{unreadable:?} {:?}", machines[0].node_claim);
    }
}
