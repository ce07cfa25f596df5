//! Claims and nodes from launch to end, on an API server with kubelets, a scheduler and workload controllers around it,
//! over a small cloud.
//!
//! A scenario is written once. Here it runs on the embedded server in virtual time: waiting costs nothing. Against a
//! control plane of one's own (`KARPENTER_TEST_KUBECONFIG`) the same text runs in real time.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

/// Tests of scenarios, each on an embedded server of its own; and a list of them, for a control plane.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(start_paused = true)]
            async fn embedded() {
                super::$name(&crate::stage::Stage::new().await).await;
            }
        })*

        pub(crate) async fn all(stage: &mut crate::stage::Stage) {
            $(
                println!("{}", stringify!($name));
                $name(stage).await;
                stage.clear().await;
            )*
        }
    };
}

#[path = "life/blind.rs"]
mod blind;
#[path = "life/cloud.rs"]
mod cloud;
#[path = "life/crashes.rs"]
mod crashes;
#[path = "life/end.rs"]
mod end;
#[path = "life/lines.rs"]
mod lines;
#[path = "life/objects.rs"]
mod objects;
#[path = "life/pools.rs"]
mod pools;
#[path = "life/scythe.rs"]
mod scythe;
#[path = "life/silence.rs"]
mod silence;
#[path = "life/stage.rs"]
mod stage;
#[path = "life/start.rs"]
mod start;
#[path = "life/unreadable.rs"]
mod unreadable;

#[tokio::test]
#[ignore = "needs a control plane of its own, named by KARPENTER_TEST_KUBECONFIG"]
async fn scenarios_on_a_control_plane() {
    let path = std::env::var("KARPENTER_TEST_KUBECONFIG").expect("KARPENTER_TEST_KUBECONFIG names a kubeconfig");
    let kubeconfig = kube::config::Kubeconfig::read_from(path).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.default_retry = false;
    let mut stage = stage::Stage::real(kube::Client::try_from(config).unwrap()).await;
    stage.clear().await;
    end::all(&mut stage).await;
}
