use super::*;
use jiff::Timestamp;

fn annotated(version: Option<&str>, hash: &str) -> Option<Annotations> {
    let mut all = Annotations::from([("other".to_owned(), "kept".to_owned())]);
    all.insert(NODEPOOL_HASH.to_owned(), hash.to_owned());
    all.extend(version.map(|version| (NODEPOOL_HASH_VERSION.to_owned(), version.to_owned())));
    Some(all)
}

fn keys(changes: &Annotations) -> Vec<&str> {
    changes.keys().map(String::as_str).collect()
}

#[test]
fn a_pool_carries_its_hash_and_its_version() {
    // covers: NP-HASH-01
    let mut pool = NodePool::default();
    let hash = nodepool_hash(&pool);
    assert_eq!(keys(&pool_changes(&pool)), [NODEPOOL_HASH, NODEPOOL_HASH_VERSION]);
    pool.metadata.annotations = annotated(Some(VERSION), &hash);
    assert!(pool_changes(&pool).is_empty() && !is_migrating(&pool));
    pool.spec.template.spec.node_class_ref.name = "other".into();
    let changes = pool_changes(&pool);
    assert_eq!(keys(&changes), [NODEPOOL_HASH]);
    assert_ne!(changes[NODEPOOL_HASH], hash);
    pool.spec.weight = Some(7);
    assert_eq!(pool_changes(&pool), changes, "outside the template");
}

#[test]
fn claims_of_another_version_follow_before_their_pool() {
    // covers: NP-HASH-08, NP-HASH-09
    let pool = NodePool::default();
    let mut old = pool.clone();
    old.metadata.annotations = annotated(Some("v2"), "1");
    assert!(is_migrating(&pool) && is_migrating(&old));

    let mut claim = NodeClaim::default();
    for version in [None, Some("v2")] {
        claim.metadata.annotations = annotated(version, "1");
        let changes = claim_changes(&pool, &claim);
        assert_eq!(changes[NODEPOOL_HASH], nodepool_hash(&pool));
        assert_eq!(changes[NODEPOOL_HASH_VERSION], VERSION);
    }
    claim.conditions_at(Timestamp::UNIX_EPOCH).set_true_because(DRIFTED, "NodePoolDrifted", "");
    assert_eq!(keys(&claim_changes(&pool, &claim)), [NODEPOOL_HASH_VERSION], "drifted ones keep their hash");
    claim.metadata.annotations = annotated(Some(VERSION), "1");
    assert!(claim_changes(&pool, &claim).is_empty(), "not touched again");
}

#[test]
fn an_edit_during_a_change_of_the_hash_is_no_drift() {
    // covers: CP-I2
    let mut pool = NodePool::default();
    pool.metadata.annotations = annotated(Some("v2"), "1");
    let mut claim = NodeClaim::default();
    claim.metadata.annotations = annotated(Some("v2"), "1");
    // While nobody was there: a new version of the hash, and a new template.
    pool.spec.template.spec.node_class_ref.name = "other".into();
    let (of_claim, of_pool) = (claim_changes(&pool, &claim), pool_changes(&pool));
    assert_eq!(of_claim[NODEPOOL_HASH], of_pool[NODEPOOL_HASH], "equal hashes: the edit is accepted");
}
