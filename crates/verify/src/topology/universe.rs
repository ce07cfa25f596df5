//! Which domains of a key exist because some pool could create them.

use std::collections::BTreeSet;

use karpenter_core::{Operator, Toleration, World};

use crate::claim::template_labels;
use crate::labels::{canonical, holds_for};
use crate::tolerations;

/// Values of the key that some pool allows and one of its types has, and values that a pool names itself. With
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
        let declared = pool.instance_types.iter().filter_map(|kind| kind.requirements.0.get(key));
        let of_types = declared.filter(|d| !d.open).flat_map(|d| d.values.iter().map(|value| &**value));
        values.extend(of_types.filter(|value| allowed(value)));
        let named = asked().filter(|expression| expression.operator == Operator::In);
        let named = named.flat_map(|expression| expression.values.iter().map(|value| &**value));
        values.extend(named.chain(label).filter(|value| allowed(value)));
    }
    values
}
