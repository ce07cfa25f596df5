//! Budgets, windows, do-not-disrupt, PodDisruptionBudgets and terminationGracePeriod in any combination, at any time of a
//! week: whatever is taken is within every rule, and whatever is held back by a budget is held back rightly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::World;
use karpenter_core::world::DisruptionBudget;
use karpenter_disruption::{
    Budget, ConsolidationPolicy, Decision, Drifted, Method, NodeFacts, Policy, PoolFacts, Reason, Snapshot, propose,
};
use karpenter_testkit::cluster::{Size, cluster};
use karpenter_testkit::dice::Dice;
use karpenter_testkit::express::selecting;
use karpenter_testkit::fake;
use karpenter_verify::verify_commands;
use proptest::prelude::*;

const SCHEDULES: [(&str, u64); 6] = [
    ("@hourly", 10),
    ("@daily", 60),
    ("0 20 * * *", 480),
    ("30 9 * * mon-fri", 60),
    ("*/7 3-5 * * *", 5),
    ("0 0 * * sun", 1440),
];

fn budget() -> impl Strategy<Value = Budget> {
    let nodes = prop::sample::select(vec!["0", "1", "2", "3", "10%", "34%", "100%"]);
    let reasons = prop::option::of(prop::sample::subsequence(vec!["Empty", "Drifted", "Underutilized"], 0..=3));
    let window = prop::option::of(prop::sample::select(SCHEDULES.to_vec()));
    (nodes, reasons, window).prop_map(|(nodes, reasons, window)| Budget {
        reasons: reasons.map(|reasons| reasons.into_iter().map(str::to_owned).collect()),
        nodes: nodes.to_owned(),
        schedule: window.map(|(schedule, _)| schedule.to_owned()),
        duration: window.map(|(_, minutes)| Duration::from_secs(60 * minutes)),
    })
}

fn rules() -> impl Strategy<Value = PoolFacts> {
    let policies =
        [ConsolidationPolicy::WhenEmpty, ConsolidationPolicy::WhenEmptyOrUnderutilized, ConsolidationPolicy::Balanced];
    let after = prop::option::weighted(0.9, Just(Duration::ZERO));
    (prop::sample::select(policies.to_vec()), after, prop::collection::vec(budget(), 0..4)).prop_map(
        |(policy, consolidate_after, budgets)| PoolFacts {
            is_static: false,
            spare: 0,
            policy,
            consolidate_after,
            budgets,
            paused: false,
            instance_types: Arc::from([]),
            cost: None,
        },
    )
}

/// Some pods protected, for good or for a while; some held by budgets, for good or for now; some nodes empty.
fn hold(world: &mut World, dice: &mut Dice) {
    let bare: Vec<Arc<str>> = world.nodes.iter().filter(|_| dice.below(6) == 0).map(|node| node.name.clone()).collect();
    world.pods.retain(|pod| pod.node.as_ref().is_none_or(|node| !bare.contains(node)));
    for pod in &mut world.pods {
        if dice.below(12) == 0 {
            let mut shape = (*pod.shape).clone();
            shape.do_not_disrupt = Some((*dice.pick(&["true", "30m", "72h", "soon"])).into());
            pod.shape = Arc::new(shape);
            pod.started = Some(world.now - SignedDuration::from_mins(dice.below(180) as i64));
        }
        pod.unready = dice.below(15) == 0;
    }
    for at in 0..6 {
        let app = format!("app-{:05}", dice.below(10));
        let allowed = dice.below(4) as i32 - 1;
        world.disruption_budgets.push(DisruptionBudget {
            namespace: "default".into(),
            name: format!("budget-{at}").into(),
            selector: Some(selecting(&[("app", &app)])),
            never_allows: allowed < 0,
            disruptions_allowed: allowed.max(0),
            always_allows_unready: dice.below(3) == 0,
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn every_combination_of_rules_is_kept(
        seed in 0_u64..10_000,
        minute in 0_i64..7 * 24 * 60,
        pools in prop::collection::vec(rules(), 2),
    ) {
        // covers: DIS-BUDGET-12, DIS-CAND-04
        let types: Arc<[_]> = fake::incremental(8).into_iter().map(Arc::new).collect();
        let mut dice = Dice::new(seed);
        let mut world = cluster(Size { nodes: 12, pods: 50, pools: 2, full: 60 }, &types, &fake::ZONES, seed);
        let monday: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        world.now = monday + SignedDuration::from_mins(minute);
        hold(&mut world, &mut dice);
        let nodes: Vec<NodeFacts> = world.nodes.iter().map(|_| NodeFacts {
            drifted: (dice.below(4) == 0).then(|| Drifted { reason: "NodePoolDrifted".into(), since: monday }),
            bounded_drain: dice.below(2) == 0,
            nominated: dice.below(15) == 0,
            do_not_disrupt: dice.below(15) == 0,
            ready: dice.below(12) != 0,
            consolidatable: dice.below(8) != 0,
            ..NodeFacts::default()
        }).collect();
        let facts = |pool: &PoolFacts| PoolFacts { instance_types: types.clone(), ..pool.clone() };
        let pools: BTreeMap<Arc<str>, PoolFacts> =
            world.pools.iter().zip(&pools).map(|(pool, rules)| (pool.name.clone(), facts(rules))).collect();
        let snapshot = Snapshot { world: &world, nodes, pools };
        let proposal = propose(&snapshot, &Policy::default());
        let faults = verify_commands(&snapshot, &Policy::default(), &proposal.commands);
        prop_assert!(faults.is_empty(), "{faults:?}");
        for node in &proposal.nodes {
            prop_assert_eq!(node.decision == Decision::Keep, !node.reasons.is_empty(), "{:?}", node);
            for reason in &node.reasons {
                // An empty node that others move onto stays, and leaves its unit unused.
                let used = proposal.commands.iter().any(|command| !command.moves.is_empty());
                if let Reason::Budget { allowed, consumed, reason, .. } = reason {
                    prop_assert!(consumed >= allowed || used && *reason == "Empty", "{:?}", node);
                }
            }
        }
        // Only drift on nodes whose drain ends goes against what holds pods.
        for command in proposal.commands.iter().filter(|command| command.method != Method::Drift) {
            for candidate in &command.candidates {
                let of_node = world.pods.iter().filter(|pod| pod.node.as_ref() == Some(&candidate.name));
                prop_assert!(of_node.filter(|pod| pod.shape.do_not_disrupt.as_deref() == Some("true")).count() == 0);
            }
        }
    }
}
