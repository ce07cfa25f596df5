//! Scenarios of a cluster's life on a simulated region.
//!
//! A scenario is written once. Here it runs on the embedded server in virtual time: waiting costs nothing. Against a
//! control plane of one's own (`KARPENTER_TEST_KUBECONFIG`) the same text runs in real time; the controllers may have an
//! account of their own there (`KARPENTER_TEST_ACCOUNT`), so that their rights are tried too.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

/// Tests of scenarios, each on an embedded server of its own; and a list of them, for a control plane.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(start_paused = true)]
            async fn embedded() {
                super::$name(&crate::ground::Ground::Embedded).await;
            }
        })*

        pub(crate) async fn all(ground: &crate::ground::Ground) {
            $(
                if crate::is_wanted(stringify!($name)) {
                    let began = tokio::time::Instant::now();
                    $name(ground).await;
                    println!("{} took {} s", stringify!($name), began.elapsed().as_secs());
                }
            )*
        }
    };
}

#[path = "inside/ground.rs"]
mod ground;
#[path = "inside/place.rs"]
mod place;
#[path = "inside/rolls.rs"]
mod rolls;
#[path = "inside/scenarios.rs"]
mod scenarios;

#[tokio::test]
#[ignore = "needs a control plane of its own, named by KARPENTER_TEST_KUBECONFIG"]
async fn scenarios_on_a_control_plane() {
    let path = std::env::var("KARPENTER_TEST_KUBECONFIG").expect("KARPENTER_TEST_KUBECONFIG names a kubeconfig");
    let everybody_else = client(&path).await;
    let controllers = match std::env::var("KARPENTER_TEST_ACCOUNT") {
        Ok(path) => client(&path).await,
        Err(_) => everybody_else.clone(),
    };
    let ground = ground::Ground::Real { everybody_else, controllers };
    scenarios::all(&ground).await;
    rolls::all(&ground).await;
}

/// On a control plane each takes minutes: `KARPENTER_TEST_ONLY` is a part of the names of those that are wanted.
fn is_wanted(name: &str) -> bool {
    std::env::var("KARPENTER_TEST_ONLY").map_or(true, |only| name.contains(&only))
}

async fn client(path: &str) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(path).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}
