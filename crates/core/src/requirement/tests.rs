use proptest::prelude::*;

use super::*;

fn r(operator: Operator, values: &[&str]) -> Requirement {
    Requirement::from_expression(&Expression::new("key", operator, values))
}

fn open(excluded: &[&str], at_least: Option<i64>, at_most: Option<i64>) -> Requirement {
    Requirement { open: true, at_least, at_most, ..Requirement::one_of(excluded.iter().copied()) }
}

fn with_min_values(requirement: Requirement, min_values: Option<u32>) -> Requirement {
    Requirement { min_values, ..requirement }
}

/// `*` for everything, `-` for nothing, members side by side, `!` before exclusions, then the bounds.
fn short(requirement: &Requirement) -> String {
    let values: String = requirement.values.iter().map(|value| &**value).collect();
    let mut text = match (requirement.open, values.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("!{values}"),
        (false, true) => "-".to_owned(),
        (false, false) => values,
    };
    text.extend(requirement.at_least.map(|least| format!("≥{least}")));
    text.extend(requirement.at_most.map(|most| format!("≤{most}")));
    if text.is_empty() { "*".to_owned() } else { text }
}

/// What a value has to be like, straight from what the operator means to a reader; the algebra plays no part in it.
fn means(operator: Operator, operands: &[&str], value: &str) -> bool {
    let number = |text: &str| text.parse::<i128>().ok();
    let compared = |holds: fn(i128, i128) -> bool| {
        operands
            .first()
            .and_then(|text| number(text))
            .zip(number(value))
            .is_some_and(|(mine, theirs)| holds(theirs, mine))
    };
    match operator {
        Operator::In => operands.contains(&value),
        Operator::NotIn => !operands.contains(&value),
        Operator::Exists => true,
        Operator::DoesNotExist => false,
        Operator::Gt => compared(|value, operand| value > operand),
        Operator::Lt => compared(|value, operand| value < operand),
        Operator::Gte => compared(|value, operand| value >= operand),
        Operator::Lte => compared(|value, operand| value <= operand),
    }
}

/// Every value the matrix names, numbers around its bounds, and values nobody names.
const UNIVERSE: [&str; 17] =
    ["A", "B", "C", "", "-7", "-1", "0", "1", "2", "3", "7", "8", "9", "10", "11", "4000", "1.5"];

const COLUMNS: [(Operator, &[&str]); 14] = [
    (Operator::Exists, &[]),
    (Operator::DoesNotExist, &[]),
    (Operator::In, &["A"]),
    (Operator::In, &["B"]),
    (Operator::In, &["A", "B"]),
    (Operator::NotIn, &["A"]),
    (Operator::In, &["1"]),
    (Operator::In, &["9"]),
    (Operator::In, &["1", "9"]),
    (Operator::NotIn, &["1", "2"]),
    (Operator::Gt, &["1"]),
    (Operator::Gt, &["9"]),
    (Operator::Lt, &["1"]),
    (Operator::Lt, &["9"]),
];

const MATRIX: [&str; 14] = [
    "*     -     A     B     AB    !A    1     9     19    !12   ≥2    ≥10   ≤0    ≤8",
    "-     -     -     -     -     -     -     -     -     -     -     -     -     -",
    "A     -     A     -     A     -     -     -     -     A     -     -     -     -",
    "B     -     -     B     B     B     -     -     -     B     -     -     -     -",
    "AB    -     A     B     AB    B     -     -     -     AB    -     -     -     -",
    "!A    -     -     B     B     !A    1     9     19    !12A  ≥2    ≥10   ≤0    ≤8",
    "1     -     -     -     -     1     1     -     1     -     -     -     -     1",
    "9     -     -     -     -     9     -     9     9     9     9     -     -     -",
    "19    -     -     -     -     19    1     9     19    9     9     -     -     1",
    "!12   -     A     B     AB    !12A  -     9     9     !12   !2≥2  ≥10   ≤0    !12≤8",
    "≥2    -     -     -     -     ≥2    -     9     9     !2≥2  ≥2    ≥10   -     ≥2≤8",
    "≥10   -     -     -     -     ≥10   -     -     -     ≥10   ≥10   ≥10   -     -",
    "≤0    -     -     -     -     ≤0    -     -     -     ≤0    -     -     ≤0    ≤0",
    "≤8    -     -     -     -     ≤8    1     -     1     !12≤8 ≥2≤8  -     ≤0    ≤8",
];

