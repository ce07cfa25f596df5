//! Which fault strikes which requests.

use std::fmt;

use http::Method;

/// What goes wrong between the controller and the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A gateway on the way has forgotten the flow: nothing comes any more, and nothing says so. Connections that were struck
    /// stay dead when the fault is over.
    HalfOpen,
    /// The connection is reset.
    Reset,
    /// One byte a second.
    Drip,
    /// The server, or something before it, answers with this status.
    Status(u16),
    /// The TCP stream ends without the end of the TLS session.
    TlsCut,
}

const FAULTS: [Fault; 7] = [
    Fault::HalfOpen,
    Fault::Reset,
    Fault::Drip,
    Fault::Status(410),
    Fault::Status(429),
    Fault::Status(500),
    Fault::TlsCut,
];

/// Which requests are struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Watches are told 410 when the fault begins, so that there is something to list.
    List,
    Watch,
    /// Of pods alone: everything else is seen, and only they are not.
    PodWatch,
    Get,
    Create,
    /// Everything that changes what is there, but evictions.
    Patch,
    Evict,
    Lease,
    Everything,
}

const TARGETS: [Target; 9] = [
    Target::List,
    Target::Watch,
    Target::PodWatch,
    Target::Get,
    Target::Create,
    Target::Patch,
    Target::Evict,
    Target::Lease,
    Target::Everything,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) fault: Fault,
    pub(crate) target: Target,
}

impl Cell {
    /// Every cell that means something.
    pub(crate) fn all() -> Vec<Self> {
        let cells = FAULTS.iter().flat_map(|&fault| TARGETS.map(|target| Self { fault, target }));
        cells.filter(|cell| cell.means_something()).collect()
    }

    /// 410 says that a version is too old to go on from, which is said to lists and watches alone. And one watch among others
    /// goes unnoticed only if its connection stays.
    fn means_something(self) -> bool {
        let of_versions = matches!(self.target, Target::List | Target::Watch);
        let stays = matches!(self.fault, Fault::HalfOpen | Fault::Drip);
        (self.fault != Fault::Status(410) || of_versions) && (self.target != Target::PodWatch || stays)
    }

    pub(crate) fn strikes(self, asked: &Asked) -> bool {
        match self.target {
            Target::List => asked.verb == Verb::List,
            Target::Watch => asked.verb == Verb::Watch,
            Target::PodWatch => asked.verb == Verb::Watch && asked.of_pods,
            Target::Get => asked.verb == Verb::Get,
            Target::Create => asked.verb == Verb::Create,
            Target::Patch => asked.verb == Verb::Patch,
            Target::Evict => asked.verb == Verb::Evict,
            Target::Lease => asked.verb == Verb::Lease,
            Target::Everything => true,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.fault {
            Fault::HalfOpen => "half-open".to_owned(),
            Fault::Reset => "reset".to_owned(),
            Fault::Drip => "byte-a-second".to_owned(),
            Fault::Status(code) => code.to_string(),
            Fault::TlsCut => "tls-cut".to_owned(),
        };
        let target = match self.target {
            Target::List => "list",
            Target::Watch => "watch",
            Target::PodWatch => "pod-watch",
            Target::Get => "get",
            Target::Create => "create",
            Target::Patch => "patch",
            Target::Evict => "evict",
            Target::Lease => "lease",
            Target::Everything => "everything",
        };
        write!(out, "{fault}-{target}")
    }
}

/// What a request is, as far as faults choose by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) verb: Verb,
    pub(crate) of_pods: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    List,
    Watch,
    Get,
    Create,
    Patch,
    Evict,
    Lease,
}

impl Asked {
    pub(crate) fn by(method: &Method, path: &str, query: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        // /api/v1/…, /apis/GROUP/VERSION/…, and below a namespace.
        let below = match parts.first() {
            Some(&"api") => 2,
            Some(&"apis") => 3,
            Some(_) | None => parts.len(),
        };
        let rest = parts.get(below..).unwrap_or_default();
        let rest = if rest.first() == Some(&"namespaces") && rest.len() > 2 { &rest[2..] } else { rest };
        let watches = query.split('&').any(|part| part == "watch=true" || part == "watch=1");
        let verb = match *method {
            _ if rest.first() == Some(&"leases") => Verb::Lease,
            Method::GET if watches => Verb::Watch,
            Method::GET if rest.len() == 1 => Verb::List,
            Method::GET => Verb::Get,
            Method::POST if rest.last() == Some(&"eviction") => Verb::Evict,
            Method::POST => Verb::Create,
            _ => Verb::Patch,
        };
        Self { verb, of_pods: rest.first() == Some(&"pods") }
    }
}

#[test]
fn requests_are_told_apart() {
    for (method, path, query, verb, of_pods) in [
        (Method::GET, "/api/v1/pods", "limit=500", Verb::List, true),
        (Method::GET, "/api/v1/pods", "watch=true&x=1", Verb::Watch, true),
        (Method::GET, "/apis/karpenter.sh/v1/nodeclaims", "watch=true", Verb::Watch, false),
        (Method::GET, "/apis/karpenter.sh/v1/nodeclaims/a", "", Verb::Get, false),
        (Method::GET, "/api/v1/namespaces/kube-system/configmaps/karpenter", "", Verb::Get, false),
        (Method::GET, "/version", "", Verb::Get, false),
        (Method::GET, "/apis/karpenter.sh/v1", "", Verb::Get, false),
        (Method::POST, "/apis/karpenter.sh/v1/nodeclaims", "", Verb::Create, false),
        (Method::POST, "/api/v1/namespaces/default/pods/p/eviction", "", Verb::Evict, true),
        (Method::PATCH, "/apis/karpenter.sh/v1/nodeclaims/a/status", "", Verb::Patch, false),
        (Method::DELETE, "/apis/karpenter.sh/v1/nodeclaims/a", "", Verb::Patch, false),
        (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "", Verb::Lease, false),
        (Method::GET, "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "", Verb::Lease, false),
    ] {
        assert_eq!(Asked::by(&method, path, query), Asked { verb, of_pods }, "{method} {path}?{query}");
    }
}
