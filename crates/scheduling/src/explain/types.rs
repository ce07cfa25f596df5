//! Which of the three criteria (requirements, size, offering) no instance type met, alone and together.

use std::collections::BTreeSet;

use karpenter_core::labels::{INITIALIZED, REGISTERED};
use karpenter_core::plan::{PoolReason, TypeFailure};
use karpenter_core::resources::CPU;
use karpenter_core::{Quantity, Resources};

use crate::problem::Problem;
use crate::state::Claim;
use crate::terms::SetId;

/// Nobody has a machine with a million CPUs; `1M` is what people type who mean `1m`.
const SUSPICIOUS_CPUS: i64 = 1_000_000;

impl Problem<'_> {
    pub(super) fn type_failure(&mut self, claim: &Claim, class: usize, set: SetId) -> PoolReason {
        let of = &self.templates[claim.template];
        let usable = self.catalogs[of.catalog].usable(set, &mut self.terms);
        let among = |bits: &crate::bits::Bits| {
            let mut bits = bits.clone();
            bits.and(&claim.types);
            bits
        };
        let (required, offered) = (among(&usable.by_requirements), among(&usable.offered));
        let mut large = claim.types.clone();
        for (resource, amount) in &self.classes[class].requests.0 {
            of.fit.keep(&mut large, *resource, *amount);
        }
        let mut said = self.terms.to_requirements(set);
        [REGISTERED, INITIALIZED].iter().for_each(|assumed| drop(said.0.remove(assumed)));
        let asked = &self.classes[class].shape.requests;
        PoolReason::Types(TypeFailure {
            requirements_met: !required.is_empty(),
            fits: !large.is_empty(),
            has_offering: !offered.is_empty(),
            requirements_and_fits: required.intersects(&large),
            requirements_and_offering: required.intersects(&offered),
            fits_and_offering: large.intersects(&offered),
            requirements: said.to_string(),
            requests: self.with_daemons(claim, asked),
            suspicious_cpu: asked.get(CPU) >= Quantity::from_units(SUSPICIOUS_CPUS),
        })
    }

    /// What is needed with daemons: least and most over the groups of types that run the same ones.
    fn with_daemons(&self, claim: &Claim, asked: &Resources) -> (Resources, Resources) {
        let running = &self.templates[claim.template].daemons;
        let groups: BTreeSet<Vec<usize>> = claim.types.iter().map(|kind| running[kind].iter().collect()).collect();
        let mut range: Option<(Resources, Resources)> = None;
        for group in groups {
            let mut needed = asked.clone();
            group.iter().for_each(|daemon| needed.add(&self.daemons[*daemon].shape.requests));
            range = Some(match range {
                None => (needed.clone(), needed),
                Some((least, mut most)) => {
                    most.max(&needed);
                    (least.min(&needed), most)
                }
            });
        }
        range.unwrap_or_else(|| (asked.clone(), asked.clone()))
    }
}