#[test]
fn the_whole_matrix_of_intersections() {
    // covers: SCH-REQ-08, SCH-REQ-09, SCH-REQ-10, SCH-REQ-11, SCH-REQ-40
    for ((left_operator, left_values), row) in COLUMNS.iter().zip(MATRIX) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), COLUMNS.len());
        for ((right_operator, right_values), cell) in COLUMNS.iter().zip(cells) {
            let name = format!("{left_operator:?} {left_values:?} with {right_operator:?} {right_values:?}");
            let (left, right) = (r(*left_operator, left_values), r(*right_operator, right_values));
            assert_eq!(short(&left.intersect(&right)), cell, "{name}");
            for (mine, theirs, want) in
                [(None, None, None), (Some(3), None, Some(3)), (None, Some(2), Some(2)), (Some(3), Some(2), Some(3))]
            {
                let both = with_min_values(left.clone(), mine).intersect(&with_min_values(right.clone(), theirs));
                assert_eq!(
                    (short(&both).as_str(), both.min_values),
                    (cell, want),
                    "{name}, minValues {mine:?} {theirs:?}"
                );
            }
        }
    }
}

#[test]
fn the_matrix_means_what_the_operators_say() {
    // covers: SCH-REQ-07, SCH-REQ-12, SCH-REQ-40
    for (left_operator, left_values) in COLUMNS {
        for (right_operator, right_values) in COLUMNS {
            let name = format!("{left_operator:?} {left_values:?} with {right_operator:?} {right_values:?}");
            let (left, right) = (r(left_operator, left_values), r(right_operator, right_values));
            let both = left.intersect(&right);
            let agreed =
                |value: &str| means(left_operator, left_values, value) && means(right_operator, right_values, value);
            for value in UNIVERSE {
                assert_eq!(left.allows(value), means(left_operator, left_values, value), "{left} allows {value:?}");
                assert_eq!(both.allows(value), agreed(value), "{name} allows {value:?}");
            }
            // No cell is open without a member of the universe, so that the shortcut for two open sets never shows.
            let some = UNIVERSE.iter().any(|value| agreed(value));
            assert_eq!(left.overlaps(&right), some, "{name}");
        }
    }
}

#[test]
fn two_open_sets_overlap_unless_their_bounds_cross() {
    // covers: SCH-REQ-12
    let excluded = open(&["1", "2", "3"], None, None);
    for (least, most, want) in [(1, 3, true), (3, 3, true), (4, 3, false)] {
        assert_eq!(excluded.overlaps(&open(&[], Some(least), Some(most))), want, "{least}..={most}");
        assert_eq!(open(&[], Some(least), None).overlaps(&open(&[], None, Some(most))), want, "{least} and {most}");
    }
    let range = open(&[], Some(1), Some(3));
    assert!(!UNIVERSE.iter().any(|value| excluded.intersect(&range).allows(value)), "nothing is left, and yet");
    assert!(excluded.overlaps(&range));
}

#[test]
fn operators_build_sets_and_bounds() {
    // covers: SCH-REQ-01, SCH-REQ-02, SCH-REQ-03, SCH-REQ-13
    for (operator, values, want, effective) in [
        (Operator::In, &["b", "a"][..], Requirement::one_of(["a", "b"]), Operator::In),
        (Operator::In, &[], Requirement::absent(), Operator::DoesNotExist),
        (Operator::DoesNotExist, &[], Requirement::absent(), Operator::DoesNotExist),
        (Operator::NotIn, &["a"], open(&["a"], None, None), Operator::NotIn),
        (Operator::NotIn, &[], Requirement::any(), Operator::Exists),
        (Operator::Exists, &[], Requirement::any(), Operator::Exists),
        (Operator::Gt, &["2"], open(&[], Some(3), None), Operator::Exists),
        (Operator::Lt, &["2"], open(&[], None, Some(1)), Operator::Exists),
        (Operator::Gte, &["2"], open(&[], Some(2), None), Operator::Exists),
        (Operator::Lte, &["2"], open(&[], None, Some(2)), Operator::Exists),
    ] {
        let built = r(operator, values);
        assert_eq!(built, want, "{operator:?} {values:?}");
        assert_eq!(built.operator(), effective, "{operator:?} {values:?}");
        let expression = Expression { min_values: Some(2), ..Expression::new("key", operator, values) };
        assert_eq!(
            Requirement::from_expression(&expression),
            with_min_values(want, Some(2)),
            "{operator:?} {values:?}"
        );
    }
}

#[test]
fn beyond_the_largest_number_there_is_nothing() {
    // covers: SCH-REQ-04
    let largest = i64::MAX.to_string();
    let beyond = Expression { min_values: Some(2), ..Expression::new("key", Operator::Gt, &[&largest]) };
    assert_eq!(Requirement::from_expression(&beyond), Requirement::absent());
    assert_eq!(r(Operator::Gte, &[&largest]), open(&[], Some(i64::MAX), None));
    assert_eq!(r(Operator::Lt, &[&i64::MIN.to_string()]), Requirement::absent());
    assert_eq!(r(Operator::Gt, &["many"]), Requirement::absent(), "validation refuses it before; nothing is allowed");
}

