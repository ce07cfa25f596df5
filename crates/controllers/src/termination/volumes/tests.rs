use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn attached(names: &[&str]) -> Vec<Arc<Attachment>> {
    let one = |name: &&str| {
        // Inline volumes have no volume object.
        let volume = (!name.starts_with("inline")).then(|| format!("pv-{name}").into());
        Arc::new(Attachment { name: (*name).into(), node: "n".into(), volume, deleting: false })
    };
    names.iter().map(one).collect()
}

fn kept(names: &[&str]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| format!("pv-{name}").into()).collect()
}

fn awaiting(names: &str) -> Volumes {
    Volumes::Awaiting { message: format!("Awaiting deletion of bound volumeattachments ({names})") }
}

#[test]
fn volumes_of_pods_that_left_are_waited_for() {
    // covers: LC-TERM-34, LC-TERM-36
    for (what, attachments, keep, deadline, now, want) in [
        ("none", attached(&[]), kept(&[]), None, 0, Volumes::Detached),
        ("one", attached(&["a"]), kept(&[]), None, 0, awaiting("a")),
        ("of a pod that stays", attached(&["a"]), kept(&["a"]), None, 0, Volumes::Detached),
        ("inline", attached(&["inline"]), kept(&[]), None, 0, Volumes::Detached),
        ("two of three", attached(&["a", "b", "c"]), kept(&["b"]), None, 0, awaiting("a, c")),
        ("at the deadline", attached(&["a"]), kept(&[]), Some(100), 100, awaiting("a")),
        ("past the deadline", attached(&["a"]), kept(&[]), Some(100), 101, Volumes::GaveUp),
        ("none, past the deadline", attached(&[]), kept(&[]), Some(100), 101, Volumes::Detached),
        (
            "many",
            attached(&["a", "b", "c", "d", "e", "f", "g"]),
            kept(&[]),
            None,
            0,
            awaiting("a, b, c, d, e and 2 other(s)"),
        ),
    ] {
        assert_eq!(judge(&attachments, &keep, deadline.map(at), at(now)), want, "{what}");
    }
}
