//! Faults on demand: what a server under load, in an upgrade or far away does to its clients.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::ApiError;
use crate::ids::Ids;
use crate::request::Request;

/// Which requests fail, how often, and how.
#[derive(Clone, Debug)]
pub struct Fault {
    /// HTTP methods; empty for all.
    pub methods: Vec<String>,
    /// A part of the path, such as `/pods`; empty for all.
    pub path_contains: String,
    /// Out of a thousand matching requests.
    pub per_mille: u32,
    /// After this many hits the fault is over; `None` for never.
    pub times: Option<u32>,
    pub effect: Effect,
}

#[derive(Clone, Debug)]
pub enum Effect {
    /// The answer comes later.
    Latency(Duration),
    /// 409, as if somebody else had written first.
    Conflict,
    /// 429 with a time to wait.
    TooManyRequests { retry_after_seconds: i64 },
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 504.
    Timeout,
}

/// What becomes of one request.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) latency: Option<Duration>,
    pub(crate) error: Option<ApiError>,
}

/// Whose requests no fault strikes.
pub(crate) const OBSERVER: &str = "system:observer";

impl Effect {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Latency(_) => "latency",
            Self::Conflict => "conflict",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::InternalError => "internal_error",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Faults {
    faults: Vec<Fault>,
    dice: Ids,
    /// By effect: how often it struck.
    pub(crate) fired: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// Its dice are its own, so that a fault more or less does not change anybody's uid.
    pub(crate) fn new(seed: u64) -> Self {
        Self { faults: Vec::new(), dice: Ids::new(seed.rotate_left(32) ^ 0xfa17), fired: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    pub(crate) fn draw(&mut self, request: &Request) -> Verdict {
        let mut verdict = Verdict::default();
        if request.user.name == OBSERVER {
            return verdict;
        }
        for fault in &mut self.faults {
            let method =
                fault.methods.is_empty() || fault.methods.iter().any(|method| *method == request.method.as_str());
            if !method || !request.path.contains(&fault.path_contains) || fault.times == Some(0) {
                continue;
            }
            if self.dice.next() % 1000 >= u64::from(fault.per_mille) {
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times -= 1;
            }
            *self.fired.entry(fault.effect.name()).or_default() += 1;
            let error = match &fault.effect {
                Effect::Latency(latency) => {
                    verdict.latency = Some(verdict.latency.unwrap_or_default() + *latency);
                    continue;
                }
                Effect::Conflict => conflict(&request.path),
                Effect::TooManyRequests { retry_after_seconds } => ApiError::too_many_requests(
                    "Too many requests, please try again later.",
                    Some(*retry_after_seconds),
                ),
                Effect::InternalError => ApiError::internal("injected fault"),
                Effect::Unavailable => {
                    ApiError::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
                }
                Effect::Timeout => {
                    ApiError::new(504, "Timeout", "the server was unable to return a response in the time allotted")
                }
            };
            verdict.error = Some(error);
            break;
        }
        verdict
    }
}

fn conflict(path: &str) -> ApiError {
    match crate::request::ResourcePath::parse(path) {
        Some(path) => ApiError::stale(&path.group, &path.resource, path.name.as_deref().unwrap_or_default()),
        None => ApiError::stale("", "", ""),
    }
}
