//! Node selection: what pods ask for, what pools and nodes say, and what the types decide.

use karpenter_core::Operator;
use karpenter_core::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE};
use karpenter_core::plan::{PoolReason, Reason};
use karpenter_core::requirement::Expression;
use karpenter_testkit::express::{at_least, at_most, exists, is_absent, is_in, not_in};
use karpenter_testkit::fake::{self, INTEGER, SIZE, SPECIAL, sold};
use karpenter_testkit::{PodBuilder, node, pod, pool, world};

use crate::seen::{roomy, roomy_pool, seen};

fn asking(expression: Expression) -> PodBuilder {
    pod("p").require(vec![expression])
}

#[test]
fn a_custom_label_counts_as_the_pool_defines_it() {
    // covers: SCH-REQ-26, SCH-REQ-27, SCH-REQ-30, SCH-REQ-31
    let undefined = || roomy();
    let defined = || roomy().label("team", "v");
    let listed = || roomy().require(is_in("team", &["v", "w"]));
    for (expression, on_undefined, on_defined, on_listed) in [
        (is_in("team", &["v"]), false, true, true),
        (is_in("team", &["other"]), false, false, false),
        (not_in("team", &["v"]), true, false, true),
        (not_in("team", &["v", "w"]), true, false, false),
        (not_in("team", &["other"]), true, true, true),
        (exists("team"), false, true, true),
        (is_absent("team"), true, false, false),
        (at_least("team", 1), false, false, false),
        (at_most("team", 1), false, false, false),
    ] {
        for (pool, want) in [(undefined(), on_undefined), (defined(), on_defined), (listed(), on_listed)] {
            let labels = format!("{:?} {:?}", pool.0.labels, pool.0.requirements.len());
            let seen = seen(world().pool(pool).pod(asking(expression.clone())));
            assert_eq!(seen.left().is_empty(), want, "{expression:?} on a pool with {labels}");
        }
    }
    let unconstrained = seen(world().pool(defined()).pod(pod("p")));
    assert_eq!(unconstrained.left(), "");
}

#[test]
fn a_number_is_compared_with_what_the_pool_says() {
    // covers: SCH-REQ-03, SCH-REQ-31
    for (least, want) in [(3, ""), (4, ""), (5, "p")] {
        assert_eq!(seen(world().pool(roomy().label("tier", "4")).pod(asking(at_least("tier", least)))).left(), want);
    }
}

#[test]
fn a_well_known_label_is_decided_by_types_and_offerings() {
    // covers: SCH-REQ-30, SCH-REQ-32
    let types = || {
        vec![
            fake::instance_type("little").cpu("2").build(),
            fake::instance_type("big").cpu("16").memory("64Gi").arch("arm64").systems(&["linux"]).build(),
        ]
    };
    for (expression, want) in [
        (is_in(SIZE, &["large"]), "big"),
        (is_in(SIZE, &["huge"]), ""),
        (not_in(SIZE, &["large"]), "little"),
        (exists(SPECIAL), "big"),
        (is_absent(SPECIAL), "little"),
        (at_least(INTEGER, 3), "big"),
        (at_least(INTEGER, 2), "little big"),
        (at_most(INTEGER, 15), "little"),
        (is_in(ARCH, &["arm64"]), "big"),
        (is_in(OS, &["windows"]), "little"),
        (is_in(INSTANCE_TYPE, &["big", "other"]), "big"),
        (is_in(ZONE, &["test-zone-1"]), "little big"),
        (is_in(ZONE, &["elsewhere"]), ""),
        (exists("node.kubernetes.io/windows-build"), "little big"),
    ] {
        let seen = seen(world().pool(pool("default").types(types())).pod(asking(expression.clone())));
        let got = seen.plan.new_nodes.first().map_or(String::new(), |node| seen.type_names(node));
        assert_eq!(got, want, "{expression:?}");
    }
}

#[test]
fn keys_that_types_do_not_know_rule_out_no_type() {
    // covers: SCH-REQ-33
    let types = vec![fake::instance_type("a").build(), fake::instance_type("b").label("team", "red").build()];
    let blue = pool("default").types(types).label("team", "blue").label("tier", "1");
    let seen = seen(world().pool(blue).pod(pod("p").select("tier", "1")));
    assert_eq!(seen.type_names(&seen.plan.new_nodes[0]), "a", "b says team red; tier is known to neither");
}

#[test]
fn one_offering_has_to_satisfy_the_whole_claim() {
    // covers: SCH-REQ-34, SCH-IT-04
    let kind = fake::instance_type("t").offerings(vec![sold("test-zone-1", "spot"), sold("test-zone-2", "on-demand")]);
    let start = || world().pool(pool("default").types(vec![kind.clone().build()]));
    let wants = |zone: &str, capacity: &str| pod("p").zone(zone).select(CAPACITY_TYPE, capacity);
    assert_eq!(seen(start().pod(wants("test-zone-1", "spot"))).left(), "");
    assert_eq!(seen(start().pod(wants("test-zone-2", "on-demand"))).left(), "");
    assert_eq!(seen(start().pod(wants("test-zone-2", "spot"))).left(), "p", "each is offered, not both at once");
}

