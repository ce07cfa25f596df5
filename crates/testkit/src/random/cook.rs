//! From a recipe to a world.

use std::sync::Arc;

use karpenter_core::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ON_DEMAND, OS, RESERVED, SPOT, ZONE};
use karpenter_core::node::Stage;
use karpenter_core::pod::{NodePolicy, Phase, Spread, WhenUnsatisfiable};
use karpenter_core::requirement::Expression;
use karpenter_core::settings::{DefaultSpread, MinValuesPolicy, PreferencePolicy};
use karpenter_core::storage::BindingMode;
use karpenter_core::taints::Effect;
use karpenter_core::{InstanceType, World};

use super::{
    DaemonRecipe, Fate, Key, NodeRecipe, PoolRecipe, Recipe, RunningRecipe, Select, SpreadRecipe, Strength, Tainted,
    Team, TypeRecipe, VolumeRecipe, WorkloadRecipe,
};
use crate::express::{at_least, at_most, exists, is_absent, is_in, not_in, selecting, spread, with_min_values};
use crate::fake::{INTEGER, SIZE, ZONES, instance_type, sold};
use crate::{NodeBuilder, PodBuilder, PoolBuilder, WorldBuilder, node, pod, pool, world};

const APPS: [&str; 5] = ["a", "b", "c", "d", "e"];
const TEAM: &str = "team";
const TAINT: &str = "dedicated";
const GPU: &str = "nvidia.com/gpu";
const DRIVER: &str = "ebs.csi.aws.com";

impl Recipe {
    pub fn world(&self) -> World {
        let types: Arc<[Arc<InstanceType>]> =
            self.types.iter().enumerate().map(|(i, recipe)| Arc::new(recipe.cook(i))).collect();
        let mut here = world().namespace("default", &[("stage", "test")]).namespace("prod", &[("stage", "live")]);
        for (i, recipe) in self.pools.iter().enumerate() {
            here = here.pool(recipe.cook(i).shared_types(&types));
        }
        for (i, recipe) in self.daemons.iter().enumerate() {
            here = here.daemon_set(recipe.cook(i));
        }
        for (i, recipe) in self.nodes.iter().enumerate() {
            here = recipe.cook(i, here, &types, self.pools.len(), self.daemons.len());
        }
        for (i, recipe) in self.workloads.iter().enumerate() {
            here = recipe.cook(i, here);
        }
        for name in &APPS[..2] {
            here = here.service(name, Some(&[("app", name)]));
        }
        here.settings(|settings| {
            if let Some(strength) = self.default_spread {
                settings.default_spread = vec![DefaultSpread {
                    topology_key: ZONE.to_owned(),
                    max_skew: 1,
                    min_domains: None,
                    when: strength.when(),
                    node_affinity: NodePolicy::Honor,
                    node_taints: NodePolicy::Ignore,
                }];
            }
            if self.ignore_preferences {
                settings.preferences = PreferencePolicy::Ignore;
            }
            if self.best_effort_min_values {
                settings.min_values = MinValuesPolicy::BestEffort;
            }
        })
        .build()
    }
}

fn zones_of(bits: u8) -> Vec<&'static str> {
    let chosen = ZONES.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
    chosen.map(|(_, zone)| *zone).collect()
}

fn zone(position: usize) -> &'static str {
    ZONES[position % ZONES.len()]
}

fn effect(tainted: Tainted) -> Effect {
    match tainted {
        Tainted::Hard => Effect::NoSchedule,
        Tainted::Soft => Effect::PreferNoSchedule,
    }
}

