//! Faults between the controller and its API server: the shipped program in a process of its own behind a proxy, with
//! everything else in the cluster past it.
//!
//! For every fault and every kind of request that it may strike: nothing is lost, no budget is violated, no instance is
//! terminated with a pod on it, decisions go on within 90 s of the fault's end, and the process ends at most once, and only
//! because it lost the lease or something in it hung. `FAULT_PROXY_ONLY` is a part of the names of the cells that are
//! wanted: `half-open-watch`, `-lease`.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

mod cluster;
mod ground;
mod matrix;
mod proxy;
mod replica;
mod scenario;
mod stream;
mod wire;
mod witness;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;

use cluster::{Outcome, Users};
use ground::Ground;
use matrix::Cell;
use proxy::Proxy;
use replica::Replica;
use scenario::{Place, Report};
use witness::Witness;

/// So many cells at a time for each processor. Most of their time they wait, for deadlines in real time.
const AT_ONCE: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_on_the_embedded_server() {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let live = async |cell: Cell| {
        let folder = folder(&cell.to_string());
        let ground = Ground::embedded(&folder).await;
        (cell, on_ground(&ground, &folder, cell).await)
    };
    let mut cells = futures_util::stream::iter(wanted()).map(live).buffer_unordered(AT_ONCE * processors);
    let mut failed = 0;
    while let Some((cell, outcome)) = cells.next().await {
        failed += usize::from(say(cell, &outcome));
    }
    assert_eq!(failed, 0, "cells failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane of its own, named by KARPENTER_TEST_KUBECONFIG"]
async fn every_fault_on_a_control_plane() {
    let path = std::env::var("KARPENTER_TEST_KUBECONFIG").expect("KARPENTER_TEST_KUBECONFIG names a kubeconfig");
    let ground = Ground::of_control_plane(Path::new(&path)).await;
    let mut failed = 0;
    for cell in wanted() {
        // One after the other: they share the cluster.
        let outcome = on_ground(&ground, &folder(&format!("real-{cell}")), cell).await;
        failed += usize::from(say(cell, &outcome));
    }
    assert_eq!(failed, 0, "cells failed");
}

fn wanted() -> Vec<Cell> {
    let only = std::env::var("FAULT_PROXY_ONLY").unwrap_or_default();
    Cell::all().into_iter().filter(|cell| cell.to_string().contains(&only)).collect()
}

/// An empty folder for what a cell leaves: kubeconfigs, and the controller's log.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fault_proxy").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

async fn on_ground(ground: &Ground, folder: &Path, cell: Cell) -> Outcome<Report> {
    let proxy = Proxy::start(ground.client.clone()).await;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, proxy.kubeconfig()).unwrap();
    let witness = Witness::start(&ground.client);
    let replica = Replica::start(&kubeconfig, &ground.kubeconfig, folder);
    let place =
        Place { users: Users { client: ground.client.clone() }, proxy: &proxy, replica: &replica, witness: &witness };
    let outcome = place.live_through(cell).await;
    if ground.is_embedded() {
        return outcome;
    }
    let cleared = place.clear().await;
    replica.finish().await;
    outcome.and_then(|report| cleared.map(|()| report))
}

/// Whether it failed.
fn say(cell: Cell, outcome: &Outcome<Report>) -> bool {
    match outcome {
        Ok(report) => println!("{cell}: {report}"),
        Err(why) => println!("{cell} FAILED: {why}"),
    }
    outcome.is_err()
}
