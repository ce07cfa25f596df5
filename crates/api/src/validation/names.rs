//! The grammars of Kubernetes names: label keys, label values, object names. Faults are worded to follow the quoted name.

/// Lower-case labels joined by dots, at most 253 characters: an object's name, a label key's prefix.
pub fn dns_subdomain(name: &str) -> Result<(), &'static str> {
    if name.len() > 253 {
        return Err("is longer than 253 characters");
    }
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |part: &str| {
        let bytes = part.as_bytes();
        let ends = bytes.first().zip(bytes.last()).is_some_and(|(a, b)| alphanumeric(*a) && alphanumeric(*b));
        ends && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
    };
    if name.split('.').all(label) {
        Ok(())
    } else {
        Err("is not lower-case letters, digits and '-' in parts joined by '.'")
    }
}

/// A label key: a name, optionally after a DNS prefix and a slash.
pub fn qualified_name(key: &str) -> Result<(), &'static str> {
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => return Err("has more than one '/'"),
        Some(("", _)) => return Err("has nothing before its '/'"),
        Some((prefix, name)) => {
            dns_subdomain(prefix)
                .map_err(|_| "has a prefix that is not a lower-case DNS name of at most 253 characters")?;
            name
        }
    };
    match name.len() {
        0 => Err("has no name part"),
        1..=63 if word(name) => Ok(()),
        1..=63 => Err("is not letters, digits, '-', '_' and '.', starting and ending with a letter or digit"),
        _ => Err("has a name part longer than 63 characters"),
    }
}

/// A label value: like a label's name, but it may be empty.
pub fn label_value(value: &str) -> Result<(), &'static str> {
    if value.len() > 63 {
        return Err("is longer than 63 characters");
    }
    if value.is_empty() || word(value) {
        Ok(())
    } else {
        Err("is not letters, digits, '-', '_' and '.', starting and ending with a letter or digit")
    }
}

fn word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(a, b)| a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names() {
        let long = "a".repeat(63);
        for good in ["Test", "test.com/Test", "test.com.com/test", "a", "a_b.c-d", &format!("x/{long}")] {
            assert_eq!(qualified_name(good), Ok(()), "{good}");
        }
        let (too_long, prefix) = (format!("{long}a"), format!("{}/a", "p.".repeat(127)));
        for bad in
            ["", "test.com.com}", "Test.com/test", "test/test/test", "test/", "/test", "-a", "a b", &too_long, &prefix]
        {
            assert!(qualified_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn label_values() {
        for good in ["", "a", "A-b_c.9"] {
            assert_eq!(label_value(good), Ok(()), "{good}");
        }
        for bad in ["???", "-a", "a.", "a/b", &"a".repeat(64)] {
            assert!(label_value(bad).is_err(), "{bad}");
        }
    }
}
