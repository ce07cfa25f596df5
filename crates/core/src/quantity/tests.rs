use proptest::prelude::*;

use super::*;

fn q(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn parses_and_prints_canonically() {
    // covers: SCH-RES-01
    for (text, printed) in [
        ("0", "0"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000Mi", "1000Mi"),
        ("1023", "1023"),
        ("1k", "1k"),
        ("1500", "1500"),
        ("2000", "2k"),
        ("128974848", "128974848"),
        ("129e6", "129e6"),
        ("129M", "129M"),
        ("1e3", "1e3"),
        ("12e-3", "12e-3"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("1.0000000001", "1000000001n"),
        ("-1", "-1"),
        ("-0.1n", "-1n"),
        ("+5", "5"),
        (".5", "500m"),
        ("5.", "5"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("100Ei", "9223372036854775807"),
        ("1e30", "9223372036854775807"),
        ("99999999999999999999999999999999999999999999", "9223372036854775807"),
        ("0.00000000000000000000000000000000000000000001", "1n"),
    ] {
        assert_eq!(q(text).to_string(), printed, "{text}");
    }
}

#[test]
fn rejects_what_is_no_quantity() {
    for text in ["", "m", "1.2.3", "1 Gi", "abc", "1Kib", "0x10", "1e", "1e+", "--1", "NaN", "1mi", "1K"] {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
}

#[test]
fn whole_values_round_away_from_zero() {
    assert_eq!(q("1001m").units(), 2);
    assert_eq!(q("-1001m").units(), -2);
    assert_eq!(q("1u").milli(), 1);
    assert_eq!(q("1500m").milli(), 1500);
}

#[test]
fn sums_are_exact_and_keep_a_format() {
    // covers: SCH-RES-01
    let tenth = (0..10).fold(Quantity::ZERO, |sum, _| sum + q("0.1"));
    assert_eq!(tenth, q("1"));
    assert_eq!((Quantity::ZERO + q("1Gi")).to_string(), "1Gi");
    assert_eq!((q("1Gi") - q("512Mi")).to_string(), "512Mi");
    assert!(q("1") > q("999999999n"));
}

proptest! {
    #[test]
    fn printing_and_parsing_are_inverse(nanos in -10_i128.pow(27)..10_i128.pow(27), kind in 0..3) {
        let format = [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent][kind as usize];
        let quantity = Quantity::from_nanos(nanos, format);
        prop_assert_eq!(q(&quantity.to_string()), quantity);
    }

    #[test]
    fn parsing_never_panics(text in "[-+]?[0-9.]{0,60}[a-zA-Z]{0,3}[-+]?[0-9]{0,6}") {
        let _ = text.parse::<Quantity>();
    }
}
