//! Instances survive a restart: they are kept in ConfigMaps, five hundred each.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_provider_aws::calls::{Instance, InstanceState};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::machine::Shape;
use crate::region::{Record, Region};

const PREFIX: &str = "kwok-aws-instances-";
const PER_MAP: usize = 500;
const EVERY: Duration = Duration::from_secs(1);
const KEY: &str = "instances";
const MANAGER: &str = "karpenter-simulated-region";

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("ConfigMap {name}: {source}")]
    Unreadable {
        name: String,
        #[source]
        source: serde_json::Error,
    },
}

/// One ConfigMap. Machines of one template and type look alike, so their looks are kept once.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Page {
    shapes: BTreeMap<String, Shape>,
    instances: Vec<Saved>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    id: String,
    state: String,
    instance_type: String,
    image: String,
    zone: String,
    zone_id: Option<String>,
    subnet: Option<String>,
    launched_at: Timestamp,
    tags: BTreeMap<String, String>,
    spot_request: Option<String>,
    reservation: Option<String>,
    reservation_preference: Option<String>,
    lifecycle: Option<String>,
    tenancy: Option<String>,
    security_groups: Vec<String>,
    efa_interfaces: u32,
    placement_group: Option<String>,
    partition: Option<u32>,
    class: String,
    price: u64,
    shape: Option<String>,
    ended_at: Option<Timestamp>,
}

impl Region {
    /// The pages, oldest instances first. The same state gives the same text.
    pub fn save(&self) -> Vec<String> {
        let state = self.lock();
        let mut records: Vec<&Record> = state.records.values().collect();
        records.sort_by(|a, b| (a.instance.launched_at, &a.instance.id).cmp(&(b.instance.launched_at, &b.instance.id)));
        records
            .chunks(PER_MAP)
            .map(|records| {
                let shapes = records.iter().filter_map(|record| record.shape.as_ref());
                let shapes = shapes.filter_map(|key| Some((key.clone(), state.shapes.get(key)?.clone()))).collect();
                let page = Page { shapes, instances: records.iter().map(|record| saved(record)).collect() };
                serde_json::to_string(&page).expect("plain data with string keys")
            })
            .collect()
    }

    /// What [`Self::save`] gave. Machines of running instances are switched on at once.
    pub fn load(&self, pages: &[(String, String)]) -> Result<usize, StoreError> {
        let now = self.now();
        let mut read = Vec::new();
        for (name, text) in pages {
            let unreadable = |source| StoreError::Unreadable { name: name.clone(), source };
            read.push(serde_json::from_str::<Page>(text).map_err(unreadable)?);
        }
        let mut state = self.lock();
        let mut count = 0;
        for page in read {
            state.shapes.extend(page.shapes);
            for saved in page.instances {
                state.restore(self.options(), restored(saved, now));
                count += 1;
            }
        }
        state.resume(self.options(), now);
        Ok(count)
    }
}

fn saved(record: &Record) -> Saved {
    let instance = record.instance.clone();
    Saved {
        id: instance.id,
        state: record.state.as_str().to_owned(),
        instance_type: instance.instance_type,
        image: instance.image_id,
        zone: instance.zone,
        zone_id: instance.zone_id,
        subnet: instance.subnet_id,
        launched_at: instance.launched_at,
        tags: instance.tags,
        spot_request: instance.spot_request_id,
        reservation: instance.capacity_reservation_id,
        reservation_preference: instance.reservation_preference,
        lifecycle: instance.lifecycle,
        tenancy: instance.tenancy,
        security_groups: instance.security_groups,
        efa_interfaces: instance.efa_interfaces,
        placement_group: instance.placement_group_id,
        partition: instance.partition,
        class: record.class.as_str().to_owned(),
        price: record.price.0,
        shape: record.shape.clone(),
        ended_at: record.ended_at,
    }
}

fn restored(saved: Saved, now: Timestamp) -> Record {
    let state = InstanceState::parse(&saved.state).unwrap_or(InstanceState::Running);
    Record {
        instance: Instance {
            id: saved.id,
            state,
            instance_type: saved.instance_type,
            image_id: saved.image,
            zone: saved.zone,
            zone_id: saved.zone_id,
            subnet_id: saved.subnet,
            launched_at: saved.launched_at,
            tags: saved.tags,
            spot_request_id: saved.spot_request,
            capacity_reservation_id: saved.reservation,
            reservation_preference: saved.reservation_preference,
            lifecycle: saved.lifecycle,
            tenancy: saved.tenancy,
            security_groups: saved.security_groups,
            efa_interfaces: saved.efa_interfaces,
            placement_group_id: saved.placement_group,
            partition: saved.partition,
        },
        state,
        seen_states: vec![(now, state)],
        class: CapacityClass::parse(&saved.class).unwrap_or(CapacityClass::OnDemand),
        price: MicroUsd(saved.price),
        node: None,
        shape: saved.shape,
        ended_at: saved.ended_at,
    }
}

/// Where the pages are.
#[derive(Clone)]
pub struct Store {
    pub client: kube::Client,
    pub namespace: String,
}

impl Store {
    /// Reads what an earlier process left. Until then the region answers no call.
    pub async fn load(&self, region: &Region) -> Result<usize, StoreError> {
        region.close();
        let found = self.maps().list(&ListParams::default()).await?;
        let mut pages: Vec<(u64, String, String)> = Vec::new();
        for map in found.items {
            let Some(number) = map.metadata.name.as_deref().and_then(page_number) else { continue };
            let text = map.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default();
            pages.push((number, map.metadata.name.unwrap_or_default(), text));
        }
        pages.sort();
        let pages: Vec<(String, String)> = pages.into_iter().map(|(_, name, text)| (name, text)).collect();
        let count = region.load(&pages)?;
        region.open();
        Ok(count)
    }

    /// Writes what changed and deletes pages that are no longer needed.
    pub async fn save(&self, region: &Region) -> Result<(), StoreError> {
        if !std::mem::take(&mut region.lock().dirty) {
            return Ok(());
        }
        let written = self.write(&region.save()).await;
        if written.is_err() {
            region.lock().dirty = true;
        }
        written
    }

    async fn write(&self, pages: &[String]) -> Result<(), StoreError> {
        let maps = self.maps();
        for (number, text) in pages.iter().enumerate() {
            let name = format!("{PREFIX}{number}");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {KEY: text}});
            maps.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(map)).await?;
        }
        let found = maps.list_metadata(&ListParams::default()).await?;
        for name in found.items.into_iter().filter_map(|map| map.metadata.name) {
            if page_number(&name).is_some_and(|number| number >= pages.len() as u64) {
                match maps.delete(&name, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    other => {
                        other?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Saves every second, for as long as it is polled.
    pub async fn run(&self, region: &Region) {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.save(region).await {
                tracing::warn!(%error, "the simulated region could not be saved");
            }
        }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn page_number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}
