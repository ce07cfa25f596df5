//! A controller as kube's users write them, run by kube's own runtime against the server in this process: watches of a
//! custom resource and of what it owns, finalizers, events, server-side apply, and watches that break.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_apiserver::{ApiServer, Options, TokioClock};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

const MANAGER: &str = "harbour";
const FINALIZER: &str = "fleet.example.com/moored";

fn start() -> (ApiServer, Client) {
    let clock = TokioClock::starting_at("2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap());
    let server = ApiServer::new(Options { clock: Arc::new(clock), seed: 1, rbac: false, keep_history: false });
    let client = Client::new(server.service(), "default");
    (server, client)
}

fn boats() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("fleet.example.com", "v1", "Boat"), "boats")
}

fn definition() -> CustomResourceDefinition {
    let spec = json!({"type": "object", "properties": {"length": {"type": "integer"}}});
    let status = json!({"type": "object", "properties": {"berth": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    serde_json::from_value(json!({"metadata": {"name": "boats.fleet.example.com"}, "spec": {
        "group": "fleet.example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}}]}}))
    .unwrap()
}

struct Harbour {
    client: Client,
    recorder: Recorder,
}

impl Harbour {
    fn boats(&self) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.client.clone(), &boats())
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    /// A boat gets a config map with its length and a status that says where it lies.
    async fn moor(&self, boat: &DynamicObject) -> Result<Action, kube::Error> {
        let name = boat.name_any();
        let owner = boat.controller_owner_ref(&boats()).unwrap();
        let length = boat.data["spec"]["length"].to_string();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]},
            "data": {"length": length}});
        let apply = PatchParams::apply(MANAGER).force();
        self.maps().patch(&name, &apply, &Patch::Apply(map)).await?;
        let berth = format!("berth of {name}, {length} m");
        if boat.data["status"]["berth"] != berth {
            let status = json!({"apiVersion": "fleet.example.com/v1", "kind": "Boat", "status": {"berth": berth}});
            self.boats().patch_status(&name, &apply, &Patch::Apply(status)).await?;
            let moored = Event {
                type_: EventType::Normal,
                reason: "Moored".into(),
                note: Some(berth),
                action: "Mooring".into(),
                secondary: None,
            };
            self.recorder.publish(&moored, &boat.object_ref(&boats())).await?;
        }
        Ok(Action::await_change())
    }
}

async fn reconcile(
    boat: Arc<DynamicObject>,
    harbour: Arc<Harbour>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let inside = harbour.clone();
    finalizer(&harbour.boats(), FINALIZER, boat, |event| async move {
        match event {
            Finalizer::Apply(boat) => inside.moor(&boat).await,
            Finalizer::Cleanup(boat) => {
                // Something outside the cluster would be undone here; that it ran shows in what it leaves behind.
                let note = json!({"metadata": {"name": format!("{}-left", boat.name_any())}});
                let note: ConfigMap = serde_json::from_value(note).unwrap();
                inside.maps().create(&PostParams::default(), &note).await?;
                Ok(Action::await_change())
            }
        }
    })
    .await
}

async fn eventually(what: &str, mut test: impl AsyncFnMut() -> bool) {
    // Virtual time: it passes only while nobody has anything to do.
    for _ in 0..600 {
        if test().await {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("{what} did not come about");
}

fn boat(name: &str, length: u32) -> DynamicObject {
    DynamicObject::new(name, &boats()).data(json!({"spec": {"length": length}}))
}

#[tokio::test(start_paused = true)]
async fn a_controller_lives_on_the_server() {
    let (server, client) = start();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    await_condition(definitions, "boats.fleet.example.com", conditions::is_crd_established()).await.unwrap();

    let reporter = Reporter { controller: MANAGER.into(), instance: None };
    let harbour = Arc::new(Harbour { recorder: Recorder::new(client.clone(), reporter), client: client.clone() });
    let running = Controller::new_with(harbour.boats(), watcher::Config::default(), boats())
        .owns(harbour.maps(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), harbour.clone())
        .for_each(|_| std::future::ready(()));
    let running = tokio::spawn(running);

    // A reflector beside it, with the streaming lists that kube will make its default.
    let writer = reflector::store::Writer::new(boats());
    let reader = writer.as_reader();
    let watched = watcher(harbour.boats(), watcher::Config::default().streaming_lists());
    let mirror = reflector(writer, watched).default_backoff().touched_objects().for_each(|_| std::future::ready(()));
    let mirror = tokio::spawn(mirror);

    let (boats, maps) = (harbour.boats(), harbour.maps());
    for (name, length) in [("anna", 12), ("bertha", 7)] {
        boats.create(&PostParams::default(), &boat(name, length)).await.unwrap();
    }
    let berth = async |name: &str| boats.get(name).await.unwrap().data["status"]["berth"].clone();
    eventually("a berth", async || berth("anna").await == "berth of anna, 12 m").await;
    assert_eq!(boats.get("anna").await.unwrap().finalizers(), [FINALIZER]);
    assert_eq!(maps.get("anna").await.unwrap().data.unwrap()["length"], "12");

    // What is owned and goes comes back, and what changes is put right.
    maps.delete("anna", &DeleteParams::default()).await.unwrap();
    eventually("the map again", async || maps.get_opt("anna").await.unwrap().is_some()).await;
    let vandal = Patch::Merge(json!({"data": {"length": "99"}}));
    maps.patch("anna", &PatchParams::default(), &vandal).await.unwrap();
    eventually("the right length", async || maps.get("anna").await.unwrap().data.unwrap()["length"] == "12").await;

    // Watches that end, and watches that are too old to go on, cost nothing but a list.
    for broken in [ApiServer::drop_watches, ApiServer::expire_watches] {
        server.compact();
        broken(&server);
        let length = 20 + boats.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap().len();
        let longer = Patch::Merge(json!({"spec": {"length": length}}));
        boats.patch("bertha", &PatchParams::default(), &longer).await.unwrap();
        let want = Value::from(format!("berth of bertha, {length} m"));
        eventually("the new length", async || berth("bertha").await == want).await;
        let grown = Patch::Merge(json!({"spec": {"length": 7}}));
        boats.patch("bertha", &PatchParams::default(), &grown).await.unwrap();
        eventually("the old length", async || berth("bertha").await == "berth of bertha, 7 m").await;
    }
    eventually("a full mirror", async || {
        let seen = reader.state();
        seen.len() == 2 && seen.iter().any(|boat| boat.data["status"]["berth"] == "berth of bertha, 7 m")
    })
    .await;

    // The end: the finalizer runs, then the boat and what it owns are gone.
    boats.delete("anna", &DeleteParams::default()).await.unwrap();
    eventually("the end", async || boats.get_opt("anna").await.unwrap().is_none()).await;
    assert!(maps.get_opt("anna-left").await.unwrap().is_some());
    eventually("the end of the map", async || maps.get_opt("anna").await.unwrap().is_none()).await;
    eventually("the end in the mirror", async || reader.state().len() == 1).await;

    let told: Api<CoreEvent> = Api::default_namespaced(client);
    let told = told.list(&ListParams::default()).await.unwrap();
    let moored = told.items.iter().filter(|event| event.reason.as_deref() == Some("Moored"));
    assert!(moored.count() >= 2, "{:?}", told.items);
    running.abort();
    mirror.abort();
}
