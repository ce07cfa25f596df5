//! What somebody may have meant who wrote a name that does not exist.

/// The known name nearest to the one given, if it is near: a slip or two, or another capitalisation. Of several equally
/// near the first.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(usize, &'a str)> = None;
    for name in known {
        let distance = if name.eq_ignore_ascii_case(given) { 0 } else { distance(given, name) };
        if distance <= tolerance(given, name) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// As many slips as leave the name recognisable.
fn tolerance(given: &str, known: &str) -> usize {
    (given.len().min(known.len()) / 3).clamp(1, 3)
}

/// Insertions, deletions, replacements and swaps of neighbours between two names.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Names that differ in length by more than anything tolerated need no table; absurd ones get none.
    if a.len().abs_diff(b.len()) > 3 || a.len() > 100 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_names_are_not() {
        let kinds = ["Pod", "NodePool", "Deployment", "ReplicaSet", "PodTemplate"];
        for (given, want) in [
            ("Podd", Some("Pod")),
            ("Nodepool", Some("NodePool")),
            ("NodePools", Some("NodePool")),
            ("Deploymnet", Some("Deployment")),
            ("replicaset", Some("ReplicaSet")),
            ("Foo", None),
            ("ServiceMonitor", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, kinds), want, "{given}");
        }
        assert_eq!(nearest("request", ["limits", "requests"]), Some("requests"));
        assert_eq!(nearest("resouces", ["requests", "resources"]), Some("resources"));
    }
}
