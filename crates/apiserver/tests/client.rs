//! kube's own client, watcher and patches against the server in this process, in virtual time.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use karpenter_apiserver::{ApiServer, Effect, Fault, Options, TokioClock};
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::watcher;
use kube::{Client, Error};
use serde_json::json;

fn start(seed: u64) -> (ApiServer, Client) {
    let clock = TokioClock::starting_at("2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap());
    let server = ApiServer::new(Options { clock: Arc::new(clock), seed, rbac: false, keep_history: true });
    let client = Client::new(server.service(), "default");
    (server, client)
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]}}))
    .unwrap()
}

fn code(error: &Error) -> u16 {
    match error {
        Error::Api(status) => status.code,
        other => panic!("not an answer of the API: {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_lives_its_life() {
    let (_, client) = start(1);
    let nodes: Api<Node> = Api::all(client.clone());
    let node = Node { metadata: ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() }, ..Node::default() };
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let created = pods.create(&PostParams::default(), &pod("web")).await.unwrap();
    assert_eq!(created.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    assert!(created.metadata.uid.is_some());
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "a"}});
    let bytes = serde_json::to_vec(&binding).unwrap();
    let request = http::Request::post("/api/v1/namespaces/default/pods/web/binding").body(bytes.clone()).unwrap();
    client.request::<serde_json::Value>(request).await.unwrap();
    let again = http::Request::post("/api/v1/namespaces/default/pods/web/binding").body(bytes).unwrap();
    assert_eq!(code(&client.request::<serde_json::Value>(again).await.unwrap_err()), 409);
    let bound = pods.list(&ListParams::default().fields("spec.nodeName=a")).await.unwrap();
    assert_eq!(bound.items.len(), 1);
    // A bound pod ends gracefully: it is marked, and the kubelet's deletion without grace removes it.
    pods.evict("web", &EvictParams::default()).await.unwrap();
    let marked = pods.get("web").await.unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(30));
    pods.delete("web", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    assert_eq!(code(&pods.get("web").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn watches_see_every_change_in_order() {
    let (server, client) = start(2);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let start_version = server.version().to_string();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), &start_version).await.unwrap());
    let map = |n: &str| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"n": n}})).unwrap()
    };
    maps.create(&PostParams::default(), &map("0")).await.unwrap();
    maps.patch("m", &PatchParams::default(), &Patch::Merge(json!({"data": {"n": "1"}}))).await.unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = futures_util::TryStreamExt::try_next(&mut events).await.unwrap().unwrap();
        seen.push(match event {
            WatchEvent::Added(map) => ("added", map.data.unwrap()["n"].clone()),
            WatchEvent::Modified(map) => ("modified", map.data.unwrap()["n"].clone()),
            WatchEvent::Deleted(map) => ("deleted", map.data.unwrap()["n"].clone()),
            other => panic!("{other:?}"),
        });
    }
    let want = [("added", "0"), ("modified", "1"), ("deleted", "1")].map(|(kind, n)| (kind, n.to_owned()));
    assert_eq!(seen, want);
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_far_behind_is_told_and_the_watcher_recovers() {
    let (server, client) = start(3);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let old = server.version().to_string();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "m"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    server.compact();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), &old).await.unwrap());
    let event = futures_util::TryStreamExt::try_next(&mut events).await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Error(status) if status.code == 410));
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut stream = Box::pin(watcher(maps.clone(), config));
        let mut names = Vec::new();
        loop {
            match futures_util::TryStreamExt::try_next(&mut stream).await.unwrap().unwrap() {
                watcher::Event::InitApply(map) => names.push(map.metadata.name.unwrap()),
                watcher::Event::InitDone => break,
                _ => {}
            }
        }
        assert!(names.contains(&"m".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn dependents_go_with_their_owner() {
    let (_, client) = start(4);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let owner: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "owner"}})).unwrap();
    let owner = maps.create(&PostParams::default(), &owner).await.unwrap();
    for (name, policy, left) in [
        ("background", DeleteParams::background(), false),
        ("foreground", DeleteParams::foreground(), false),
        ("orphan", DeleteParams::orphan(), true),
    ] {
        let parent: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let parent = maps.create(&PostParams::default(), &parent).await.unwrap();
        let child: ConfigMap = serde_json::from_value(json!({"metadata": {"name": format!("{name}-child"), "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": parent.metadata.uid, "blockOwnerDeletion": true}]}}))
        .unwrap();
        maps.create(&PostParams::default(), &child).await.unwrap();
        maps.delete(name, &policy).await.unwrap();
        assert_eq!(code(&maps.get(name).await.unwrap_err()), 404, "{name}");
        let child = maps.get_opt(&format!("{name}-child")).await.unwrap();
        assert_eq!(child.is_some(), left, "{name}");
        assert!(child.is_none_or(|child| child.metadata.owner_references.is_none()), "{name}");
    }
    assert!(maps.get(&owner.metadata.name.unwrap()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn stale_writes_conflict() {
    let (_, client) = start(5);
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let deployment: Deployment =
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))
        .unwrap();
    let first = deployments.create(&PostParams::default(), &deployment).await.unwrap();
    assert_eq!(first.metadata.generation, Some(1));
    let mut next = first.clone();
    next.spec.as_mut().unwrap().replicas = Some(3);
    let second = deployments.replace("d", &PostParams::default(), &next).await.unwrap();
    assert_eq!(second.metadata.generation, Some(2));
    assert_eq!(code(&deployments.replace("d", &PostParams::default(), &next).await.unwrap_err()), 409);
    let scale = deployments
        .patch_scale("d", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 5}})))
        .await
        .unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(5));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_history() {
    let run = |seed| async move {
        let (server, client) = start(seed);
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        for _ in 0..5 {
            let map = ConfigMap {
                metadata: ObjectMeta { generate_name: Some("m-".into()), ..ObjectMeta::default() },
                ..ConfigMap::default()
            };
            maps.create(&PostParams::default(), &map).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(7)).await;
        }
        let lines: Vec<String> = server.history().iter().map(ToString::to_string).collect();
        (lines, server.digest())
    };
    let (first, second, other) = (run(6).await, run(6).await, run(7).await);
    assert_eq!(first, second);
    assert_ne!(first.1, other.1);
}

