//! URLs, addresses and networks.

use std::net::IpAddr;
use std::rc::Rc;

use super::super::value::{Key, Val};
use super::{Outcome, fail};
use crate::{go, net};

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    Some(match (function, args) {
        ("url", [Val::String(text)]) => match net::parse_request_uri(text) {
            Some(url) => Ok(Val::Url(Rc::new(url))),
            None => fail(format!(
                "URL parse error during conversion from string: parse {}: invalid URI for request",
                go::quote(text)
            )),
        },
        ("isURL", [Val::String(text)]) => Ok(Val::Bool(net::parse_request_uri(text).is_some())),
        ("getScheme", [Val::Url(url)]) => Ok(Val::string(&url.scheme)),
        ("getHost", [Val::Url(url)]) => Ok(Val::string(&url.host)),
        ("getHostname", [Val::Url(url)]) => Ok(Val::string(&url.hostname)),
        ("getPort", [Val::Url(url)]) => Ok(Val::string(&url.port)),
        ("getEscapedPath", [Val::Url(url)]) => Ok(Val::string(&url.escaped_path)),
        ("getQuery", [Val::Url(url)]) => {
            let values = url.query_values().into_iter().map(|(name, values)| {
                let values = values.iter().map(|value| Val::string(value)).collect();
                (Key::String(name.into()), Val::list(values))
            });
            Ok(Val::Map(Rc::new(values.collect())))
        }
        ("ip", [Val::String(text)]) => parse_ip(text).map(Val::Ip),
        ("ip", [Val::Cidr(ip, _)]) => Ok(Val::Ip(*ip)),
        ("isIP", [Val::String(text)]) => Ok(Val::Bool(parse_ip(text).is_ok())),
        ("ip.isCanonical", [Val::String(text)]) => parse_ip(text).map(|ip| Val::Bool(ip.to_string() == **text)),
        ("family", [Val::Ip(ip)]) => Ok(Val::Int(if ip.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Val::Ip(ip)]) => Ok(Val::Bool(ip.is_unspecified())),
        ("isLoopback", [Val::Ip(ip)]) => Ok(Val::Bool(ip.is_loopback())),
        ("isLinkLocalMulticast", [Val::Ip(ip)]) => Ok(Val::Bool(link_local_multicast(*ip))),
        ("isLinkLocalUnicast", [Val::Ip(ip)]) => Ok(Val::Bool(link_local_unicast(*ip))),
        ("isGlobalUnicast", [Val::Ip(ip)]) => {
            let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
            let special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local_unicast(*ip);
            Ok(Val::Bool(!broadcast && !special))
        }
        ("cidr", [Val::String(text)]) => parse_cidr(text).map(|(ip, bits)| Val::Cidr(ip, bits)),
        ("isCIDR", [Val::String(text)]) => Ok(Val::Bool(parse_cidr(text).is_ok())),
        ("containsIP", [Val::Cidr(net, bits), Val::Ip(ip)]) => Ok(Val::Bool(contains(*net, *bits, *ip))),
        ("containsIP", [Val::Cidr(net, bits), Val::String(text)]) => {
            parse_ip(text).map(|ip| Val::Bool(contains(*net, *bits, ip)))
        }
        ("containsCIDR", [Val::Cidr(net, bits), Val::Cidr(ip, other)]) => {
            Ok(Val::Bool(other >= bits && contains(*net, *bits, masked(*ip, *other))))
        }
        ("containsCIDR", [Val::Cidr(net, bits), Val::String(text)]) => {
            parse_cidr(text).map(|(ip, other)| Val::Bool(other >= *bits && contains(*net, *bits, masked(ip, other))))
        }
        ("masked", [Val::Cidr(ip, bits)]) => Ok(Val::Cidr(masked(*ip, *bits), *bits)),
        ("prefixLength", [Val::Cidr(_, bits)]) => Ok(Val::Int(i64::from(*bits))),
        _ => return None,
    })
}

fn parse_ip(text: &str) -> Result<IpAddr, super::Failure> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            fail(format!("IPv4-mapped IPv6 address {} is not allowed", go::quote(text)))
        }
        Ok(ip) => Ok(ip),
        Err(_) => fail(format!(
            "IP Address {} parse error during conversion from string: ParseAddr({}): unable to parse IP",
            go::quote(text),
            go::quote(text)
        )),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), super::Failure> {
    let parsed = text.split_once('/').and_then(|(address, bits)| {
        let ip: IpAddr = address.parse().ok()?;
        let plain =
            !bits.is_empty() && bits.bytes().all(|it| it.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let bits: u8 = if plain { bits.parse().ok()? } else { return None };
        (bits <= width(ip)).then_some((ip, bits))
    });
    match parsed {
        Some((IpAddr::V6(ip), _)) if ip.to_ipv4_mapped().is_some() => {
            fail(format!("IPv4-mapped IPv6 address {} is not allowed", go::quote(text)))
        }
        Some(found) => Ok(found),
        None => fail(format!(
            "CIDR {} parse error during conversion from string: netip.ParsePrefix({}): unable to parse prefix",
            go::quote(text),
            go::quote(text)
        )),
    }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

fn contains(net: IpAddr, bits: u8, ip: IpAddr) -> bool {
    net.is_ipv4() == ip.is_ipv4() && masked(net, bits) == masked(ip, bits)
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}
