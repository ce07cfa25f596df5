//! Faults: scripted ones, for tests of one path, and a count of all that happened.

use std::collections::BTreeMap;

use karpenter_ec2::catalogue::CapacityClass;

/// What goes wrong, how often. `None` matches anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub target: Target,
    pub code: String,
    pub message: String,
    /// How many times it strikes; then it is gone.
    pub times: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An error of the fleet for this pool.
    Pool { class: Option<CapacityClass>, instance_type: Option<String>, zone: Option<String> },
    /// An error of the fleet for overrides in this subnet.
    Subnet(String),
    /// An error of the fleet for this reservation.
    Reservation(String),
    /// The call itself fails. `server_fault` makes it one of HTTP 5xx.
    Call { operation: &'static str, server_fault: bool },
    /// The call succeeds, but its answer is lost on the way back.
    Answer { operation: &'static str },
}

impl Target {
    /// What it is counted as.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pool { .. } => "scripted_pool",
            Self::Subnet(_) => "scripted_subnet",
            Self::Reservation(_) => "scripted_reservation",
            Self::Call { server_fault: false, .. } => "scripted_call",
            Self::Call { server_fault: true, .. } => "scripted_server_fault",
            Self::Answer { .. } => "lost_answer",
        }
    }
}

impl Script {
    pub fn new(target: Target, code: &str, times: u32) -> Self {
        Self { target, code: code.to_owned(), message: format!("scripted: {code}"), times }
    }
}

/// A pool a fleet is about to ask.
pub(crate) struct Asked<'a> {
    pub(crate) class: CapacityClass,
    pub(crate) instance_type: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) subnet: &'a str,
    pub(crate) reservation: Option<&'a str>,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    scripts: Vec<Script>,
    /// By kind: how many happened.
    pub(crate) fired: BTreeMap<String, u64>,
}

impl Faults {
    pub(crate) fn script(&mut self, script: Script) {
        self.scripts.push(script);
    }

    pub(crate) fn clear(&mut self) {
        self.scripts.clear();
    }

    pub(crate) fn count(&mut self, kind: &str) {
        *self.fired.entry(kind.to_owned()).or_default() += 1;
    }

    fn strike(&mut self, matches: impl Fn(&Target) -> bool) -> Option<Script> {
        let at = self.scripts.iter().position(|script| script.times > 0 && matches(&script.target))?;
        self.scripts[at].times -= 1;
        let script = self.scripts[at].clone();
        if script.times == 0 {
            self.scripts.remove(at);
        }
        self.count(script.target.kind());
        Some(script)
    }

    pub(crate) fn on_call(&mut self, operation: &str) -> Option<Script> {
        self.strike(|target| matches!(target, Target::Call { operation: of, .. } if *of == operation))
    }

    pub(crate) fn on_answer(&mut self, operation: &str) -> Option<Script> {
        self.strike(|target| matches!(target, Target::Answer { operation: of } if *of == operation))
    }

    pub(crate) fn on_pool(&mut self, asked: &Asked<'_>) -> Option<Script> {
        let any = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        self.strike(|target| match target {
            Target::Pool { class, instance_type, zone } => {
                class.is_none_or(|class| class == asked.class)
                    && any(instance_type, asked.instance_type)
                    && any(zone, asked.zone)
            }
            Target::Subnet(id) => id == asked.subnet,
            Target::Reservation(id) => asked.reservation == Some(id.as_str()),
            Target::Call { .. } | Target::Answer { .. } => false,
        })
    }
}