impl TypeRecipe {
    fn cook(&self, position: usize) -> InstanceType {
        let memory = self.cpu * self.memory_ratio;
        // Every type costs something else, so that the order of prices is no accident of names.
        let price = u64::from(25_000 * self.cpu + 3_000 * memory) + 400_000 * u64::from(self.gpu) + position as u64;
        let mut offerings = Vec::new();
        for (i, zone) in ZONES.iter().enumerate() {
            let bit = |bits: u8| bits >> i & 1 == 1;
            let stock = |sold: crate::fake::Sold| if bit(self.sold_out) { sold.unavailable() } else { sold };
            if bit(self.zones) {
                offerings.push(stock(sold(zone, ON_DEMAND).at(price)));
            }
            if bit(self.zones) && bit(self.spot_zones) {
                let spot = price * self.spot_percent / 100 + i as u64;
                offerings.push(stock(sold(zone, SPOT).at(spot)));
            }
        }
        if let Some((id, remaining)) = self.reserved {
            let first = zones_of(self.zones)[0];
            offerings.push(sold(first, RESERVED).reserved(&format!("cr-{id}"), remaining).at(1));
        }
        let arch = if self.arm { "arm64" } else { "amd64" };
        let systems: &[&str] = if self.windows_too { &["linux", "windows"] } else { &["linux"] };
        let mut kind = instance_type(&format!("{}x{memory}-{position}", self.cpu))
            .cpu(&self.cpu.to_string())
            .memory(&format!("{memory}Gi"))
            .pods(&(10 + 2 * self.cpu).to_string())
            .arch(arch)
            .systems(systems)
            .offerings(offerings);
        if self.gpu {
            kind = kind.room(GPU, "1");
        }
        kind.build()
    }
}

impl PoolRecipe {
    fn cook(&self, position: usize) -> PoolBuilder {
        let mut built = pool(&format!("pool-{position}")).weight(self.weight);
        if let Some(tainted) = self.taint {
            built = built.taint_of(TAINT, "yes", effect(tainted));
        }
        let zones = self.zones.map(|bits| is_in(ZONE, &zones_of(bits)));
        let capacity_type = self.capacity_type.map(|value| is_in(CAPACITY_TYPE, &[value]));
        let arch = self.arch.map(|value| is_in(ARCH, &[value]));
        let cpus = self.most_cpus.map(|most| at_most(INTEGER, i64::from(most)));
        let types = self.min_types.map(|count| with_min_values(exists(INSTANCE_TYPE), count));
        for expression in [zones, capacity_type, arch, cpus, types].into_iter().flatten() {
            built = built.require(expression);
        }
        built = match self.team {
            Some(Team::Label(value)) => built.label(TEAM, value),
            Some(team) => built.require(team.expression()),
            None => built,
        };
        match self.limit {
            Some(("memory", amount)) => built.limit("memory", &format!("{amount}Gi")),
            Some((resource, amount)) => built.limit(resource, &amount.to_string()),
            None => built,
        }
    }
}

impl Team {
    fn expression(self) -> Expression {
        match self {
            Self::Label(value) => is_in(TEAM, &[value]),
            Self::In(values) => is_in(TEAM, values),
            Self::NotIn(value) => not_in(TEAM, &[value]),
            Self::Exists => exists(TEAM),
            Self::Absent => is_absent(TEAM),
        }
    }
}

impl Select {
    fn expression(self) -> Expression {
        match self {
            Self::Zone(position) => is_in(ZONE, &[zone(position)]),
            Self::Zones(bits) => is_in(ZONE, &zones_of(bits)),
            Self::NotZone(position) => not_in(ZONE, &[zone(position)]),
            Self::Arm => is_in(ARCH, &["arm64"]),
            Self::Amd => is_in(ARCH, &["amd64"]),
            Self::Spot => is_in(CAPACITY_TYPE, &[SPOT]),
            Self::OnDemand => is_in(CAPACITY_TYPE, &[ON_DEMAND]),
            Self::Large => is_in(SIZE, &["large"]),
            Self::AtLeastCpus(count) => at_least(INTEGER, i64::from(count)),
            Self::Linux => is_in(OS, &["linux"]),
        }
    }

    /// Where a plain label says it, in the node selector; else as an affinity term of its own.
    fn apply(self, pod: PodBuilder) -> PodBuilder {
        match self {
            Self::Zone(position) => pod.zone(zone(position)),
            Self::Arm => pod.select(ARCH, "arm64"),
            Self::Spot => pod.select(CAPACITY_TYPE, SPOT),
            Self::Linux => pod.select(OS, "linux"),
            Self::Zones(_) | Self::NotZone(_) | Self::Amd | Self::OnDemand | Self::Large | Self::AtLeastCpus(_) => {
                pod.require(vec![self.expression()])
            }
        }
    }
}