#[test]
fn only_absence_and_exclusion_go_without_the_label() {
    // covers: SCH-REQ-13
    for (requirement, want) in [
        (r(Operator::NotIn, &["a"]), true),
        (r(Operator::DoesNotExist, &[]), true),
        (r(Operator::In, &["a"]), false),
        (r(Operator::Exists, &[]), false),
        (r(Operator::Gt, &["1"]), false),
        (open(&["5"], Some(1), None), true),
    ] {
        assert_eq!(requirement.tolerates_absence(), want, "{requirement}");
    }
}

#[test]
fn bounds_are_inclusive_and_for_whole_numbers_only() {
    // covers: SCH-REQ-07
    let between = open(&["5"], Some(3), Some(6));
    for (value, want) in
        [("2", false), ("3", true), ("5", false), ("6", true), ("7", false), ("four", false), ("", false)]
    {
        assert_eq!(between.allows(value), want, "{value:?}");
    }
    assert!(!open(&[], Some(3), None).allows("x"));
    assert!(!open(&[], None, Some(3)).allows("x"));
    assert!(open(&[], None, Some(3)).allows("-9"));
}

#[test]
fn a_contradiction_needs_a_side_that_wants_the_label() {
    // covers: SCH-REQ-28, SCH-GAP-29
    for (left, right, want) in [
        (r(Operator::In, &["red"]), r(Operator::NotIn, &["red"]), true),
        (r(Operator::In, &["red"]), r(Operator::DoesNotExist, &[]), true),
        (r(Operator::Exists, &[]), r(Operator::DoesNotExist, &[]), true),
        (r(Operator::In, &["red"]), r(Operator::In, &["blue"]), true),
        (r(Operator::Gt, &["5"]), r(Operator::Lt, &["5"]), true),
        (r(Operator::NotIn, &["red"]), r(Operator::DoesNotExist, &[]), false),
        (r(Operator::DoesNotExist, &[]), r(Operator::DoesNotExist, &[]), false),
        (r(Operator::NotIn, &["red"]), r(Operator::NotIn, &["blue"]), false),
        (r(Operator::In, &["red", "blue"]), r(Operator::NotIn, &["red"]), false),
    ] {
        assert_eq!(left.contradicts(&right), want, "{left} and {right}");
        assert_eq!(right.contradicts(&left), want, "{right} and {left}");
    }
}

#[test]
fn one_value_is_picked_inside_the_bounds_and_never_an_excluded_one() {
    // covers: SCH-REQ-17, SCH-GAP-02
    for (requirement, want) in [
        (r(Operator::In, &["b", "a"]), Some("a")),
        (Requirement { at_least: Some(5), ..Requirement::one_of(["3", "7"]) }, Some("7")),
        (r(Operator::DoesNotExist, &[]), None),
        (r(Operator::Exists, &[]), Some("0")),
        (r(Operator::NotIn, &["a"]), Some("0")),
        (r(Operator::NotIn, &["0", "1"]), Some("2")),
        (r(Operator::NotIn, &["1"]), Some("0")),
        (r(Operator::Gt, &["4"]), Some("5")),
        (r(Operator::Lte, &["4"]), Some("0")),
        (open(&["5", "6"], Some(5), Some(7)), Some("7")),
        (open(&["5", "6", "7"], Some(5), Some(7)), None),
        (open(&["5"], Some(5), Some(5)), None),
        (open(&[], Some(5), Some(5)), Some("5")),
        (open(&[], Some(-3), None), Some("0")),
        (r(Operator::Lt, &["0"]), None),
        (r(Operator::Lt, &["1"]), Some("0")),
        (open(&[], Some(i64::MAX), None), Some("9223372036854775807")),
    ] {
        assert_eq!(requirement.pick().as_deref(), want, "{requirement}");
    }
}

/// `operator values minValues` of each entry.
fn written(requirement: &Requirement) -> Vec<(Operator, String, Option<u32>)> {
    let entries = requirement.to_expressions("key");
    assert!(entries.iter().all(|entry| &*entry.key == "key"));
    entries.into_iter().map(|e| (e.operator, e.values.join(" "), e.min_values)).collect()
}

