//! The interruption queue: messages become visible, are received, and come back unless they are deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_provider_aws::calls::{QueueMessage, ReceiveMessages};
use karpenter_provider_aws::ttl::later;
use serde_json::json;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By number.
    messages: BTreeMap<u64, Held>,
    sent: u64,
}

#[derive(Debug)]
struct Held {
    body: String,
    sent_at: Timestamp,
    visible_from: Timestamp,
    received: u32,
}

impl Queue {
    pub(crate) fn send(&mut self, body: String, now: Timestamp) {
        self.sent += 1;
        self.messages.insert(self.sent, Held { body, sent_at: now, visible_from: now, received: 0 });
    }

    pub(crate) fn receive(&mut self, request: &ReceiveMessages, now: Timestamp) -> Vec<QueueMessage> {
        let mut received = Vec::new();
        let visible = self.messages.iter_mut().filter(|(_, held)| held.visible_from <= now);
        for (number, held) in visible.take(request.at_most as usize) {
            held.visible_from = later(now, request.visibility);
            held.received += 1;
            received.push(QueueMessage {
                id: format!("message-{number}"),
                // Each delivery has a handle of its own; an old one no longer deletes.
                receipt_handle: format!("{number}/{}", held.received),
                body: held.body.clone(),
                sent_at: Some(held.sent_at),
            });
        }
        received
    }

    pub(crate) fn delete(&mut self, receipt_handle: &str) -> bool {
        let parse = || {
            let (number, delivery) = receipt_handle.split_once('/')?;
            Some((number.parse::<u64>().ok()?, delivery.parse::<u32>().ok()?))
        };
        let Some((number, delivery)) = parse() else { return false };
        if self.messages.get(&number).is_some_and(|held| held.received == delivery) {
            self.messages.remove(&number);
        }
        true
    }

    /// When the next message can be received.
    pub(crate) fn next_visible(&self) -> Option<Timestamp> {
        self.messages.values().map(|held| held.visible_from).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }
}

/// Events about an instance, as EventBridge writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    SpotInterruption,
    RebalanceRecommendation,
    ScheduledChange,
    Stopping,
    Terminated,
    CapacityReservation,
}

impl Warning {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterruption => "spot_interruption",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ScheduledChange => "scheduled_change",
            Self::Stopping => "stopping",
            Self::Terminated => "terminated",
            Self::CapacityReservation => "capacity_reservation",
        }
    }

    pub(crate) fn body(self, instance: &str, region: &str, number: u64, now: Timestamp) -> String {
        let (source, detail_type, detail) = match self {
            Self::SpotInterruption => (
                "aws.ec2",
                "EC2 Spot Instance Interruption Warning",
                json!({"instance-id": instance, "instance-action": "terminate"}),
            ),
            Self::RebalanceRecommendation => {
                ("aws.ec2", "EC2 Instance Rebalance Recommendation", json!({"instance-id": instance}))
            }
            Self::CapacityReservation => {
                ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", json!({"instance-id": instance}))
            }
            Self::Stopping => (
                "aws.ec2",
                "EC2 Instance State-change Notification",
                json!({"instance-id": instance, "state": "stopping"}),
            ),
            Self::Terminated => (
                "aws.ec2",
                "EC2 Instance State-change Notification",
                json!({"instance-id": instance, "state": "terminated"}),
            ),
            Self::ScheduledChange => (
                "aws.health",
                "AWS Health Event",
                json!({
                    "service": "EC2", "eventTypeCategory": "scheduledChange",
                    "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
                    "affectedEntities": [{"entityValue": instance}],
                }),
            ),
        };
        json!({
            "version": "0",
            "id": format!("event-{number}"),
            "detail-type": detail_type,
            "source": source,
            "account": "000000000000",
            "time": Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
            "region": region,
            "resources": [format!("arn:aws:ec2:{region}:000000000000:instance/{instance}")],
            "detail": detail,
        })
        .to_string()
    }
}
