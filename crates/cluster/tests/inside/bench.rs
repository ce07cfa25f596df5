use crate::lab::{DEPLOYMENTS, Lab, deployment, machine};
use karpenter_apiserver::Digest;
use karpenter_cluster::chance;
use serde_json::json;

/// A day with eight deployments on five nodes, one of which is lost at noon.
async fn a_day(seed: u64) -> Digest {
    let lab = Lab::new(seed);
    for n in 1..=5 {
        lab.cluster.handle().add_machine(machine(n)).await.unwrap();
    }
    for n in 0..8 {
        lab.create(DEPLOYMENTS, deployment(&format!("app-{n}"), 2, "200m")).await;
    }
    for quarter in 0..4 {
        lab.settle(6 * 3600).await;
        for n in 0..8 {
            let replicas = chance::between(quarter, &["replicas", &n.to_string()], 1, 5);
            lab.patch(&format!("{DEPLOYMENTS}/app-{n}"), json!({"spec": {"replicas": replicas}})).await;
        }
        if quarter == 1 {
            lab.cluster.handle().remove_machine("node-3").await.unwrap();
        }
    }
    lab.settle(600).await;
    lab.digest()
}

fn alone<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(work)
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let first = alone(a_day(5));
    assert!(first.writes > 300, "{first:?}");
    assert_eq!(first, alone(a_day(5)));
    assert_ne!(first, alone(a_day(6)));
}