#[tokio::test(start_paused = true)]
async fn faults_come_when_asked_for() {
    let (server, client) = start(8);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let fault = |effect, times| Fault {
        methods: vec!["GET".into()],
        path_contains: "/configmaps".into(),
        per_mille: 1000,
        times: Some(times),
        effect,
    };
    server.inject(fault(Effect::TooManyRequests { retry_after_seconds: 2 }, 1));
    assert_eq!(code(&maps.list(&ListParams::default()).await.unwrap_err()), 429);
    assert!(maps.list(&ListParams::default()).await.is_ok());
    server.inject(fault(Effect::Latency(std::time::Duration::from_secs(3)), 1));
    let before = tokio::time::Instant::now();
    maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(before.elapsed(), std::time::Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn with_rbac_roles_decide() {
    let clock = TokioClock::starting_at("2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap());
    let server = ApiServer::new(Options { clock: Arc::new(clock), seed: 9, rbac: true, keep_history: false });
    let admin = Client::new(server.service(), "default");
    let user =
        Client::new(server.service_as(karpenter_apiserver::User::new("jane", &["system:authenticated"])), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(user.clone());
    assert_eq!(code(&maps.list(&ListParams::default()).await.unwrap_err()), 403);
    let roles: Api<k8s_openapi::api::rbac::v1::Role> = Api::default_namespaced(admin.clone());
    let role = serde_json::from_value(json!({"metadata": {"name": "r"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}))
    .unwrap();
    roles.create(&PostParams::default(), &role).await.unwrap();
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::default_namespaced(admin.clone());
    let binding =
        serde_json::from_value(json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "jane"}]}))
        .unwrap();
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    assert!(maps.list(&ListParams::default()).await.is_ok());
    assert_eq!(code(&maps.get("x").await.unwrap_err()), 403);
}

#[tokio::test(start_paused = true)]
async fn roles_are_made_of_others() {
    use k8s_openapi::api::rbac::v1::ClusterRole;
    let (server, client) = start(1);
    let roles: Api<ClusterRole> = Api::all(client);
    let grants = |role: &ClusterRole| {
        let rules = role.rules.iter().flatten().flat_map(|rule| rule.resources.iter().flatten());
        rules.filter(|resource| *resource == "toys").count()
    };
    let part: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "toys",
        "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["play.io"], "resources": ["toys"], "verbs": ["get"]}]}))
    .unwrap();
    roles.create(&PostParams::default(), &part).await.unwrap();
    // What may be viewed may be edited, and what may be edited may be administered.
    for name in ["view", "edit", "admin"] {
        assert_eq!(grants(&roles.get(name).await.unwrap()), 1, "{name}");
    }
    roles.delete("toys", &DeleteParams::default()).await.unwrap();
    for name in ["view", "edit", "admin"] {
        assert_eq!(grants(&roles.get(name).await.unwrap()), 0, "{name}");
    }
    assert_eq!(server.violations(), Vec::<String>::new());
}
