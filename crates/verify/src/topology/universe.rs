//! Which domains of a key exist because some pool could create them.

use std::collections::BTreeSet;

use karpenter_core::{InstanceType, Operator, Pool, Requirements, Toleration, World};

use crate::claim::template_labels;
use crate::labels::{canonical, holds_for};
use crate::tolerations;

/// Values of the key that some pool allows and one of the types it can buy has, and values that a pool names itself. With
/// tolerations only pools count all of whose taints they cover.
pub(crate) fn creatable<'w>(world: &'w World, key: &str, tolerations: Option<&[Toleration]>) -> BTreeSet<&'w str> {
    let mut values = BTreeSet::new();
    for pool in &world.pools {
        if tolerations.is_some_and(|own| !tolerations::all(&pool.taints, own)) {
            continue;
        }
        let asked = || pool.requirements.iter().filter(|e| canonical(&world.vocabulary, &e.key) == key);
        let label = template_labels(world, pool).get(key).copied();
        let allowed = |value: &str| {
            asked().all(|expression| holds_for(expression, Some(value))) && label.is_none_or(|label| label == value)
        };
        let bought = pool.instance_types.iter().filter(|kind| is_bought(world, pool, kind));
        let declared = bought.filter_map(|kind| kind.requirements.0.get(key));
        let of_types = declared.filter(|d| !d.open).flat_map(|d| d.values.iter().map(|value| &**value));
        values.extend(of_types.filter(|value| allowed(value)));
        let named = asked().filter(|expression| expression.operator == Operator::In);
        let named = named.flat_map(|expression| expression.values.iter().map(|value| &**value));
        values.extend(named.chain(label).filter(|value| allowed(value)));
    }
    values
}

/// Whether the pool's requirements and labels leave the type, and an offering of it that is to be had.
fn is_bought(world: &World, pool: &Pool, kind: &InstanceType) -> bool {
    let labels = template_labels(world, pool);
    let leaves = |declared: &Requirements| {
        let asked = pool.requirements.iter().all(|expression| {
            match declared.0.get(canonical(&world.vocabulary, &expression.key)) {
                None => true,
                Some(of) if of.open => true,
                Some(of) if of.values.is_empty() => holds_for(expression, None),
                Some(of) => of.values.iter().any(|value| holds_for(expression, Some(value))),
            }
        });
        asked
            && labels
                .iter()
                .all(|(key, value)| declared.0.get(key).is_none_or(|of| of.open || of.values.contains(*value)))
    };
    leaves(&kind.requirements)
        && kind.offerings.iter().any(|offering| offering.available && leaves(&offering.requirements))
}
