use super::*;
use crate::labels::ZONE;
use crate::requirement::Operator;

fn words() -> Vocabulary {
    Vocabulary::kubernetes()
}

fn set(list: &[(&str, Operator, &[&str])]) -> Requirements {
    let expressions: Vec<Expression> =
        list.iter().map(|(key, operator, values)| Expression::new(key, *operator, values)).collect();
    Requirements::from_expressions(&expressions, &words())
}

fn labels(items: &[(&str, &str)]) -> Labels {
    items.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn strictly(mine: &Requirements, asked: &Requirements) -> Result<(), Incompatible> {
    mine.compatible(asked, |_| false)
}

use Operator::{DoesNotExist, Exists, Gt, In, NotIn};

#[test]
fn a_key_is_there_once_and_an_absent_one_is_unconstrained() {
    // covers: SCH-REQ-18, SCH-REQ-19, SCH-REQ-25
    let both = set(&[("team", In, &["a", "b"]), ("team", NotIn, &["a"]), ("tier", Exists, &[])]);
    assert_eq!(both.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["team", "tier"]);
    assert_eq!(both.get("team"), Requirement::one("b"));
    assert_eq!((both.has("team"), both.has("other")), (true, false));
    assert_eq!(both.get("other"), Requirement::any());
    let zone =
        |second: (&'static str, Operator, &'static [&'static str])| set(&[("zone", In, &["x"]), second]).get("zone");
    assert_eq!(zone(("zone", Exists, &[])), Requirement::one("x"));
    assert_eq!(zone(("zone", In, &["y"])), Requirement::absent());
}

#[test]
fn two_sets_are_joined_key_by_key() {
    // covers: SCH-REQ-18
    let mut mine = set(&[("team", In, &["a", "b"]), ("tier", Exists, &[])]);
    mine.add_all(&set(&[("team", In, &["b", "c"]), ("size", In, &["s"])]));
    assert_eq!(mine, set(&[("size", In, &["s"]), ("team", In, &["b"]), ("tier", Exists, &[])]));
}

#[test]
fn labels_are_lists_of_one() {
    // covers: SCH-REQ-20, SCH-REQ-05
    let made = Requirements::from_labels(&labels(&[("team", "a"), ("beta.kubernetes.io/arch", "arm64")]), &words());
    assert_eq!(made, set(&[("team", In, &["a"]), ("kubernetes.io/arch", In, &["arm64"])]));
    let old = set(&[("failure-domain.beta.kubernetes.io/zone", In, &["x", "y"]), (ZONE, In, &["y", "z"])]);
    assert_eq!(old, set(&[(ZONE, In, &["y"])]), "both spellings are about one key");
}

#[test]
fn a_key_asked_for_must_be_defined_unless_absence_will_do() {
    // covers: SCH-REQ-26, SCH-REQ-31
    let nothing = Requirements::new();
    for (operator, values, want) in [
        (In, &["a"][..], false),
        (Exists, &[], false),
        (Gt, &["1"], false),
        (NotIn, &["a"], true),
        (DoesNotExist, &[], true),
    ] {
        let asked = set(&[("team", operator, values)]);
        assert_eq!(strictly(&nothing, &asked).is_ok(), want, "{asked}");
        assert!(nothing.compatible(&asked, |key| key == "team").is_ok(), "{asked}");
        assert_eq!(nothing.compatible(&asked, |key| key == "other").is_ok(), want, "{asked}");
    }
}

#[test]
fn keys_of_both_must_overlap() {
    // covers: SCH-REQ-27, SCH-REQ-28, SCH-REQ-31
    for (mine, asked, want) in [
        ((In, &["v"][..]), (In, &["v"][..]), true),
        ((In, &["v"]), (NotIn, &["other"]), true),
        ((In, &["v"]), (Exists, &[]), true),
        ((In, &["v"]), (In, &["other"]), false),
        ((In, &["v"]), (NotIn, &["v"]), false),
        ((In, &["v"]), (DoesNotExist, &[]), false),
        ((Exists, &[]), (DoesNotExist, &[]), false),
        ((NotIn, &["v"]), (In, &["v"]), false),
        ((NotIn, &["v"]), (DoesNotExist, &[]), true),
        ((DoesNotExist, &[]), (NotIn, &["v"]), true),
        ((DoesNotExist, &[]), (DoesNotExist, &[]), true),
        ((DoesNotExist, &[]), (Exists, &[]), false),
        ((DoesNotExist, &[]), (In, &["v"]), false),
    ] {
        let (a, b) = (set(&[("team", mine.0, mine.1)]), set(&[("team", asked.0, asked.1)]));
        let refused = Incompatible { undefined: None, disjoint: vec!["team".into()] };
        assert_eq!(strictly(&a, &b), if want { Ok(()) } else { Err(refused) }, "{a} against {b}");
        assert_eq!(a.compatible(&b, |_| true).is_ok(), want, "{a} against {b}");
        assert_eq!(a.overlaps(&b), want, "{a} overlaps {b}");
    }
    assert!(strictly(&set(&[("team", In, &["v"])]), &Requirements::new()).is_ok(), "nothing is asked");
}

#[test]
fn overlap_ignores_keys_of_one_side() {
    // covers: SCH-REQ-33
    let kind = set(&[("family", In, &["m"]), ("gpu", DoesNotExist, &[])]);
    let claim = set(&[("family", In, &["m", "c"]), ("team", In, &["a"])]);
    assert!(kind.overlaps(&claim) && claim.overlaps(&kind));
    assert!(!kind.overlaps(&set(&[("gpu", Exists, &[])])));
}

#[test]
fn a_report_names_one_undefined_key_and_every_disjoint_one() {
    // covers: SCH-REQ-38
    let mine = set(&[("a", In, &["1"]), ("b", In, &["1"]), ("c", In, &["1"])]);
    let asked = set(&[
        ("a", In, &["2"]),
        ("b", In, &["1"]),
        ("c", In, &["2"]),
        ("x", NotIn, &["1"]),
        ("y", In, &["1"]),
        ("z", In, &["1"]),
    ]);
    let want = Incompatible { undefined: Some("y".into()), disjoint: vec!["a".into(), "c".into()] };
    assert_eq!(strictly(&mine, &asked), Err(want));
}

#[test]
fn a_misspelled_key_gets_a_hint() {
    // covers: SCH-REQ-38
    let mine = set(&[("example.com/team", In, &["a"])]);
    for (key, want) in [
        ("zone", Some(ZONE)),
        ("node.io/zone", Some(ZONE)),
        ("topology.kubernetes.io/regio", Some("topology.kubernetes.io/region")),
        ("team", Some("example.com/team")),
        ("other.com/team", Some("example.com/team")),
        ("colour", None),
    ] {
        assert_eq!(mine.spelling_hint(key, &words()), want, "{key}");
    }
}

#[test]
fn a_set_is_shown_sorted_and_without_the_hostname() {
    // covers: SCH-REQ-39
    let all = set(&[(HOSTNAME, In, &["n"]), ("b", In, &["2", "1"]), ("a", Exists, &[])]);
    assert_eq!(all.to_string(), "a Exists, b In [1, 2]");
    assert_eq!(Requirements::new().to_string(), "");
}
