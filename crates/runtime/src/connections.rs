//! Connections of whoever can reach our ports: so many at once, each with deadlines, and every address with a fair share.
//!
//! A stranger can open connections and say nothing. It ends none but its own by that: where there is no room left, the
//! oldest connection of the address that has most gives way, so the kubelet and the API servers are always let in.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// A request line and headers come in one packet or two; whoever takes longer has nothing to ask.
pub(crate) const HEADER_DEADLINE: Duration = Duration::from_secs(10);
/// Out of file descriptors, say: wait until some are back.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Lets connections in for ever, at most so many at once.
pub(crate) async fn accept<C>(listener: TcpListener, most: usize, serve: impl Fn(TcpStream) -> C)
where
    C: Future<Output = ()> + Send + 'static,
{
    let mut connections = Connections::new(most);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => connections.add(peer.ip(), serve(stream)),
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

/// HTTP as it is served here; a request whose headers are not there by the deadline ends its connection.
pub(crate) fn http(header_deadline: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_deadline).max_buf_size(64 << 10);
    builder
}

/// The ones that are open, the oldest first. Dropped, it ends them.
struct Connections {
    most: usize,
    open: VecDeque<(IpAddr, AbortHandle)>,
    tasks: JoinSet<()>,
}

impl Connections {
    fn new(most: usize) -> Self {
        Self { most, open: VecDeque::new(), tasks: JoinSet::new() }
    }

    fn add(&mut self, peer: IpAddr, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|(_, task)| !task.is_finished());
        if self.open.len() >= self.most
            && let Some(at) = gives_way(self.open.iter().map(|(peer, _)| *peer))
            && let Some((_, task)) = self.open.remove(at)
        {
            task.abort();
        }
        self.open.push_back((source(peer), self.tasks.spawn(connection)));
    }
}

/// Who asks, as far as it can be told: whoever has one IPv6 address has its whole /64.
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Of connections from these addresses, the first of the address that has most.
fn gives_way(peers: impl Iterator<Item = IpAddr> + Clone) -> Option<usize> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for peer in peers.clone() {
        *counts.entry(peer).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    let mut peers = peers;
    peers.position(|peer| counts[&peer] == most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> IpAddr {
        source(text.parse().unwrap())
    }

    #[test]
    fn whoever_has_most_gives_way_and_that_with_its_oldest() {
        for (peers, want) in [
            (&[] as &[&str], None),
            (&["10.0.0.1", "10.0.0.2"], Some(0)),
            (&["10.0.0.1", "10.0.0.2", "10.0.0.2"], Some(1)),
            (&["10.0.0.2", "10.0.0.1", "10.0.0.2"], Some(0)),
            // One machine that has many addresses of its own, and one that is seen over both protocols.
            (&["fd00::1:0:0:0:1", "fd00::2:0:0:0:1", "fd00::2:0:0:0:2"], Some(1)),
            (&["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.2"], Some(1)),
        ] {
            assert_eq!(gives_way(peers.iter().map(|text| peer(text))), want, "{peers:?}");
        }
    }

    #[tokio::test]
    async fn strangers_end_only_connections_of_their_own() {
        let mut connections = Connections::new(4);
        let kubelet = async |connections: &mut Connections| {
            let (say, mut said) = tokio::sync::mpsc::channel::<()>(1);
            connections.add(peer("10.0.0.9"), async move {
                let _still_there = say;
                std::future::pending::<()>().await;
            });
            for _ in 0..20 {
                connections.add(peer("10.0.0.66"), std::future::pending());
                tokio::task::yield_now().await;
            }
            assert!(said.try_recv() == Err(tokio::sync::mpsc::error::TryRecvError::Empty), "the kubelet's was ended");
            assert_eq!(connections.open.len(), 4);
        };
        kubelet(&mut connections).await;
        // And it comes in where all the room is taken.
        kubelet(&mut connections).await;
    }
}
