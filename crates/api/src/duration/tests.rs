use super::*;

#[test]
fn reads_what_go_reads() {
    for (text, want) in [
        ("0", Ok(0)),
        ("0s", Ok(0)),
        ("30s", Ok(30_000_000_000)),
        ("1h30m5s", Ok(5_405_000_000_000)),
        ("720h", Ok(2_592_000_000_000_000)),
        ("1.5s", Ok(1_500_000_000)),
        (".5m", Ok(30_000_000_000)),
        ("1.s", Ok(1_000_000_000)),
        ("100us", Ok(100_000)),
        ("100µs", Ok(100_000)),
        ("3ms2ns", Ok(3_000_002)),
        ("-1m", Ok(-60_000_000_000)),
        ("+1m", Ok(60_000_000_000)),
        ("-9223372036854775808ns", Ok(i64::MIN)),
        ("9223372036854775807ns", Ok(i64::MAX)),
        ("9223372036854775808ns", Err(DurationError::TooLong)),
        ("99999999h", Err(DurationError::TooLong)),
        ("", Err(DurationError::Malformed)),
        ("-", Err(DurationError::Malformed)),
        (".s", Err(DurationError::Malformed)),
        ("h", Err(DurationError::Malformed)),
        ("1", Err(DurationError::MissingUnit)),
        ("1hr", Err(DurationError::UnknownUnit)),
        ("1d", Err(DurationError::UnknownUnit)),
        ("Never", Err(DurationError::Malformed)),
    ] {
        assert_eq!(GoDuration::parse(text).map(|d| d.nanos()), want, "{text}");
    }
}

#[test]
fn prints_as_go_prints() {
    for (nanos, want) in [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (30_000_000_000, "30s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (86_400_000_000_000, "24h0m0s"),
        (3_661_001_000_000, "1h1m1.001s"),
        (-5_000_000_000, "-5s"),
    ] {
        let duration = GoDuration::from_nanos(nanos);
        assert_eq!(duration.as_str(), want);
        assert_eq!(GoDuration::parse(want).map(|d| d.nanos()), Ok(nanos), "{want} reads back");
    }
}

#[test]
fn the_text_survives_a_round_trip() {
    for text in ["\"60m\"", "\"1h\"", "\"Never\"", "\"720h\"", "\"0s\""] {
        let read: NillableDuration = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
    assert!(serde_json::from_str::<GoDuration>("\"Never\"").is_err(), "only the nillable one may be Never");
    assert!(serde_json::from_str::<NillableDuration>("30").is_err(), "a number is not a duration");
}
