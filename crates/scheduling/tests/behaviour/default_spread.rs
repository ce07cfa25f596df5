//! The cluster's default spread constraints.

use karpenter_core::labels::ZONE;
use karpenter_core::pod::{NodePolicy, WhenUnsatisfiable};
use karpenter_core::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_core::settings::{DefaultSpread, PreferencePolicy};
use karpenter_testkit::express::selecting;
use karpenter_testkit::pod::owner_uid;
use karpenter_testkit::{PodBuilder, WorldBuilder, pod, world};

use crate::seen::{WEB, crowds, roomy_in, roomy_pool, seen};

fn over_zones() -> DefaultSpread {
    DefaultSpread {
        topology_key: ZONE.to_owned(),
        max_skew: 1,
        min_domains: None,
        when: WhenUnsatisfiable::DoNotSchedule,
        node_affinity: NodePolicy::Honor,
        node_taints: NodePolicy::Ignore,
    }
}

/// Two zones; in the first a pod of the web runs. Who spreads goes to the second.
fn start(defaults: Vec<DefaultSpread>) -> WorldBuilder {
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
    crowds(start, &[("1", 1), ("2", 0)]).settings(move |settings| settings.default_spread = defaults)
}

fn web() -> PodBuilder {
    pod("p").app("web")
}

fn spreads(world: WorldBuilder) -> bool {
    match seen(world).zones().as_str() {
        "2=1" => true,
        "*=1" => false,
        other => panic!("{other}"),
    }
}

fn selector_of(mut world: WorldBuilder, kind: &str, name: &str, selector: Selector) -> WorldBuilder {
    world.0.workload_selectors.insert(owner_uid(kind, name).into(), selector);
    world
}

#[test]
fn a_pod_of_a_service_gets_the_defaults() {
    // covers: SCH-TDEF-05, SCH-TDEF-06, SCH-TDEF-07, SCH-TDEF-10
    let with = |service: Option<&[(&str, &str)]>| start(vec![over_zones()]).service("s", service).pod(web());
    assert!(!spreads(start(vec![over_zones()]).pod(web())), "nothing to derive a selector from");
    assert!(spreads(with(Some(WEB))));
    assert!(!spreads(with(Some(&[("app", "other")]))), "does not match the pod");
    assert!(!spreads(with(None)), "a Service without selector contributes nothing");
    assert!(!spreads(with(Some(&[]))), "one with an empty selector adds no labels");
    let mut elsewhere = with(Some(WEB));
    elsewhere.0.services[0].namespace = "other".into();
    assert!(!spreads(elsewhere), "another namespace's");
    assert!(!spreads(start(vec![]).service("s", Some(WEB)).pod(web())), "no defaults, no spread");
}

#[test]
fn a_job_and_a_bare_pod_are_defaulted_through_services_alone() {
    // covers: SCH-TDEF-08, SCH-TDEF-10
    for (api, kind) in
        [("batch/v1", "Job"), ("example.com/v1", "Custom"), ("example.com/v1", "ReplicaSet"), ("apps/v1", "Deployment")]
    {
        let owned = || web().owned_by(api, kind, "o");
        let known = |world| selector_of(world, kind, "o", selecting(WEB));
        assert!(!spreads(known(start(vec![over_zones()])).pod(owned())), "{api} {kind}");
        assert!(spreads(known(start(vec![over_zones()])).service("s", Some(WEB)).pod(owned())), "{api} {kind}");
    }
}

#[test]
fn a_controlling_workload_gives_its_selector() {
    // covers: SCH-TDEF-08, SCH-TDEF-12
    for (api, kind) in [("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")] {
        let owned = || web().owned_by(api, kind, "o");
        assert!(spreads(selector_of(start(vec![over_zones()]), kind, "o", selecting(WEB)).pod(owned())), "{kind}");
        assert!(!spreads(start(vec![over_zones()]).pod(owned())), "{kind} that is gone");
        assert!(
            spreads(start(vec![over_zones()]).service("s", Some(WEB)).pod(owned())),
            "{kind} that is gone, with a Service"
        );
        let mut not_controlling = selector_of(start(vec![over_zones()]), kind, "o", selecting(WEB)).pod(owned());
        let pod = not_controlling.0.pods.last_mut().unwrap();
        pod.owners =
            pod.owners.iter().map(|owner| karpenter_core::pod::Owner { controller: false, ..owner.clone() }).collect();
        assert!(!spreads(not_controlling), "{kind} that does not control it");
    }
}

#[test]
fn selectors_of_services_are_merged_and_the_workloads_comes_on_top() {
    // covers: SCH-TDEF-06, SCH-TDEF-09
    // The running pod is app=web; a selector that also wants tier=1 does not count it.
    let tiered = || web().label("tier", "1");
    let both = start(vec![over_zones()]).service("a", Some(WEB)).service("b", Some(&[("tier", "1")]));
    assert_eq!(seen(both.pod(tiered())).zones(), "1=1", "app and tier: the running pod is not counted");
    let narrowed = |kind: &str, api: &str, more: Selector| {
        let world = start(vec![over_zones()]).service("a", Some(WEB));
        seen(selector_of(world, kind, "o", more).pod(tiered().owned_by(api, kind, "o"))).zones()
    };
    assert_eq!(narrowed("ReplicaSet", "apps/v1", selecting(&[("tier", "1")])), "1=1");
    assert_eq!(narrowed("ReplicaSet", "apps/v1", selecting(WEB)), "2=1");
    let contradiction = narrowed("ReplicaSet", "apps/v1", selecting(&[("app", "other")]));
    assert_eq!(contradiction, "1=1", "app web and other selects nobody, so nothing counts");
    let overwritten = narrowed("ReplicationController", "v1", selecting(&[("app", "other")]));
    assert_eq!(overwritten, "1=1", "app=other replaces app=web");
    let expression = SelectorExpression { key: "app".to_owned(), operator: SelectorOperator::Exists, values: vec![] };
    assert_eq!(narrowed("StatefulSet", "apps/v1", Selector::new([expression])), "2=1");
}

