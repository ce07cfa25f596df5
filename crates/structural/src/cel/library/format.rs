//! Named formats: `format.dns1123Label().validate(x)`.

use super::super::value::Val;
use super::Outcome;
use crate::schema::format as formats;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    match (function, args) {
        ("format.named", [Val::String(name)]) => {
            let found = NAMES.iter().find(|known| **known == &**name);
            Some(Ok(Val::Optional(found.map(|name| Val::Format(name).into()))))
        }
        ("validate", [Val::Format(name), Val::String(text)]) => {
            let problems = problems(name, text);
            Some(Ok(if problems.is_empty() {
                Val::Optional(None)
            } else {
                Val::some(Val::list(problems.iter().map(|problem| Val::string(problem)).collect()))
            }))
        }
        (function, []) => {
            let name = function.strip_prefix("format.")?;
            NAMES.iter().find(|known| **known == name).map(|name| Ok(Val::Format(name)))
        }
        _ => None,
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
    and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn problems(name: &str, text: &str) -> Vec<String> {
    // A name with a dash at its end is fine before something is put behind it.
    let masked = |text: &str| text.strip_suffix('-').map_or_else(|| text.to_owned(), |rest| format!("{rest}a"));
    match name {
        "dns1123Label" => label(text),
        "dns1123LabelPrefix" => label(&masked(text)),
        "dns1123Subdomain" => subdomain(text),
        "dns1123SubdomainPrefix" => subdomain(&masked(text)),
        "dns1035Label" => label_1035(text),
        "dns1035LabelPrefix" => label_1035(&masked(text)),
        "qualifiedName" => qualified_name(text),
        "labelValue" => {
            let mut out = too_long(text, 63);
            if !text.is_empty() && !is_name(text) {
                out.push(LABEL_VALUE.to_owned());
            }
            out
        }
        "uri" => one(crate::net::parse_request_uri(text).is_some(), || {
            format!("parse {}: invalid URI for request", crate::go::quote(text))
        }),
        "uuid" => one(formats::matches("uuid", text), || "does not match the UUID format".to_owned()),
        "byte" => one(formats::matches("byte", text), || "invalid base64".to_owned()),
        "date" => one(formats::matches("date", text), || {
            format!("parsing time {} as \"2006-01-02\": cannot parse", crate::go::quote(text))
        }),
        _ => one(formats::matches("datetime", text), || "invalid datetime".to_owned()),
    }
}

fn one(fine: bool, message: impl FnOnce() -> String) -> Vec<String> {
    if fine { Vec::new() } else { vec![message()] }
}

fn too_long(text: &str, most: usize) -> Vec<String> {
    one(text.len() <= most, || format!("must be no more than {most} bytes"))
}

fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(plain) && text.ends_with(plain) && text.chars().all(|c| plain(c) || c == '-')
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(plain) && text.ends_with(plain) && text.chars().all(|c| plain(c) || "-_.".contains(c))
}

fn label(text: &str) -> Vec<String> {
    let mut out = too_long(text, 63);
    out.extend(one(is_label(text), || LABEL.to_owned()));
    out
}

fn subdomain(text: &str) -> Vec<String> {
    let mut out = too_long(text, 253);
    out.extend(one(text.split('.').all(is_label), || SUBDOMAIN.to_owned()));
    out
}

fn label_1035(text: &str) -> Vec<String> {
    let mut out = too_long(text, 63);
    let fine = is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    out.extend(one(fine, || LABEL_1035.to_owned()));
    out
}

fn qualified_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        _ => {
            return vec![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
                    .to_owned(),
            ];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else {
        out.extend(too_long(name, 63).into_iter().map(|problem| format!("name part {problem}")));
    }
    out.extend(one(is_name(name), || NAME_PART.to_owned()));
    out
}
