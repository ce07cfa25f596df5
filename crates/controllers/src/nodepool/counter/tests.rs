use super::*;
use karpenter_core::Quantity as Amount;

fn text(pool: &NodePool) -> Vec<(String, String)> {
    let resources = pool.status.as_ref().unwrap().resources.as_ref().unwrap();
    resources.iter().map(|(name, amount)| (name.clone(), amount.0.clone())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
}

#[test]
fn zeros_are_written_too() {
    // covers: NP-COUNT-01
    let mut pool = NodePool::default();
    count(&mut pool, &Resources::new());
    let zeros = [("cpu", "0"), ("ephemeral-storage", "0"), ("memory", "0"), ("nodes", "0"), ("pods", "0")];
    assert_eq!(text(&pool), pairs(&zeros));
    assert_eq!(pool.status.as_ref().unwrap().nodes, 0);
    let usage = Resources::from_iter([
        (CPU, Amount::from_units(6)),
        (NODES, Amount::from_units(2)),
        ("nvidia.com/gpu", Amount::from_units(1)),
    ]);
    count(&mut pool, &usage);
    let want = [
        ("cpu", "6"),
        ("ephemeral-storage", "0"),
        ("memory", "0"),
        ("nodes", "2"),
        ("nvidia.com/gpu", "1"),
        ("pods", "0"),
    ];
    assert_eq!(text(&pool), pairs(&want));
    assert_eq!(pool.status.as_ref().unwrap().nodes, 2);
}

#[test]
fn another_spelling_is_no_change() {
    let mut pool = NodePool::default();
    count(&mut pool, &Resources::from_iter([(CPU, Amount::from_units(2))]));
    pool.status.as_mut().unwrap().resources.as_mut().unwrap().insert("cpu".into(), Quantity("2000m".into()));
    let before = pool.clone();
    count(&mut pool, &Resources::from_iter([(CPU, Amount::from_units(2))]));
    assert_eq!(pool, before);
}