impl Strength {
    fn when(self) -> WhenUnsatisfiable {
        match self {
            Self::Hard => WhenUnsatisfiable::DoNotSchedule,
            Self::Soft => WhenUnsatisfiable::ScheduleAnyway,
        }
    }
}

impl Key {
    fn name(self) -> &'static str {
        match self {
            Self::Zone => ZONE,
            Self::Host => HOSTNAME,
            Self::CapacityType => CAPACITY_TYPE,
            Self::Arch => ARCH,
            Self::Team => TEAM,
        }
    }
}

fn app(position: usize) -> [(&'static str, &'static str); 1] {
    [("app", APPS[position % APPS.len()])]
}

impl DaemonRecipe {
    fn cook(&self, position: usize) -> PodBuilder {
        let mut built = pod(&format!("daemon-{position}")).cpu(&format!("{}m", self.milli_cpu)).memory("64Mi");
        if let Some(select) = self.select {
            built = select.apply(built);
        }
        if self.tolerates {
            built = built.tolerate(TAINT);
        }
        match self.port {
            Some(port) => built.port(port),
            None => built,
        }
    }
}

impl NodeRecipe {
    fn cook(
        &self,
        position: usize,
        mut here: WorldBuilder,
        types: &[Arc<InstanceType>],
        pools: usize,
        daemons: usize,
    ) -> WorldBuilder {
        let name = format!("node-{position}");
        let mut built: NodeBuilder = node(&name);
        if let Some(kind) = types.get(self.kind % types.len().max(1)) {
            built = built.of_type(kind, zone(self.zone), ON_DEMAND);
        }
        built = match self.pool {
            Some(pool) if pools > 0 => built.of_pool(&format!("pool-{}", pool % pools)),
            Some(_) | None => built,
        };
        if self.pool.is_some() && pools > 0 && !self.initialized {
            built = built.stage(Stage::Registered);
        }
        if let Some(tainted) = self.tainted {
            built = built.taint_of(TAINT, "yes", effect(tainted));
        }
        if let Some(team) = self.team {
            built = built.label(TEAM, team);
        }
        if let Some(limit) = self.volume_limit {
            built = built.volume_limit(DRIVER, limit);
        }
        if self.deleting {
            built = built.deleting();
        }
        here = here.node(built);
        for (i, recipe) in self.pods.iter().enumerate() {
            here = recipe.cook(&name, zone(self.zone), i, here, daemons);
        }
        here
    }
}

impl RunningRecipe {
    fn cook(&self, on: &str, zone: &str, position: usize, mut here: WorldBuilder, daemons: usize) -> WorldBuilder {
        let name = format!("old-{on}-{position}");
        let mut built =
            pod(&name).app(APPS[self.app % APPS.len()]).cpu(&format!("{}m", self.cpu)).memory("128Mi").on(on);
        if let Some((key, avoided)) = self.avoids {
            built = built.anti_affinity(key.name(), &app(avoided));
        }
        if let Some(port) = self.port {
            built = built.port(port);
        }
        if self.claim {
            here = here.zonal_claim(&name, zone);
            built = built.claim(&name);
        }
        here.pod(match self.fate {
            Fate::Plain => built,
            Fate::Daemon if daemons > 0 => built.daemon_of(&format!("daemon-{}", position % daemons)),
            Fate::Daemon => built,
            Fate::Terminating => built.terminating(),
            Fate::Returns => built.terminating().owned_by("apps/v1", "StatefulSet", "s"),
            Fate::Protected => built.do_not_disrupt("true"),
            Fate::Done => built.phase(Phase::Succeeded),
        })
    }
}