#[test]
fn revisions_of_a_deployment_spread_apart() {
    // covers: SCH-TDEF-11
    let of = |hash: &str| {
        let name = format!("web-{hash}");
        let owned = pod(&name).app("web").label("pod-template-hash", hash).owned_by("apps/v1", "ReplicaSet", &name);
        (name.clone(), owned, selecting(&[("app", "web"), ("pod-template-hash", hash)]))
    };
    let (first, second) = (of("1"), of("2"));
    let start = world()
        .pool(roomy_pool("default").types(roomy_in(&["1", "2"])))
        .settings(|s| s.default_spread = vec![over_zones()]);
    let start = selector_of(selector_of(start, "ReplicaSet", &first.0, first.2), "ReplicaSet", &second.0, second.2);
    let pinned = first.1.cpu("2").zone("test-zone-1");
    let seen = seen(start.replicas(3, pinned).replicas(2, second.1.cpu("1")));
    assert_eq!((seen.zones_of("web-1").as_str(), seen.zones_of("web-2").as_str()), ("1=3", "1=1 2=1"));
}

#[test]
fn own_constraints_keep_all_defaults_away() {
    // covers: SCH-TDEF-04
    let own = web().spread_over("rack", 1).anyway();
    assert_eq!(seen(start(vec![over_zones()]).service("s", Some(WEB)).pod(own)).zones(), "*=1");
    let two = vec![over_zones(), DefaultSpread { topology_key: "rack".to_owned(), ..over_zones() }];
    assert_eq!(seen(start(two).service("s", Some(WEB)).pod(web())).left(), "p", "all of them: there is no rack");
}

#[test]
fn defaults_behave_like_declared_constraints() {
    // covers: SCH-TDEF-14
    let served = |defaults| start(defaults).service("s", Some(WEB));
    let three = DefaultSpread { min_domains: Some(3), ..over_zones() };
    let held = seen(served(vec![three]).replicas(3, web()));
    assert_eq!(
        (held.zones().as_str(), held.plan.left_over.len()),
        ("2=1", 2),
        "too few domains hold the least at zero"
    );
    let wide = DefaultSpread { max_skew: 2, min_domains: Some(3), ..over_zones() };
    assert_eq!(seen(served(vec![wide]).replicas(3, web())).zones(), "1=1 2=2");
    let wish =
        DefaultSpread { when: WhenUnsatisfiable::ScheduleAnyway, topology_key: "rack".to_owned(), ..over_zones() };
    assert_eq!(seen(served(vec![wish.clone()]).pod(web())).left(), "", "a wish is given up");
    let zone_wish = DefaultSpread { when: WhenUnsatisfiable::ScheduleAnyway, ..over_zones() };
    assert!(spreads(served(vec![zone_wish.clone()]).pod(web())));
    let ignoring = served(vec![zone_wish]).settings(|settings| settings.preferences = PreferencePolicy::Ignore);
    assert!(!spreads(ignoring.pod(web())), "or ignored");
}

#[test]
fn what_one_pod_gives_up_of_its_defaults_others_keep() {
    // covers: SCH-TDEF-13
    let wish = DefaultSpread { when: WhenUnsatisfiable::ScheduleAnyway, ..over_zones() };
    let start = start(vec![wish]).service("s", Some(WEB));
    let pinned = pod("pinned").app("web").cpu("2").zone("test-zone-1");
    let seen = seen(start.replicas(2, pinned).replicas(2, web().cpu("1")));
    assert_eq!((seen.zones_of("pinned").as_str(), seen.zones_of("p-").as_str()), ("1=2", "2=2"));
}

#[test]
fn node_policies_of_defaults_count() {
    // covers: SCH-TDEF-14, SCH-TOPO-26
    let with = |node_taints| {
        let mut world = start(vec![DefaultSpread { node_taints, ..over_zones() }]).service("s", Some(WEB)).pod(web());
        let taint = karpenter_core::Taint {
            key: "gpu".into(),
            value: String::new(),
            effect: karpenter_core::taints::Effect::NoSchedule,
        };
        world.0.nodes[0].taints.push(taint);
        seen(world).zones()
    };
    assert_eq!((with(NodePolicy::Ignore).as_str(), with(NodePolicy::Honor).as_str()), ("2=1", "1=1"));
    let affinity = |node_affinity| {
        let defaults = vec![DefaultSpread { node_affinity, ..over_zones() }];
        let mut world = start(defaults).service("s", Some(WEB)).pod(web().select("team", "red"));
        world.0.pools[0].labels.insert("team".into(), "red".into());
        seen(world).zones()
    };
    assert_eq!((affinity(NodePolicy::Ignore).as_str(), affinity(NodePolicy::Honor).as_str()), ("2=1", "1=1"));
}
