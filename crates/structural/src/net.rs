//! Addresses, networks and URLs as Go's `net`, `net/netip` and `net/url` read them.

use std::net::{IpAddr, Ipv4Addr};

/// `net.ParseIP` as it was before Go minded leading zeros in IPv4 addresses.
pub(crate) fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        let mut octets = [0u8; 4];
        let mut parts = text.split('.');
        for octet in &mut octets {
            let part = parts.next()?;
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let digits = part.trim_start_matches('0');
            *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        }
        return parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)));
    }
    text.parse().ok()
}

/// An address with a prefix length; `None` if it is none. `sloppy` takes leading zeros.
pub(crate) fn parse_cidr_sloppy(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse_ip_sloppy(address)?;
    if bits.is_empty() || bits.len() > 3 || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bits: u8 = bits.parse().ok()?;
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

/// A URL in its parts, none of them unescaped but the ones Go unescapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) source: String,
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) hostname: String,
    pub(crate) port: String,
    pub(crate) escaped_path: String,
    pub(crate) query: String,
}

/// `url.ParseRequestURI`: an absolute URI or an absolute path.
pub(crate) fn parse_request_uri(text: &str) -> Option<Url> {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return None;
    }
    if text == "*" {
        return Some(Url { escaped_path: "*".to_owned(), ..empty(text) });
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, query.to_owned()),
        None => (rest, String::new()),
    };
    let scheme = scheme.to_ascii_lowercase();
    if !rest.starts_with('/') {
        // An opaque URI such as mailto:x has neither host nor path.
        return (!scheme.is_empty()).then(|| Url { scheme, query, ..empty(text) });
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        },
        _ => ("", rest),
    };
    unescape(path, Part::Path)?;
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if let Some(user) = user {
        if !user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)) {
            return None;
        }
        unescape(user, Part::Path)?;
    }
    let (hostname, port) = split_host(host)?;
    Some(Url {
        source: text.to_owned(),
        scheme,
        host: unescape(host, Part::Host)?,
        hostname,
        port,
        escaped_path: escape_path(path),
        query,
    })
}

fn empty(text: &str) -> Url {
    Url {
        source: text.to_owned(),
        scheme: String::new(),
        host: String::new(),
        hostname: String::new(),
        port: String::new(),
        escaped_path: String::new(),
        query: String::new(),
    }
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' => return Some(("", text)),
            b':' if at == 0 => return None,
            b':' => return Some((&text[..at], &text[at + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn split_host(host: &str) -> Option<(String, String)> {
    if let Some(rest) = host.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let port = valid_port(after)?;
        return Some((unescape(inside, Part::Host)?, port.to_owned()));
    }
    match host.rfind(':') {
        Some(at) => {
            let port = valid_port(&host[at..])?;
            Some((unescape(&host[..at], Part::Host)?, port.to_owned()))
        }
        None => Some((unescape(host, Part::Host)?, String::new())),
    }
}

fn valid_port(text: &str) -> Option<&str> {
    if text.is_empty() {
        return Some("");
    }
    let port = text.strip_prefix(':')?;
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(port)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Path,
    Query,
}

/// Undoes percent escapes; `None` where they are broken.
fn unescape(text: &str, part: Part) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let hex = text.get(at + 1..at + 3)?;
                let byte = u8::from_str_radix(hex, 16).ok().filter(|_| hex.bytes().all(|it| it.is_ascii_hexdigit()))?;
                if part == Part::Host && byte < 0x80 && byte != b'%' {
                    return None;
                }
                out.push(byte);
                at += 3;
                continue;
            }
            b'+' if part == Part::Query => out.push(b' '),
            byte if part == Part::Host
                && byte < 0x80
                && !(byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)) =>
            {
                return None;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// `URL.EscapedPath`: the given escaping where it is valid, else the default one.
fn escape_path(path: &str) -> String {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte);
    if path.bytes().all(fine) {
        return path.to_owned();
    }
    let plain = unescape(path, Part::Path).unwrap_or_else(|| path.to_owned());
    let mut out = String::new();
    for byte in plain.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

impl Url {
    /// `URL.Query()`: the values of each name, in the order of names; what is broken is left out.
    pub(crate) fn query_values(&self) -> Vec<(String, Vec<String>)> {
        let mut values: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
        for pair in self.query.split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescape(name, Part::Query), unescape(value, Part::Query)) {
                values.entry(name).or_default().push(value);
            }
        }
        values.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = parse_request_uri("https://user:pw@[::1]:80/a b?x=1&x=2&y=%20").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str(), url.hostname.as_str()), ("https", "[::1]:80", "::1"));
        assert_eq!((url.port.as_str(), url.escaped_path.as_str()), ("80", "/a%20b"));
        assert_eq!(url.query_values()[0], ("x".to_owned(), vec!["1".to_owned(), "2".to_owned()]));
        assert_eq!(url.query_values()[1].1, [" "]);
        for bad in ["", "foo", "://x", "http://a b/", "http://h:x/", "/%zz", "1http://x"] {
            assert!(parse_request_uri(bad).is_none(), "{bad}");
        }
        for good in ["/", "/a/b", "http://h", "mailto:x", "https://h:1/p?q"] {
            assert!(parse_request_uri(good).is_some(), "{good}");
        }
    }

    #[test]
    fn addresses_may_have_leading_zeros_here() {
        assert_eq!(parse_ip_sloppy("010.0.0.1"), "10.0.0.1".parse().ok());
        assert!(parse_ip_sloppy("256.0.0.1").is_none() && parse_ip_sloppy("1.2.3").is_none());
        assert!(parse_cidr_sloppy("10.0.0.0/33").is_none() && parse_cidr_sloppy("::/128").is_some());
    }
}