#[test]
fn selector_first_alternative_and_heaviest_wish_hold_together() {
    // covers: SCH-REQ-21, SCH-REQ-22, SCH-REQ-23
    let pod = pod("p")
        .select("team", "red")
        .require(vec![is_in(ZONE, &["test-zone-1", "test-zone-2"])])
        .require(vec![is_in(ZONE, &["test-zone-3"])])
        .prefer(1, vec![is_in(ARCH, &["arm64"])])
        .prefer(9, vec![is_in(ZONE, &["test-zone-2", "test-zone-3"])])
        .prefer(9, vec![is_in(CAPACITY_TYPE, &["spot"])]);
    let seen = seen(world().pool(roomy().label("team", "red")).pod(pod));
    let node = seen.node_of("p");
    assert_eq!(seen.says(node, "team"), "red");
    assert_eq!(seen.says(node, ZONE), "test-zone-2");
    assert_eq!(seen.says(node, ARCH), "*", "a lighter wish says nothing yet");
    assert_eq!(seen.says(node, CAPACITY_TYPE), "on-demand|spot", "of equal wishes the first listed counts");
}

#[test]
fn constraints_on_one_key_are_intersected() {
    // covers: SCH-REQ-25
    let zones = |values: &[&str]| is_in(ZONE, values);
    for (pool_list, selector, required, want) in [
        (
            vec![zones(&["test-zone-1", "test-zone-2"]), zones(&["test-zone-2", "test-zone-3"])],
            None,
            vec![],
            "test-zone-2",
        ),
        (vec![], Some("test-zone-1"), vec![exists(ZONE)], "test-zone-1"),
        (vec![], None, vec![zones(&["test-zone-1", "test-zone-2"]), not_in(ZONE, &["test-zone-1"])], "test-zone-2"),
        (vec![], Some("test-zone-1"), vec![zones(&["test-zone-2"])], "left"),
        (vec![zones(&["test-zone-1"])], None, vec![zones(&["test-zone-2"])], "left"),
        (vec![zones(&["test-zone-1"]), zones(&["test-zone-2"])], None, vec![], "left"),
    ] {
        let pool = pool_list.iter().cloned().fold(roomy(), |pool, expression| pool.require(expression));
        let mut one = pod("p");
        if let Some(zone) = selector {
            one = one.zone(zone);
        }
        if !required.is_empty() {
            one = one.require(required.clone());
        }
        let seen = seen(world().pool(pool).pod(one));
        let got = seen.plan.new_nodes.first().map_or("left".to_owned(), |node| seen.says(node, ZONE));
        assert_eq!(got, want, "{pool_list:?} {selector:?} {required:?}");
    }
}

#[test]
fn a_pod_that_contradicts_itself_is_left_and_told_the_key() {
    // covers: SCH-GAP-29, SCH-REQ-25
    for second in [not_in("team", &["red"]), is_absent("team"), is_in("team", &["blue"])] {
        let pod = pod("p").select("team", "red").require(vec![second.clone()]);
        let seen = seen(world().pool(roomy()).pool(roomy_pool("red").label("team", "red")).pod(pod));
        assert_eq!(seen.left(), "p", "{second:?}");
        let Reason::Pools(pools) = seen.reason("p") else { panic!("{:?}", seen.reason("p")) };
        let named =
            |(_, reason): &(usize, PoolReason)| matches!(reason, PoolReason::Contradiction { key } if &**key == "team");
        assert!(pools.iter().all(named), "{pools:?}");
    }
    let harmless = pod("p").require(vec![not_in("team", &["red"]), is_absent("team")]);
    assert_eq!(seen(world().pool(roomy()).pod(harmless)).left(), "", "absence satisfies both");
}

#[test]
fn a_claim_that_excludes_a_value_suits_both_who_share_it() {
    // covers: SCH-GAP-30
    let not_red = pod("not-red").cpu("2").require(vec![not_in("team", &["red"])]);
    let blue = pod("blue").cpu("1").require(vec![is_in("team", &["blue"])]);
    let seen = seen(world().pool(roomy()).pod(not_red).pod(blue));
    for node in &seen.plan.new_nodes {
        if node.pods.len() == 2 {
            assert_eq!(node.labels.get("team").map(String::as_str), Some("blue"), "both must select the node");
        }
    }
    assert!(seen.left().is_empty() || seen.left() == "blue");
}

#[test]
fn nodes_are_matched_by_the_labels_they_have() {
    // covers: SCH-REQ-30, SCH-EXIST-05
    let bare = || node("bare");
    for (expression, on_node) in [
        (is_in(ZONE, &["test-zone-1"]), false),
        (exists(ZONE), false),
        (not_in(ZONE, &["test-zone-2"]), true),
        (is_absent(ZONE), true),
    ] {
        let seen = seen(world().pool(roomy()).node(bare()).pod(asking(expression.clone())));
        assert_eq!(seen.on("bare") == "p", on_node, "{expression:?}");
    }
}

#[test]
fn old_spellings_mean_the_same() {
    // covers: SCH-REQ-05
    let old = "failure-domain.beta.kubernetes.io/zone";
    let pool = roomy().require(is_in(old, &["test-zone-1", "test-zone-2"]));
    let seen_new =
        seen(world().pool(pool).pod(pod("p").require(vec![Expression::new(ZONE, Operator::NotIn, &["test-zone-1"])])));
    assert_eq!(seen_new.zones(), "2=1");
    let on_node =
        seen(world().pool(roomy()).node(node("n").label(old, "test-zone-3")).pod(pod("p").zone("test-zone-3")));
    assert_eq!(on_node.on("n"), "p");
    assert_eq!(seen(world().pool(roomy()).pod(pod("p").select("beta.kubernetes.io/arch", "arm64"))).left(), "p");
}
