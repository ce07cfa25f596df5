//! What AWS does on bad days, in virtual time: nodes still come, and nothing is left behind.

use karpenter_aws_sim::{Limits, Script, Target};

use super::*;

const HOUR: u64 = 3600;

impl Lab {
    async fn running(&self) -> usize {
        let pods = self.list("/api/v1/namespaces/default/pods").await;
        pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    }

    async fn scale(&self, app: &str, replicas: usize) {
        let body = json!({"spec": {"replicas": replicas}});
        send(&self.client, "PATCH", &format!("{DEPLOYMENTS}/{app}"), Some(body)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_throttling_leaves_nothing_behind() {
    let lab = Lab::with(11, |options, _| {
        options.rates.throttled = 0.10;
        options.limits = Some(Limits::EC2);
    });
    let lab = lab.await;
    lab.pool().await;
    lab.settle(60).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 6)).await;
    lab.settle(900).await;
    assert_eq!(lab.running().await, 6);
    lab.scale("even", 16).await;
    lab.settle(900).await;
    assert_eq!(lab.running().await, 16);
    lab.scale("even", 0).await;
    lab.settle(HOUR - 1860).await;
    let fired = lab.region.faults_fired();
    assert!(fired["throttled"] > 20, "{fired:?}");
    assert!(!fired.contains_key("limited"), "never faster than an account may be: {fired:?}");
    assert!(lab.list("/apis/karpenter.sh/v1/nodeclaims").await.is_empty());
    assert!(lab.list("/api/v1/nodes").await.is_empty());
    assert_eq!(lab.region.price_per_hour().0, 0);
    assert_eq!(lab.region.template_count(), 0, "templates go too");
}

#[tokio::test(start_paused = true)]
async fn half_of_what_a_region_sells_may_be_gone() {
    let lab = Lab::new(13).await;
    let types = lab.region.options().catalogue.types.clone();
    for (number, facts) in types.iter().enumerate() {
        if number % 2 == 0 {
            let target = Target::Pool { class: None, instance_type: Some(facts.name.to_string()), zone: None };
            lab.region.script(Script::new(target, "InsufficientInstanceCapacity", u32::MAX));
        }
    }
    lab.pool().await;
    lab.settle(10).await;
    for shape in SHAPES {
        lab.create(DEPLOYMENTS, deployment(shape, 4)).await;
    }
    lab.settle(600).await;
    assert_eq!(lab.running().await, SHAPES.len() * 4);
}
