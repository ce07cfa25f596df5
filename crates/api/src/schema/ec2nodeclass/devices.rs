//! Volumes, interfaces and options of an instance.

use serde_json::{Value, json};

use super::super::rule::{elements, has, text_of};
use super::super::template::has_any;
use super::super::{Rule, Schema, boolean, int32, int64, list, object, text};
use crate::ec2nodeclass::MetadataOptions;

/// Whole sizes in the range EC2 knows: 1-59000 Gi, 1-64000 G, 1-58 Ti, 1-64 T. The reference's pattern refuses some
/// sizes in Ti (18Ti, 19Ti, 28Ti and so on) and admits a missing number, which then fails to parse; this one does neither.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|(?:[1-9]|[1-4][0-9]|5[0-8])Ti|(?:[1-9]|[1-5][0-9]|6[0-4])T)$";

pub(in crate::schema) fn block_device_mappings() -> Schema {
    let mapping = object(
        "",
        [
            ("deviceName", text("The device's name, such as /dev/xvda.")),
            ("ebs", ebs()),
            ("rootVolume", boolean("Whether the device holds the kubelet's root directory. At most one does.")),
        ],
    );
    list("Volumes of the instances; the AMI family decides when absent.", mapping).at_most(50).rule(Rule::whole(
        "must have only one blockDeviceMappings with rootVolume",
        "self.filter(x, has(x.rootVolume)?x.rootVolume==true:false).size() <= 1",
        |mappings| {
            let is_root = |x: &&Value| x.get("rootVolume").and_then(Value::as_bool) == Some(true);
            elements(mappings).iter().filter(is_root).count() <= 1
        },
    ))
}

fn ebs() -> Schema {
    object(
        "The EBS volume behind the device.",
        [
            ("deleteOnTermination", boolean("Whether the volume ends with the instance.")),
            ("encrypted", boolean("Whether the volume is encrypted.")),
            ("iops", int64("Provisioned operations per second, for gp3, io1 and io2.")),
            ("kmsKeyID", text("The key the volume is encrypted with: id, alias or ARN.")),
            ("snapshotID", text("The snapshot the volume starts from.")),
            ("throughput", int64("Provisioned throughput of a gp3 volume in MiB/s.")),
            (
                "volumeInitializationRate",
                int32("How fast a snapshot is loaded into the volume, in MiB/s. Only with snapshotID.")
                    .at_least(100)
                    .at_most(300),
            ),
            ("volumeSize", text("The size, a whole number of Gi, G, Ti or T.").pattern(VOLUME_SIZE)),
            ("volumeType", text("The kind of volume.").one_of(&["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"])),
        ],
    )
    .rule(Rule::whole(
        "snapshotID or volumeSize must be defined",
        "has(self.snapshotID) || has(self.volumeSize)",
        |ebs| has_any(ebs, &["snapshotID", "volumeSize"]),
    ))
    .rule(Rule::whole(
        "snapshotID must be set when volumeInitializationRate is set",
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        |ebs| !has(ebs, "volumeInitializationRate") || !text_of(ebs, "snapshotID").is_empty(),
    ))
}

pub(in crate::schema) fn connection_tracking() -> Schema {
    object(
        "How long idle connections are tracked, on all interfaces that are not efa-only. Restricts to Nitro types.",
        [
            ("tcpEstablishedTimeout", int32("Seconds for established TCP connections.").at_least(60).at_most(432_000)),
            ("udpStreamTimeout", int32("Seconds for UDP flows with more than one answer.").at_least(60).at_most(180)),
            ("udpTimeout", int32("Seconds for other UDP flows.").at_least(30).at_most(60)),
        ],
    )
    .rule(Rule::whole(
        "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
        "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
        |tracking| has_any(tracking, &["tcpEstablishedTimeout", "udpStreamTimeout", "udpTimeout"]),
    ))
}

pub(in crate::schema) fn cpu_options() -> Schema {
    object(
        "Processor options.",
        [(
            "nestedVirtualization",
            text("Whether instances can run virtual machines. Enabled restricts to types that can.")
                .one_of(&["enabled", "disabled"]),
        )],
    )
}

pub(in crate::schema) fn metadata_options() -> Schema {
    let defaults = MetadataOptions::default();
    let switch: &[&str] = &["enabled", "disabled"];
    object(
        "How much of the instance metadata service nodes and pods can reach.",
        [
            (
                "httpEndpoint",
                text("Whether metadata is served at all.").one_of(switch).default_value(json!(defaults.http_endpoint)),
            ),
            (
                "httpProtocolIPv6",
                text("Whether metadata is served over IPv6.")
                    .one_of(switch)
                    .default_value(json!(defaults.http_protocol_ipv6)),
            ),
            (
                "httpPutResponseHopLimit",
                int64("How many hops a response may travel. 1 keeps pods with their own network away.")
                    .at_least(1)
                    .at_most(64)
                    .default_value(json!(defaults.http_put_response_hop_limit)),
            ),
            (
                "httpTokens",
                text("Whether requests must carry a session token.")
                    .one_of(&["required", "optional"])
                    .default_value(json!(defaults.http_tokens)),
            ),
        ],
    )
    .default_value(json!(defaults))
}

pub(in crate::schema) fn network_interfaces() -> Schema {
    let interface = object(
        "A network interface of the instances.",
        [
            ("deviceIndex", int32("The device index on its card.").at_least(0)),
            (
                "interfaceType",
                text("An ordinary interface, or one for EFA traffic alone.").one_of(&["interface", "efa-only"]),
            ),
            ("networkCardIndex", int32("The network card.").at_least(0)),
        ],
    )
    .require(&["deviceIndex", "interfaceType", "networkCardIndex"]);
    list(
        "Network interfaces of the instances; the instance type decides when absent.",
        interface,
    )
    .at_most(150)
    .rule(Rule::whole(
        "networkInterfaces must include a primary interface with interfaceType='interface'",
        "self.size() == 0 || self.exists(x, x.deviceIndex == 0 && x.networkCardIndex == 0 && x.interfaceType == \
             'interface')",
        |interfaces| {
            let interfaces = elements(interfaces);
            interfaces.is_empty()
                || interfaces
                    .iter()
                    .any(|x| position(x) == (Some(0), Some(0)) && text_of(x, "interfaceType") == "interface")
        },
    ))
    .rule(Rule::whole(
        "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one \
             efa device per network card",
        "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == \
             y.deviceIndex).size() == 1 && (x.interfaceType != 'efa-only' || self.filter(y, x.networkCardIndex == \
             y.networkCardIndex && y.interfaceType == 'efa-only').size() == 1))",
        |interfaces| {
            let interfaces = elements(interfaces);
            let is_efa = |x: &Value| text_of(x, "interfaceType") == "efa-only";
            interfaces.iter().all(|x| {
                let twins = interfaces.iter().filter(|y| position(x) == position(y)).count();
                let efa_on_card = interfaces
                    .iter()
                    .filter(|y| position(x).0 == position(y).0 && is_efa(y))
                    .count();
                twins == 1 && (!is_efa(x) || efa_on_card == 1)
            })
        },
    ))
}

/// Card and device.
fn position(interface: &Value) -> (Option<i64>, Option<i64>) {
    let index = |field| interface.get(field).and_then(Value::as_i64);
    (index("networkCardIndex"), index("deviceIndex"))
}
