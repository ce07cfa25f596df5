use karpenter_testkit::{fake, pod, pool, world};

use super::*;

fn at(hours: i64) -> Timestamp {
    Timestamp::from_second(hours * 3600).unwrap()
}

/// Three pods of one owner and one of another, all waiting, and what is planned for them.
fn waiting() -> (World, Plan) {
    let owned = |name: &str, owner: &str| pod(name).cpu("1").owned_by("apps/v1", "ReplicaSet", owner);
    let pods = [owned("a-1", "a"), owned("a-2", "a"), owned("a-3", "a"), owned("b-1", "b")];
    let pods = pods.into_iter().map(|pod| pod.build());
    let world = world().pool(pool("default").types(fake::incremental(20))).pods(pods).build();
    let plan = karpenter_scheduling::solve(&world);
    assert_eq!(plan.new_nodes.len(), 1);
    (world, plan)
}

#[test]
fn what_had_to_be_bought_again_is_the_price_of_a_move() {
    let (world, plan) = waiting();
    let regret = Regret::default();
    assert_eq!(regret.price(at(0)), None);
    regret.bought(&world, &plan, at(0));
    assert_eq!(regret.price(at(0)), None, "nobody was moved: this is new work");
    regret.moved(world.pods[..2].iter(), at(0));
    assert_eq!(regret.price(at(0)), None, "nobody came back yet");
    regret.bought(&world, &plan, at(0));
    let (paid, price) = (plan.price().0, regret.price(at(0)).expect("two of them did").0);
    assert_eq!(price, paid / 2, "two of four pods, two were moved, and twice what they cost");
    regret.bought(&world, &plan, at(0));
    assert_eq!(regret.price(at(0)), Some(MicroUsd(price)), "each is waited for once");
    assert_eq!(regret.price(at(6)), Some(MicroUsd(price / 2)), "and forgotten slowly");
    regret.moved(world.pods[..2].iter(), at(6));
    let less = Some(MicroUsd(price / 6));
    assert_eq!(regret.price(at(6)), less, "moves that cost nothing make it less, and more than those of six hours ago");
    regret.bought(&world, &plan, at(7));
    assert_eq!(regret.price(at(7)), less, "who comes after an hour is somebody else");
    regret.moved(world.pods[..2].iter(), at(600));
    regret.bought(&world, &plan, at(600));
    let now = regret.price(at(600)).expect("two of them came").0;
    assert!(now.abs_diff(price) <= 1, "{now} and {price}: what was weeks ago no longer counts");
}
