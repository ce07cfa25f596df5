//! Instances survive a restart, and leftovers are swept.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use karpenter_aws_sim::store::Store;
use karpenter_aws_sim::{MachineEvent, Region, cloud_controller};
use karpenter_provider::CloudProvider;
use karpenter_provider_aws::calls::{DescribeInstances, InstanceState};
use karpenter_provider_aws::tagging;
use kube::Api;
use kube::api::PostParams;

use crate::lab::{Lab, holding, on_demand, quiet, tags};

fn store(lab: &Lab) -> Store {
    Store { client: lab.client.clone(), namespace: "default".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn instances_survive_a_restart() {
    // covers: AWS-SIM-14
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let mut machines = lab.region.machines();
    for n in 0..3 {
        lab.provider.create(&on_demand(&format!("claim-{n}"))).await.unwrap();
    }
    lab.region.kill(&lab.region.instances()[0].instance.id, InstanceState::ShuttingDown);
    store(&lab).save(&lab.region).await.unwrap();
    let mut started = Vec::new();
    while let Ok(event) = machines.try_recv() {
        if let MachineEvent::Started(machine) = event {
            started.push(*machine);
        }
    }
    let again = Region::new(lab.region.options().clone(), lab.now.clone());
    again.close();
    let ec2 = again.aws().ec2;
    let early = DescribeInstances::default();
    let asked = ec2.describe_instances(&early);
    assert!(tokio::time::timeout(Duration::from_secs(5), asked).await.is_err(), "no answer before the state is there");
    assert_eq!(store(&lab).load(&again).await.unwrap(), 3);
    assert_eq!(
        again.instances(),
        lab.region
            .instances()
            .into_iter()
            .map(|mut i| {
                if i.ended_at.is_some() {
                    i.node_name = None;
                }
                i
            })
            .collect::<Vec<_>>()
    );
    assert_eq!(again.save(), lab.region.save());
    let mut machines = again.machines();
    let mut resumed = Vec::new();
    while let Ok(event) = machines.try_recv() {
        match event {
            MachineEvent::Started(machine) => resumed.push(*machine),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(resumed.len(), 2, "the one that ends stays off");
    for machine in &resumed {
        let before = started.iter().find(|before| before.name == machine.name).unwrap();
        let want = karpenter_aws_sim::Machine { boot_delay: Duration::ZERO, ..before.clone() };
        assert_eq!(*machine, want);
    }
    assert_eq!(again.aws().ec2.describe_instances(&early).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn pages_hold_five_hundred_and_go_when_they_are_not_needed() {
    // covers: AWS-SIM-14
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let claims: Vec<_> = (0..501).map(|n| on_demand(&format!("claim-{n}"))).collect();
    futures_util::future::join_all(claims.iter().map(|claim| lab.provider.create(claim))).await;
    let maps = Api::<ConfigMap>::namespaced(lab.client.clone(), "default");
    let pages = || async {
        let found = maps.list(&Default::default()).await.unwrap().items;
        let names =
            found.iter().filter_map(|map| map.metadata.name.clone()).filter(|name| name.starts_with("kwok-aws-"));
        names.collect::<Vec<_>>()
    };
    store(&lab).save(&lab.region).await.unwrap();
    assert_eq!(pages().await, ["kwok-aws-instances-0", "kwok-aws-instances-1"]);
    for instance in lab.region.instances() {
        lab.region.kill(&instance.instance.id, InstanceState::ShuttingDown);
    }
    tokio::time::sleep(Duration::from_secs(7200)).await;
    store(&lab).save(&lab.region).await.unwrap();
    assert!(pages().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn instances_are_told_the_names_of_node_and_claim() {
    // covers: AWS-TAG-02, AWS-TAG-03, AWS-TAG-05, AWS-TAG-06, AWS-TAG-07
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let machine = lab.provider.create(&on_demand("one")).await.unwrap();
    let claims = Api::<karpenter_api::NodeClaim>::all(lab.client.clone());
    let mut claim = on_demand("one");
    claim.metadata.uid = None;
    let mut claim = claims.create(&PostParams::default(), &claim).await.unwrap();
    claim.status.get_or_insert_default().provider_id = Some(machine.provider_id.clone());
    assert!(!tagging::is_taggable(&claim), "no node yet");
    claim.status.get_or_insert_default().node_name = Some("node-1".to_owned());
    let start = tokio::time::Instant::now();
    tagging::tag(&lab.parts, &lab.client, &claim).await.unwrap();
    assert!(start.elapsed() >= tagging::PAUSE);
    let tags = lab.region.instances().remove(0).instance.tags;
    assert_eq!((tags["Name"].as_str(), tags["karpenter.sh/nodeclaim"].as_str()), ("node-1", "one"));
    let stored = claims.get("one").await.unwrap();
    let annotations = stored.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["karpenter.k8s.aws/tagged"], "true");
    assert_eq!(annotations["compatibility.karpenter.k8s.aws/cluster-name-tagged"], "true");
    let calls = lab.region.calls()["CreateTags"];
    tagging::tag(&lab.parts, &lab.client, &claim).await.unwrap();
    assert_eq!(lab.region.calls()["CreateTags"], calls, "nothing is missing");
    let mut asks = karpenter_api::NodeClaim { metadata: stored.metadata, ..claim };
    assert!(!tagging::is_taggable(&asks));
    // What others take away is put back as soon as the claim asks for it, however recently we read the instance.
    lab.parts.instances.list().await.unwrap();
    let id = lab.region.instances().remove(0).instance.id;
    lab.region.untag(&id, "Name");
    asks.metadata.annotations.get_or_insert_default().insert("karpenter.k8s.aws/tagged".to_owned(), "false".to_owned());
    assert!(tagging::is_taggable(&asks), "upstream looks at the value, too");
    tagging::tag(&lab.parts, &lab.client, &asks).await.unwrap();
    assert_eq!(lab.region.instances().remove(0).instance.tags.get("Name").map(String::as_str), Some("node-1"));
}

#[tokio::test(start_paused = true)]
async fn tags_that_go_while_a_claim_waits_for_its_turn_are_put_back() {
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let claims = Api::<karpenter_api::NodeClaim>::all(lab.client.clone());
    for name in ["one", "two"] {
        let machine = lab.provider.create(&on_demand(name)).await.unwrap();
        let mut claim = on_demand(name);
        claim.metadata.uid = None;
        let mut claim = claims.create(&PostParams::default(), &claim).await.unwrap();
        let status = claim.status.get_or_insert_default();
        (status.provider_id, status.node_name) = (Some(machine.provider_id), Some(format!("node-{name}")));
        claims.replace_status(name, &PostParams::default(), &claim).await.unwrap();
        tagging::tag(&lab.parts, &lab.client, &claims.get(name).await.unwrap()).await.unwrap();
    }
    // Both ask to be looked at again, and both instances are read for the first one's turn.
    for name in ["one", "two"] {
        let asks = serde_json::json!({"metadata": {"annotations": {"karpenter.k8s.aws/tagged": "false"}}});
        claims.patch(name, &Default::default(), &kube::api::Patch::Merge(asks)).await.unwrap();
    }
    tagging::tag(&lab.parts, &lab.client, &claims.get("one").await.unwrap()).await.unwrap();
    let named = |lab: &Lab| {
        let mut all = lab.region.instances().into_iter();
        all.find(|one| one.instance.tags.get("karpenter.sh/nodeclaim").is_some_and(|name| name == "two")).unwrap()
    };
    lab.region.untag(&named(&lab).instance.id, "Name");
    tagging::tag(&lab.parts, &lab.client, &claims.get("two").await.unwrap()).await.unwrap();
    assert_eq!(named(&lab).instance.tags.get("Name").map(String::as_str), Some("node-two"));
}

#[tokio::test(start_paused = true)]
async fn only_machines_of_this_cluster_are_terminated() {
    // covers: AWS-CP-18
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let machine = lab.provider.create(&on_demand("one")).await.unwrap();
    let (key, id) = ("kubernetes.io/cluster/simulated", machine.provider_id.rsplit('/').next().unwrap().to_owned());
    let set = |value: &'static str| {
        let (region, id) = (lab.region.clone(), id.clone());
        async move { region.aws().ec2.create_tags(&[id], &tags(&[(key, value)])).await.unwrap() }
    };
    lab.region.untag(&id, key);
    let refused = lab.provider.delete(&holding(&machine)).await.unwrap_err();
    assert!(karpenter_provider::chain(&refused).contains(key), "{refused:?}");
    assert_eq!(lab.notices.with_reason("InstanceNotOwned").len(), 1);
    // A sweep for machines that nobody holds has no object to say it of.
    let mut swept = holding(&machine);
    swept.metadata.name = None;
    lab.provider.delete(&swept).await.unwrap_err();
    assert_eq!(lab.notices.with_reason("InstanceNotOwned").len(), 1);
    set("shared").await;
    lab.provider.delete(&holding(&machine)).await.unwrap_err();
    assert!(!lab.region.calls().contains_key("TerminateInstances"), "nothing was asked");
    set("owned").await;
    lab.provider.delete(&holding(&machine)).await.unwrap();
    assert_eq!(lab.region.calls()["TerminateInstances"], 1);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_vanished_instances_go_too() {
    // covers: AWS-SIM-08, AWS-SIM-09
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let machines = lab.region.machines();
    let (region, client) = (lab.region.clone(), lab.client.clone());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { cloud_controller::register_all(&region, &client, machines).await });
    let (region, client) = (lab.region.clone(), lab.client.clone());
    tasks.spawn(async move { cloud_controller::run(&region, &client).await });
    lab.provider.create(&on_demand("one")).await.unwrap();
    let nodes = Api::<Node>::all(lab.client.clone());
    let count = || async { nodes.list(&Default::default()).await.unwrap().items.len() };
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(count().await, 0, "still booting");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let node = nodes.list(&Default::default()).await.unwrap().items.remove(0);
    assert_eq!(node.metadata.annotations.unwrap()["kwok.x-k8s.io/node"], "fake");
    lab.region.kill(&lab.region.instances()[0].instance.id, InstanceState::ShuttingDown);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(count().await, 0);
    lab.provider.create(&on_demand("two")).await.unwrap();
    let young = lab.region.instances().into_iter().find(|instance| instance.ended_at.is_none()).unwrap();
    lab.region.kill(&young.instance.id, InstanceState::ShuttingDown);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(count().await, 0, "a machine that ends before it has booted never registers");
}
