//! Names, labels and the other identifiers, with the words the server refuses them in.

pub const DNS_LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
pub const DNS_SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_NAME_MESSAGE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

type Check = Result<(), Vec<String>>;

fn outcome(errors: Vec<String>) -> Check {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn lower(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn label_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    lower(*first) && lower(*last) && bytes.iter().all(|c| lower(*c) || *c == b'-')
}

pub fn dns_label(text: &str) -> Check {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !label_shape(text) {
        errors.push(DNS_LABEL_MESSAGE.to_owned());
    }
    outcome(errors)
}

pub fn dns_subdomain(text: &str) -> Check {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    if !text.split('.').all(label_shape) {
        errors.push(DNS_SUBDOMAIN_MESSAGE.to_owned());
    }
    outcome(errors)
}

pub fn dns1035_label(text: &str) -> Check {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !label_shape(text) || !text.as_bytes()[0].is_ascii_lowercase() {
        errors.push(DNS1035_MESSAGE.to_owned());
    }
    outcome(errors)
}

/// A name that is one segment of a URL path, the rule of the rbac group.
pub fn path_segment(text: &str) -> Check {
    if text == "." || text == ".." {
        return Err(vec![format!("may not be '{text}'")]);
    }
    let mut errors = Vec::new();
    for part in ["/", "%"] {
        if text.contains(part) {
            errors.push(format!("may not contain '{part}'"));
        }
    }
    outcome(errors)
}

fn name_part_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

/// Keys of labels, annotations and resources: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Check {
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else if let Err(messages) = dns_subdomain(prefix) {
                errors.extend(messages.into_iter().map(|message| format!("prefix part {message}")));
            }
            name
        }
        _ => {
            let message = QUALIFIED_NAME_MESSAGE.replacen("name part must", "a valid label key must", 0);
            let message = message.replacen("name part must", "a qualified name must", 1);
            return Err(vec![message + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]);
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63)));
    }
    if !name_part_shape(name) {
        errors.push(QUALIFIED_NAME_MESSAGE.to_owned());
    }
    outcome(errors)
}

pub fn label_value(text: &str) -> Check {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !text.is_empty() && !name_part_shape(text) {
        errors.push(LABEL_VALUE_MESSAGE.to_owned());
    }
    outcome(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_their_rules() {
        assert!(dns_label("a-b1").is_ok());
        assert!(dns_label("A").is_err());
        assert!(dns_label("a.b").is_err());
        assert!(dns_subdomain("a.b-c").is_ok());
        assert!(dns_subdomain("a..b").is_err());
        assert!(dns1035_label("1a").is_err());
        assert!(path_segment("a:b").is_ok());
        assert!(path_segment("a/b").is_err());
        assert!(qualified_name("example.com/Name_1").is_ok());
        assert!(qualified_name("a/b/c").is_err());
        assert!(label_value("").is_ok());
        assert!(label_value("-a").is_err());
        assert_eq!(dns_label(&"a".repeat(64)).unwrap_err(), ["must be no more than 63 bytes"]);
    }
}
