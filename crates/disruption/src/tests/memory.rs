//! A pass that remembers answers as one that does not.

use karpenter_core::Pod;
use karpenter_core::pod::Phase;
use karpenter_core::world::DisruptionBudget;
use karpenter_testkit::cluster::{Size, cluster};
use karpenter_testkit::dice::Dice;
use karpenter_testkit::express::selecting;
use karpenter_testkit::fake;

use super::*;

/// One thing that happens in a cluster.
fn happen(world: &mut World, nodes: &mut [NodeFacts], pools: &mut BTreeMap<Arc<str>, PoolFacts>, dice: &mut Dice) {
    let pod = dice.below(world.pods.len());
    let node = dice.below(world.nodes.len());
    match dice.below(14) {
        0..=3 => {
            world.pods.remove(pod);
        }
        4..=5 => {
            let (mut copy, name): (Pod, Arc<str>) = (world.pods[pod].clone(), world.nodes[node].name.clone());
            copy.name = format!("{}-copy-{}", copy.name, dice.below(1000)).into();
            copy.uid = copy.name.clone();
            // Somebody else may have put it where we would not.
            copy.node = (dice.below(3) > 0).then_some(name);
            copy.phase = if copy.node.is_some() { Phase::Running } else { Phase::Pending };
            copy.scheduled_reason = copy.node.is_none().then(|| "Unschedulable".into());
            world.pods.insert(dice.below(world.pods.len()), copy);
        }
        6 => world.pods[pod].terminating = !world.pods[pod].terminating,
        7 => {
            let mut shape = (*world.pods[pod].shape).clone();
            shape.do_not_disrupt = Some((*dice.pick(&["true", "10m", "no"])).into());
            world.pods[pod].shape = Arc::new(shape);
            world.pods[pod].started = Some(world.now);
        }
        8 => nodes[node].nominated = !nodes[node].nominated,
        9 => {
            nodes[node].consolidatable = !nodes[node].consolidatable;
            nodes[node].quiet_from =
                (!nodes[node].consolidatable).then(|| world.now.checked_add(Duration::from_mins(5)).unwrap());
        }
        10 => {
            let selector = Some(selecting(&[("app", &format!("app-{:05}", dice.below(6)))]));
            world.disruption_budgets.push(DisruptionBudget {
                namespace: "default".into(),
                name: format!("budget-{}", world.disruption_budgets.len()).into(),
                selector,
                never_allows: false,
                disruptions_allowed: dice.below(2) as i32,
                always_allows_unready: false,
            });
        }
        11 => {
            let pool = pools.values_mut().next().unwrap();
            pool.policy = match pool.policy {
                ConsolidationPolicy::Balanced => ConsolidationPolicy::WhenEmptyOrUnderutilized,
                _ => ConsolidationPolicy::Balanced,
            };
        }
        12 => world.now = world.now.checked_add(Duration::from_mins(4)).unwrap(),
        _ => {}
    }
}

#[test]
fn a_pass_that_remembers_answers_as_one_that_does_not() {
    let types: Arc<[_]> = fake::incremental(10).into_iter().map(Arc::new).collect();
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let size = Size { nodes: 10, pods: 50, pools: 2, full: if seed % 2 == 0 { 60 } else { 95 } };
        let mut world = cluster(size, &types, &fake::ZONES, seed);
        let mut nodes = vec![NodeFacts::default(); world.nodes.len()];
        let rules = PoolFacts { instance_types: types.clone(), ..scene().pools["default"].clone() };
        let mut pools: BTreeMap<Arc<str>, PoolFacts> =
            world.pools.iter().map(|pool| (pool.name.clone(), rules.clone())).collect();
        let mut memory = Memory::default();
        let mut quiet = 0;
        for step in 0..25 {
            let snapshot = Snapshot { world: &world, nodes: nodes.clone(), pools: pools.clone() };
            let remembered = propose_again(&mut memory, &snapshot, &Policy::default());
            let fresh = propose(&snapshot, &Policy::default());
            assert_eq!(remembered, fresh, "seed {seed}, step {step}");
            quiet += usize::from(fresh.commands.is_empty());
            happen(&mut world, &mut nodes, &mut pools, &mut dice);
        }
        assert!(quiet < 25, "seed {seed}: nothing ever happened");
    }
}

/// Asked until nothing is due.
fn patiently(memory: &mut Memory, snapshot: &Snapshot<'_>, policy: &Policy) -> (Proposal, usize) {
    for passes in 1.. {
        let proposal = propose_again(memory, snapshot, policy);
        if proposal.due == 0 {
            return (proposal, passes);
        }
        assert!(passes < 500, "it never catches up: {} are due", proposal.due);
    }
    unreachable!("the loop ends by returning")
}

#[test]
fn a_large_cluster_is_caught_up_with_in_turns_and_the_answer_is_the_same() {
    let types: Arc<[_]> = fake::incremental(10).into_iter().map(Arc::new).collect();
    let mut dice = Dice::new(3);
    let mut world = cluster(Size { nodes: 460, pods: 8_000, pools: 2, full: 100 }, &types, &fake::ZONES, 3);
    let mut nodes = vec![NodeFacts::default(); world.nodes.len()];
    // Nobody may go, so that nothing is taken: each pass tells of every node what it would come to.
    let budgets = vec![Budget::always("0")];
    let rules = PoolFacts { instance_types: types.clone(), budgets, ..scene().pools["default"].clone() };
    let mut pools: BTreeMap<Arc<str>, PoolFacts> =
        world.pools.iter().map(|pool| (pool.name.clone(), rules.clone())).collect();
    let policy = Policy { patience: 20, ..Policy::default() };
    let (mut memory, mut most) = (Memory::default(), 0);
    for step in 0..5 {
        let snapshot = Snapshot { world: &world, nodes: nodes.clone(), pools: pools.clone() };
        let (remembered, passes) = patiently(&mut memory, &snapshot, &policy);
        let fresh = propose(&snapshot, &policy);
        assert_eq!(remembered, fresh, "step {step}");
        most = most.max(passes);
        happen(&mut world, &mut nodes, &mut pools, &mut dice);
        // Room that everybody could use.
        let node = world.nodes[dice.below(world.nodes.len())].name.clone();
        world.pods.retain(|pod| pod.node.as_ref() != Some(&node) || dice.below(2) == 0);
    }
    assert!(most > 2, "nothing was ever left for later");
}