#[test]
fn written_to_an_object() {
    // covers: SCH-REQ-14, SCH-REQ-15, SCH-REQ-16, SCH-GAP-01
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    let entry = |operator, values: &str| (operator, values.to_owned(), Some(2));
    for (requirement, want) in [
        (r(In, &["b", "a", "c"]), vec![entry(In, "a b c")]),
        (r(NotIn, &["b", "a"]), vec![entry(NotIn, "a b")]),
        (r(Exists, &[]), vec![entry(Exists, "")]),
        (r(DoesNotExist, &[]), vec![entry(DoesNotExist, "")]),
        (r(Gt, &["2"]), vec![entry(Gte, "3")]),
        (r(Lt, &["2"]), vec![entry(Lte, "1")]),
        (open(&[], Some(1), Some(8)), vec![entry(Gte, "1"), entry(Lte, "8")]),
        (open(&["4"], Some(1), Some(8)), vec![entry(Gte, "1"), entry(Lte, "8"), entry(NotIn, "4")]),
        (open(&["4"], None, Some(8)), vec![entry(Lte, "8"), entry(NotIn, "4")]),
    ] {
        assert_eq!(written(&with_min_values(requirement.clone(), Some(2))), want, "{requirement}");
        let without: Vec<_> = want.into_iter().map(|(operator, values, _)| (operator, values, None)).collect();
        assert_eq!(written(&requirement), without, "{requirement}");
    }
}

#[test]
fn shown_to_people() {
    // covers: SCH-REQ-39, SCH-ERR-19
    for (requirement, want) in [
        (r(Operator::Exists, &[]), "Exists"),
        (r(Operator::DoesNotExist, &[]), "DoesNotExist"),
        (r(Operator::In, &["b", "a"]), "In [a, b]"),
        (r(Operator::In, &["e", "d", "c", "b", "a"]), "In [a, b, c, d, e]"),
        (r(Operator::NotIn, &["f", "e", "d", "c", "b", "a"]), "NotIn [a, b, c, d, e and 1 others]"),
        (r(Operator::In, &["g", "f", "e", "d", "c", "b", "a"]), "In [a, b, c, d, e and 2 others]"),
        (r(Operator::Gt, &["1"]), "Exists >=2"),
        (with_min_values(open(&["4"], Some(1), Some(8)), Some(3)), "NotIn [4] >=1 <=8 minValues 3"),
    ] {
        assert_eq!(requirement.to_string(), want);
    }
}

#[test]
fn operators_are_spelled_as_in_kubernetes() {
    // covers: SCH-REQ-14
    let spelled = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];
    assert_eq!(Operator::ALL.map(Operator::as_str), spelled);
    for (operator, text) in Operator::ALL.into_iter().zip(spelled) {
        assert_eq!(Operator::parse(text), Some(operator));
    }
    assert_eq!(Operator::parse("in"), None);
}

fn expressions() -> impl Strategy<Value = (Operator, Vec<&'static str>)> {
    let values = proptest::sample::subsequence(UNIVERSE.to_vec(), 0..4);
    let sets = proptest::sample::select(&[Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist][..]);
    let bounds = proptest::sample::select(&[Operator::Gt, Operator::Lt, Operator::Gte, Operator::Lte][..]);
    let numbers = proptest::sample::select(&["0", "1", "2", "7", "8", "9", "10"][..]);
    prop_oneof![
        (sets, values).prop_map(|(operator, values)| (operator, values)),
        (bounds, numbers).prop_map(|(operator, number)| (operator, vec![number])),
    ]
}

proptest! {
    /// Whatever is combined in whatever order, a value passes if every expression lets it pass.
    #[test]
    fn combining_is_conjunction(list in proptest::collection::vec(expressions(), 1..5), turn in 0_usize..5) {
        // covers: SCH-REQ-08, SCH-REQ-09, SCH-REQ-10
        let combine = |list: &[(Operator, Vec<&str>)]| {
            list.iter().fold(Requirement::any(), |sum, (operator, values)| sum.intersect(&r(*operator, values)))
        };
        let both = combine(&list);
        for value in UNIVERSE {
            let all = list.iter().all(|(operator, values)| means(*operator, values, value));
            prop_assert_eq!(both.allows(value), all, "{} of {:?} allows {:?}", both, list, value);
        }
        if !both.open {
            prop_assert_eq!((both.at_least, both.at_most), (None, None), "a finite set forgets its bounds");
        }
        let mut turned = list.clone();
        turned.rotate_left(turn % list.len());
        prop_assert_eq!(combine(&turned), both);
    }

    /// The overlap test is the emptiness of the intersection, but for two open sets.
    #[test]
    fn overlap_is_a_shared_value((left, right) in (expressions(), expressions())) {
        // covers: SCH-REQ-12
        let (a, b) = (r(left.0, &left.1), r(right.0, &right.1));
        let shared = UNIVERSE.iter().any(|value| means(left.0, &left.1, value) && means(right.0, &right.1, value));
        let want = if a.open && b.open { a.intersect(&b).open } else { shared };
        prop_assert_eq!(a.overlaps(&b), want, "{} and {}", a, b);
    }
}
