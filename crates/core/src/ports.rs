//! Host ports and when two of them clash.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// As written; empty becomes `0.0.0.0` when the port is read.
    pub ip: Arc<str>,
    pub port: u16,
    pub protocol: Arc<str>,
}

impl HostPort {
    pub fn clashes(&self, other: &Self) -> bool {
        let unspecified = |ip: &str| matches!(ip, "0.0.0.0" | "::");
        self.protocol == other.protocol
            && self.port == other.port
            && (self.ip == other.ip || unspecified(&self.ip) || unspecified(&other.ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_clash_on_equal_or_unspecified_addresses() {
        // covers: SCH-PORT-02
        let port = |ip: &str, port, protocol: &str| HostPort { ip: ip.into(), port, protocol: protocol.into() };
        for (a, b, want) in [
            (port("0.0.0.0", 80, "TCP"), port("10.0.0.1", 80, "TCP"), true),
            (port("::", 80, "TCP"), port("10.0.0.1", 80, "TCP"), true),
            (port("10.0.0.1", 80, "TCP"), port("10.0.0.1", 80, "TCP"), true),
            (port("10.0.0.1", 80, "TCP"), port("10.0.0.2", 80, "TCP"), false),
            (port("0.0.0.0", 80, "TCP"), port("0.0.0.0", 81, "TCP"), false),
            (port("0.0.0.0", 80, "TCP"), port("0.0.0.0", 80, "UDP"), false),
        ] {
            assert_eq!(a.clashes(&b), want, "{a:?} {b:?}");
            assert_eq!(b.clashes(&a), want, "{b:?} {a:?}");
        }
    }
}