impl WorkloadRecipe {
    fn cook(&self, position: usize, mut here: WorldBuilder) -> WorldBuilder {
        let name = format!("w{position}");
        let mut built = pod(&name)
            .namespace(if self.prod { "prod" } else { "default" })
            .app(APPS[self.app % APPS.len()])
            .label("workload", &name)
            .cpu(&format!("{}m", self.milli_cpu))
            .memory(&format!("{}Mi", self.memory_mib));
        if self.gpu {
            built = built.request(GPU, "1");
        }
        if self.tolerates {
            built = built.tolerate(TAINT);
        }
        built = self.selected(built);
        built = self.in_company(built);
        if let Some(port) = self.port {
            built = built.port(port);
        }
        for i in 0..self.replicas {
            let one = built.clone().named(&format!("{name}-{i}"));
            let (with_volume, one) = self.with_volume(&format!("{name}-{i}"), here, one);
            here = with_volume.pod(one);
        }
        here
    }

    fn selected(&self, mut built: PodBuilder) -> PodBuilder {
        let mut own: Vec<Vec<Expression>> = self.alternatives.iter().map(|s| vec![s.expression()]).collect();
        match (self.select, own.is_empty()) {
            (Some(select), true) => built = select.apply(built),
            (Some(select), false) => own.iter_mut().for_each(|term| term.push(select.expression())),
            (None, _) => (),
        }
        if let Some(team) = self.team {
            match built.shape.required_node_affinity.first_mut() {
                Some(term) => term.expressions.push(team.expression()),
                None if own.is_empty() => own.push(vec![team.expression()]),
                None => own.iter_mut().for_each(|term| term.push(team.expression())),
            }
        }
        built = own.into_iter().fold(built, PodBuilder::require);
        match self.prefers {
            Some(select) => built.prefer(10, vec![select.expression()]),
            None => built,
        }
    }

    fn in_company(&self, mut built: PodBuilder) -> PodBuilder {
        for (i, recipe) in self.spread.iter().enumerate() {
            // The API server takes a key only once with the same strength.
            let again = |other: &&SpreadRecipe| (other.key, other.strength) == (recipe.key, recipe.strength);
            if !self.spread[..i].iter().any(|other| again(&other)) {
                built = built.spread(recipe.cook(self.app));
            }
        }
        built = match self.joins {
            Some((key, joined, Strength::Hard)) => built.affinity(key.name(), &app(joined)),
            Some((key, joined, Strength::Soft)) => built.prefer_affinity(5, key.name(), &app(joined)),
            None => built,
        };
        built = match self.avoids {
            Some((key, avoided, Strength::Hard)) => built.anti_affinity(key.name(), &app(avoided)),
            Some((key, avoided, Strength::Soft)) => built.prefer_anti_affinity(5, key.name(), &app(avoided)),
            None => built,
        };
        if self.everywhere {
            let shape = &mut built.shape;
            let terms = shape.required_pod_affinity.iter_mut().chain(&mut shape.required_pod_anti_affinity);
            terms.for_each(|term| term.namespace_selector = Some(selecting(&[])));
        }
        built
    }

    /// Claims live in namespace `default`; elsewhere a pod would wait for one that nobody made.
    fn with_volume(&self, claim: &str, here: WorldBuilder, one: PodBuilder) -> (WorldBuilder, PodBuilder) {
        if self.prod {
            return (here, one);
        }
        match self.volume {
            Some(VolumeRecipe::Bound(at)) => (here.zonal_claim(claim, zone(at)), one.claim(claim)),
            Some(VolumeRecipe::Late(bits)) => {
                let class = format!("late-{bits}");
                let made = here.storage_class(&class, BindingMode::WaitForFirstConsumer, &zones_of(bits));
                (made.waiting_claim(claim, &class), one.claim(claim))
            }
            Some(VolumeRecipe::Missing) => (here, one.claim(claim)),
            None => (here, one),
        }
    }
}

impl SpreadRecipe {
    fn cook(&self, own: usize) -> Spread {
        let policy = |honor| if honor { NodePolicy::Honor } else { NodePolicy::Ignore };
        Spread {
            min_domains: self.min_domains.filter(|_| self.strength == Strength::Hard),
            when: self.strength.when(),
            node_taints: policy(self.honor_taints),
            node_affinity: policy(!self.ignore_affinity),
            ..spread(self.key.name(), self.max_skew, &app(self.of_app.unwrap_or(own)))
        }
    }
}
