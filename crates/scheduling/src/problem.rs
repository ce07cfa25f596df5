//! A world compiled into small integers: templates, nodes, classes of equal pods, topology groups.

use std::cmp::Ordering;
use std::sync::Arc;

use karpenter_core::World;
use karpenter_core::plan::LeftOver;
use karpenter_core::taints::Effect;

use crate::admit;
use crate::catalog::Catalog;
use crate::classes::{Class, Classes};
use crate::columns::{ResId, ResourceNames};
use crate::daemons::{self, Daemon};
use crate::deadline::Deadline;
use crate::domains::Domains;
use crate::existing::{self, ExistingNode, NodeIndex};
use crate::groups::{GroupId, Groups};
use crate::template::{self, Dropped, Template};
use crate::terms::Terms;
use crate::type_tables::TypeTables;

#[derive(Clone)]
pub(crate) struct Problem<'w> {
    pub(crate) world: &'w World,
    pub(crate) terms: Terms,
    pub(crate) names: ResourceNames,
    pub(crate) catalogs: Vec<Catalog>,
    /// In the order in which they are tried.
    pub(crate) templates: Arc<[Template]>,
    /// Pools without a template, in the same order.
    pub(crate) dropped: Vec<(usize, Dropped)>,
    pub(crate) daemons: Vec<Daemon>,
    /// Targets, in the order in which they are tried.
    pub(crate) nodes: Arc<[ExistingNode]>,
    pub(crate) node_index: NodeIndex,
    pub(crate) classes: Arc<[Class]>,
    /// In the order in which they are tried.
    pub(crate) pods: Arc<[PendingPod]>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) domains: Domains,
    pub(crate) ignored: Vec<LeftOver>,
    pub(crate) deadline: Deadline,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingPod {
    /// In `World::pods`.
    pub(crate) index: usize,
    pub(crate) class: usize,
}

impl<'w> Problem<'w> {
    pub(crate) fn compile(world: &'w World) -> Self {
        Self::compile_with(world, &[])
    }

    /// With classes for these bound pods as well: they stay where they are until somebody moves them.
    pub(crate) fn compile_with(world: &'w World, movable: &[usize]) -> Self {
        let TypeTables { mut terms, mut names, mut catalogs, allocatable } = TypeTables::of(world);
        let admitted = admit::admit(world);
        let daemons = daemons::compile(world, &mut terms, &mut names);
        let soft_taints = world.pools.iter().any(|pool| has_soft(&pool.taints))
            || world.nodes.iter().any(|node| !node.deleting && has_soft(&node.taints));

        let mut groups = Groups::default();
        let mut classes = Classes::new(world, soft_taints);
        let mut pods: Vec<PendingPod> = Vec::with_capacity(admitted.pods.len());
        for index in admitted.pods.iter().chain(movable) {
            let class = classes.class_of(*index, &mut terms, &mut names, &mut groups);
            pods.push(PendingPod { index: *index, class });
        }
        let (mut classes, bound) = classes.finish(&admitted.pods, &mut groups);
        sort_queue(&mut pods, &classes, world);

        let order = template::order(world);
        let mut templates = Vec::new();
        let mut dropped = Vec::new();
        for limit in world.pools.iter().flat_map(|pool| pool.limits.iter()) {
            names.id(limit.0);
        }
        for pool in order {
            let types = &world.pools[pool].instance_types;
            let at = catalogs.iter().position(|catalog| Arc::ptr_eq(&catalog.types, types));
            let at = at.expect("every pool's types were compiled");
            let mut c = template::Compiled {
                world,
                terms: &mut terms,
                names: &mut names,
                daemons: &daemons,
                allocatable: &allocatable[at],
            };
            match template::compile(&mut c, pool, at, &mut catalogs[at]) {
                Ok(template) => templates.push(template),
                Err(why) => dropped.push((pool, why)),
            }
        }
        let nodes = existing::compile(world, &daemons, &mut terms, &mut names);
        let node_index = NodeIndex::new(&nodes, &terms);
        let domains = Domains::new(world, &groups, &nodes, &bound, &mut catalogs, &mut terms);
        for class in &mut classes {
            for variant in &mut class.variants {
                variant.templates = (0..templates.len())
                    .filter(|t| {
                        karpenter_core::taints::untolerated(&templates[*t].taints, &variant.tolerations).is_none()
                    })
                    .collect();
            }
        }
        Self {
            world,
            terms,
            names,
            catalogs,
            templates: templates.into(),
            dropped,
            daemons,
            nodes: nodes.into(),
            node_index,
            classes: classes.into(),
            pods: pods.into(),
            groups: Arc::new(groups),
            domains,
            ignored: admitted.ignored,
            deadline: Deadline::default(),
        }
    }

    pub(crate) fn group_is_hostname(&self, id: GroupId) -> bool {
        self.groups.get(id).is_hostname()
    }
}

/// A problem without the world it was compiled from.
pub(crate) struct Tables {
    terms: Terms,
    names: ResourceNames,
    catalogs: Vec<Catalog>,
    templates: Arc<[Template]>,
    dropped: Vec<(usize, Dropped)>,
    daemons: Vec<Daemon>,
    nodes: Arc<[ExistingNode]>,
    node_index: NodeIndex,
    classes: Arc<[Class]>,
    pub(crate) pods: Arc<[PendingPod]>,
    groups: Arc<Groups>,
    domains: Domains,
    ignored: Vec<LeftOver>,
}

impl Problem<'_> {
    pub(crate) fn into_tables(self) -> Tables {
        Tables {
            terms: self.terms,
            names: self.names,
            catalogs: self.catalogs,
            templates: self.templates,
            dropped: self.dropped,
            daemons: self.daemons,
            nodes: self.nodes,
            node_index: self.node_index,
            classes: self.classes,
            pods: self.pods,
            groups: self.groups,
            domains: self.domains,
            ignored: self.ignored,
        }
    }
}

impl Tables {
    /// With a world that has the same nodes and pools at the same positions. Pods are the caller's to put right.
    pub(crate) fn on(self, world: &World) -> Problem<'_> {
        Problem {
            world,
            terms: self.terms,
            names: self.names,
            catalogs: self.catalogs,
            templates: self.templates,
            dropped: self.dropped,
            daemons: self.daemons,
            nodes: self.nodes,
            node_index: self.node_index,
            classes: self.classes,
            pods: self.pods,
            groups: self.groups,
            domains: self.domains,
            ignored: self.ignored,
            deadline: Deadline::default(),
        }
    }
}

fn has_soft(taints: &[karpenter_core::Taint]) -> bool {
    taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule)
}

fn sort_queue(pods: &mut [PendingPod], classes: &[Class], world: &World) {
    pods.sort_by(|a, b| in_queue_order(a, b, classes, world));
}

/// CPU descending, memory descending, then oldest first, then by UID.
pub(crate) fn in_queue_order(a: &PendingPod, b: &PendingPod, classes: &[Class], world: &World) -> Ordering {
    let size = |class: usize, resource| classes[class].requests.get(resource);
    let larger = |resource| size(b.class, resource).cmp(&size(a.class, resource));
    let (cpu, memory) = (larger(ResId::CPU), larger(ResId::MEMORY));
    cpu.then(memory).then_with(|| {
        let (a, b) = (&world.pods[a.index], &world.pods[b.index]);
        (a.created, &a.uid).cmp(&(b.created, &b.uid))
    })
}
