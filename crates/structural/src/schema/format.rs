//! The string formats that CRD schemas may name. Those the server does not know are ignored.

use std::sync::LazyLock;

use regex::Regex;

use crate::{net, time};

/// Whether the format is one the server enforces on strings; its name without dashes if so.
pub(crate) fn known(format: &str) -> Option<String> {
    let name = format.replace('-', "");
    const KNOWN: [&str; 26] = [
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
        "k8sshortname",
        "k8slongname",
    ];
    KNOWN.contains(&name.as_str()).then_some(name)
}

/// Whether a string has the format; `name` as [`known`] returned it.
pub(crate) fn matches(name: &str, text: &str) -> bool {
    match name {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => net::parse_request_uri(text).is_some(),
        "email" => email(text),
        "hostname" => HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63),
        "ipv4" => text.contains('.') && net::parse_ip_sloppy(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => net::parse_cidr_sloppy(text).is_some(),
        "mac" => MAC.is_match(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID3.is_match(text),
        "uuid4" => UUID4.is_match(text),
        "uuid5" => UUID5.is_match(text),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "creditcard" => credit_card(text),
        "ssn" => text.len() == 11 && SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "byte" => BASE64.is_match(text),
        "password" => true,
        "date" => time::parse_date(text).is_some(),
        "duration" => time::parse_duration(text).is_some() || scala_duration(text),
        "datetime" => date_time(text),
        "k8sshortname" => text.len() <= 63 && SHORT_NAME.is_match(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(|part| SHORT_NAME.is_match(part)),
        _ => true,
    }
}

macro_rules! pattern {
    ($name:ident, $source:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($source).expect("the pattern is ours"));
    };
}

pattern!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
pattern!(UUID, r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID3, r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID4, r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(UUID5, r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(
    MAC,
    r"(?i-u)^([0-9a-f]{2}(:[0-9a-f]{2}){5}(:[0-9a-f]{2}:[0-9a-f]{2}(:[0-9a-f]{2}){0,12})?|[0-9a-f]{2}(-[0-9a-f]{2}){5}(-[0-9a-f]{2}-[0-9a-f]{2}(-[0-9a-f]{2}){0,12})?|[0-9a-f]{4}(\.[0-9a-f]{4}){2,3}|[0-9a-f]{4}(\.[0-9a-f]{4}){9})$"
);
pattern!(SSN, r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
pattern!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(
    RGB_COLOR,
    r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$"
);
pattern!(BASE64, r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$");
pattern!(
    CREDIT_CARD,
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
);
pattern!(CLOCK, r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
pattern!(SCALA, r"([0-9]+)\s*([A-Za-zµ]+)");
pattern!(SHORT_NAME, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
pattern!(
    EMAIL,
    r#"^(?:[^<>"@,;:\\\[\]()]*<)?[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u{80}-\u{10ffff}-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u{80}-\u{10ffff}-]+)*@[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u{80}-\u{10ffff}-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u{80}-\u{10ffff}-]+)*>?$"#
);

fn email(text: &str) -> bool {
    let text = text.trim();
    EMAIL.is_match(text) && text.contains('<') == text.ends_with('>')
}

fn date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(clock) = CLOCK.captures(clock) else {
        return false;
    };
    text.len() >= 4 && time::parse_date(date).is_some() && &clock[1] <= "23" && &clock[2] <= "59" && &clock[3] <= "59"
}

/// The Scala forms that Go does not have, such as `3 days`.
fn scala_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    SCALA.captures_iter(text).any(|found| {
        let unit = found[2].to_lowercase();
        UNITS.iter().any(|variants| {
            variants.contains(&unit.as_str()) || variants.last().is_some_and(|last| unit.starts_with(last))
        })
    })
}

fn isbn_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect()
}

fn isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let bytes = digits.as_bytes();
    if bytes.len() != 10
        || !bytes[..9].iter().all(u8::is_ascii_digit)
        || !(bytes[9] == b'X' || bytes[9].is_ascii_digit())
    {
        return false;
    }
    let sum: u32 =
        (1u32..).zip(bytes).map(|(at, byte)| at * if *byte == b'X' { 10 } else { u32::from(byte - b'0') }).sum();
    sum.is_multiple_of(11)
}

fn isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let bytes = digits.as_bytes();
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = (0..12).map(|at| [1, 3][at % 2] * u32::from(bytes[at] - b'0')).sum();
    u32::from(bytes[12] - b'0') == (10 - sum % 10) % 10
}

fn credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, byte)| {
            let digit = u32::from(byte - b'0') * if at % 2 == 1 { 2 } else { 1 };
            if digit >= 10 { digit % 10 + 1 } else { digit }
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_tell_good_from_bad() {
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05.6Z", "2026-01-02"),
            ("date", "2026-01-02", "2026-02-30"),
            ("duration", "3 days", "soon"),
            ("ipv4", "010.1.1.1", "::1"),
            ("ipv6", "::1", "1.1.1.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("uri", "https://a/b", "a b"),
            ("email", "a.b@c.d", "a@"),
            ("hostname", "a-b.example", "-a.b"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7"),
            ("isbn", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("byte", "aGk=", "aGk"),
            ("hexcolor", "#fff", "#ff"),
            ("rgbcolor", "rgb(1, 2, 255)", "rgb(1,2,256)"),
            ("bson-object-id", "507f1f77bcf86cd799439011", "507f"),
            ("ssn", "111-11-1111", "111111111"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a-b.c", "A"),
        ] {
            let name = known(format).unwrap();
            assert!(matches(&name, good), "{format} {good}");
            assert!(!matches(&name, bad), "{format} {bad}");
        }
        assert_eq!(known("int-or-string"), None);
    }
}
