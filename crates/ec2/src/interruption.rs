//! What EventBridge tells about instances, as it stands in the interruption queue.
//!
//! A message is an EventBridge event in JSON. Source and detail-type choose how its detail is read; whatever we do not
//! act on is [`Message::NoOp`], so that a queue shared with others is merely emptied.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// Ids; several in a health event.
    pub instances: Vec<String>,
    /// When the event happened, for measuring how late we are.
    pub time: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    SpotInterrupted,
    RebalanceRecommendation,
    InstanceStopped,
    InstanceTerminated,
    CapacityReservationInterrupted,
    ScheduledChange,
    /// Not a message: a check of the instance itself fails.
    InstanceStatus,
    /// Not a message: a check of the host fails.
    SystemStatus,
    /// Not a message: EC2 will stop or restart the instance.
    EventStatus,
    NoOp,
}

impl Kind {
    /// Metric label and disruption reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
            Self::NoOp => "no_op",
        }
    }

    pub fn action(self) -> Action {
        match self {
            Self::SpotInterrupted
            | Self::InstanceStopped
            | Self::InstanceTerminated
            | Self::CapacityReservationInterrupted
            | Self::EventStatus
            | Self::ScheduledChange => Action::Delete,
            Self::InstanceStatus | Self::SystemStatus => Action::Terminate,
            Self::RebalanceRecommendation => Action::Tell,
            Self::NoOp => Action::Nothing,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete the claim: its pods move while there is time.
    Delete,
    /// Delete the claim, and wait for nobody: what runs there does not run well.
    Terminate,
    /// An event, no more.
    Tell,
    Nothing,
}

impl Action {
    /// As log lines have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "CordonAndDrain",
            Self::Terminate => "ForcefulTermination",
            Self::Tell | Self::Nothing => "NoAction",
        }
    }
}

/// The body is no EventBridge event.
#[derive(Debug, thiserror::Error)]
#[error("not an EventBridge event: {0}")]
pub struct Malformed(String);

/// The envelope; unknown fields are ignored, and of the known ones only those that decide are kept.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Envelope {
    #[serde(default)]
    version: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    detail_type: String,
    #[serde(default)]
    time: String,
    #[serde(default)]
    detail: Value,
}

pub fn parse(body: &str) -> Result<Message, Malformed> {
    let nothing = Message { kind: Kind::NoOp, instances: Vec::new(), time: None };
    if body.trim().is_empty() {
        return Ok(nothing);
    }
    // Through a map, because a struct may also be written as a list.
    let fields: serde_json::Map<String, Value> =
        serde_json::from_str(body).map_err(|error| Malformed(error.to_string()))?;
    let event: Envelope =
        serde_json::from_value(Value::Object(fields)).map_err(|error| Malformed(error.to_string()))?;
    let time = match event.time.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| Malformed(format!("time {text:?} is not RFC 3339")))?),
    };
    if event.version != "0" {
        return Ok(Message { time, ..nothing });
    }
    let (kind, instances) = match (event.source.as_str(), event.detail_type.as_str()) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => (Kind::SpotInterrupted, instance(&event.detail)?),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => {
            (Kind::RebalanceRecommendation, instance(&event.detail)?)
        }
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            (Kind::CapacityReservationInterrupted, instance(&event.detail)?)
        }
        ("aws.ec2", "EC2 Instance State-change Notification") => {
            (state_change(&event.detail), instance(&event.detail)?)
        }
        ("aws.health", "AWS Health Event") => health(&event.detail)?,
        _ => (Kind::NoOp, Vec::new()),
    };
    let instances = if kind == Kind::NoOp { Vec::new() } else { instances };
    Ok(Message { kind, instances, time })
}

fn instance(detail: &Value) -> Result<Vec<String>, Malformed> {
    match detail.get("instance-id") {
        Some(Value::String(id)) => Ok(vec![id.clone()]),
        _ => Err(Malformed("detail.instance-id is missing".to_owned())),
    }
}

fn state_change(detail: &Value) -> Kind {
    let state = detail.get("state").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    match state.as_str() {
        "stopping" | "stopped" => Kind::InstanceStopped,
        "shutting-down" | "terminated" => Kind::InstanceTerminated,
        _ => Kind::NoOp,
    }
}

fn health(detail: &Value) -> Result<(Kind, Vec<String>), Malformed> {
    let is = |field: &str, want: &str| detail.get(field).and_then(Value::as_str) == Some(want);
    if !is("service", "EC2") || !is("eventTypeCategory", "scheduledChange") {
        return Ok((Kind::NoOp, Vec::new()));
    }
    let entities = match detail.get("affectedEntities") {
        None | Some(Value::Null) => return Ok((Kind::ScheduledChange, Vec::new())),
        Some(Value::Array(entities)) => entities,
        Some(_) => return Err(Malformed("detail.affectedEntities is not a list".to_owned())),
    };
    let id = |entity: &Value| entity.get("entityValue").and_then(Value::as_str).map(str::to_owned);
    Ok((Kind::ScheduledChange, entities.iter().filter_map(id).collect()))
}

#[cfg(test)]
mod tests;
