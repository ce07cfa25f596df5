//! Requests taken apart: the path, the query, who asks.

use bytes::Bytes;
use http::Method;

use crate::error::ApiError;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// Such as the pod a service account's token is bound to.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        Self { name: name.to_owned(), uid: String::new(), groups, extra: Vec::new() }
    }

    /// Somebody whom nothing is forbidden.
    pub fn admin() -> Self {
        Self::new("admin", &["system:masters", "system:authenticated"])
    }

    pub(crate) fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }
}

/// A request, its body read.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    pub(crate) user_agent: String,
    pub(crate) user: User,
    pub(crate) body: Bytes,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        });
        Query(pairs.collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Go's loose truth: present and neither `0` nor `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0
            .iter()
            .any(|(k, value)| k == key && !matches!(value.as_str(), "0" | "false" | "False" | "FALSE" | "f" | "F"))
    }

    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        self.get(key)
            .map(|text| {
                text.parse()
                    .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
            })
            .transpose()
    }
}

/// Percent-decoding; what is malformed stays as it is.
fn decode(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |i: usize| bytes.get(i).and_then(|c| char::from(*c).to_digit(16));
        match bytes[at] {
            b'%' => match (hex(at + 1), hex(at + 2)) {
                (Some(high), Some(low)) => {
                    out.push((high * 16 + low) as u8);
                    at += 2;
                }
                _ => out.push(b'%'),
            },
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A path below `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// What follows the subresource, for proxies.
    pub(crate) rest: Vec<String>,
    /// The deprecated `/watch/` prefix.
    pub(crate) watch_prefix: bool,
}

impl ResourcePath {
    pub(crate) fn parse(path: &str) -> Option<ResourcePath> {
        let mut segments: Vec<String> = path.split('/').skip(1).map(|segment| decode(segment, false)).collect();
        if segments.last().is_some_and(String::is_empty) {
            segments.pop();
        }
        let (group, version, rest) = match segments.first().map(String::as_str) {
            Some("api") if segments.len() > 2 => (String::new(), segments[1].clone(), &segments[2..]),
            Some("apis") if segments.len() > 3 => (segments[1].clone(), segments[2].clone(), &segments[3..]),
            _ => return None,
        };
        let watch_prefix = rest.len() > 1 && rest[0] == "watch";
        let rest = if watch_prefix { &rest[1..] } else { rest };
        let (namespace, rest) = match rest {
            // `/namespaces/x/status` and `/namespaces/x/finalize` are of the namespace; anything else is in it.
            [first, name, third, ..] if first == "namespaces" && third != "status" && third != "finalize" => {
                (Some(name.clone()), &rest[2..])
            }
            _ => (None, rest),
        };
        let mut parts = rest.iter().cloned();
        let resource = parts.next()?;
        let name = parts.next();
        let subresource = parts.next();
        Some(ResourcePath {
            group,
            version,
            resource,
            namespace,
            name,
            subresource,
            rest: parts.collect(),
            watch_prefix,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_apart() {
        let path = |text: &str| {
            let p = ResourcePath::parse(text).unwrap();
            (p.group, p.resource, p.namespace, p.name, p.subresource)
        };
        let s = |text: &str| Some(text.to_owned());
        assert_eq!(
            path("/api/v1/namespaces/a/pods/b/status"),
            (String::new(), "pods".into(), s("a"), s("b"), s("status"))
        );
        assert_eq!(
            path("/api/v1/namespaces/a/status"),
            (String::new(), "namespaces".into(), None, s("a"), s("status"))
        );
        assert_eq!(path("/api/v1/namespaces/a"), (String::new(), "namespaces".into(), None, s("a"), None));
        assert_eq!(path("/apis/apps/v1/deployments"), ("apps".into(), "deployments".into(), None, None, None));
        assert_eq!(ResourcePath::parse("/apis/apps/v1"), None);
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&x=+y&watch2=false");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.get("x"), Some(" y"));
        assert!(query.flag("watch") && !query.flag("watch2"));
    }
}
