//! EC2NodeClass. Its spec is not required at the top level, as in the reference.

pub(super) mod devices;
pub(super) mod selectors;
pub(super) mod status;

use serde_json::Value;

use super::rule::{elements, has, text_of};
use super::{Rule, Schema, boolean, int32, map, object, open, root, text};
use crate::labels;

pub(super) fn schema() -> Schema {
    root("How nodes look in EC2.", spec(), status::status())
}

fn spec() -> Schema {
    object(
        "Images, network, volumes, identity and settings of the nodes.",
        [
            (
                "amiFamily",
                text(
                    "Decides the format of user data and the default volumes. Follows from an image alias and may then only \
                     be its family or Custom; required otherwise.",
                )
                .one_of(&["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"]),
            ),
            ("amiSelectorTerms", selectors::amis()),
            (
                "associatePublicIPAddress",
                boolean("Whether instances get public addresses; the subnet decides when absent."),
            ),
            ("blockDeviceMappings", devices::block_device_mappings()),
            ("capacityReservationSelectorTerms", selectors::capacity_reservations()),
            ("connectionTracking", devices::connection_tracking()),
            ("context", text("A field EC2 reserves for its own use.")),
            ("cpuOptions", devices::cpu_options()),
            ("detailedMonitoring", boolean("Whether metrics come every minute.")),
            (
                "instanceProfile",
                text("A ready-made instance profile for the nodes. Excludes role.")
                    .rule(Rule::not_empty("instanceProfile cannot be empty")),
            ),
            (
                "instanceStorePolicy",
                text("RAID0 makes local disks the node's ephemeral storage.").one_of(&["RAID0"]),
            ),
            ("ipPrefixCount", int32("How many IPv4 prefixes the primary interface gets.").at_least(0)),
            (
                "kubelet",
                open(
                    "Settings for the kubelet, by the names of its own configuration. The controller validates them and \
                     reports faults in the condition ValidationSucceeded.",
                ),
            ),
            ("metadataOptions", devices::metadata_options()),
            ("networkInterfaces", devices::network_interfaces()),
            ("placementGroupSelector", selectors::placement_group()),
            (
                "role",
                text("The IAM role of the nodes, for which an instance profile is made. Excludes instanceProfile.")
                    .rule(Rule::not_empty("role cannot be empty")),
            ),
            ("securityGroupSelectorTerms", selectors::security_groups()),
            ("subnetSelectorTerms", selectors::subnets()),
            ("tags", tags()),
            ("userData", text("User data in the format of the AMI family, into which ours is merged.")),
        ],
    )
    .require(&["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"])
    .rule(Rule::whole(
        "must specify exactly one of ['role', 'instanceProfile']",
        "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",
        |spec| has(spec, "role") != has(spec, "instanceProfile"),
    ))
    .rules(family_matches_alias())
    .rule(Rule::whole(
        "must specify amiFamily if amiSelectorTerms does not contain an alias",
        "self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)",
        |spec| ami_terms(spec).iter().any(|term| has(term, "alias")) || has(spec, "amiFamily"),
    ))
}

/// One rule per family, so that the message can name it.
fn family_matches_alias() -> [Rule; 6] {
    macro_rules! family {
        ($article:literal, $family:literal, $alias:literal) => {
            Rule::whole(
                concat!("if set, amiFamily must be '", $family, "' or 'Custom' when using ", $article, " ", $family, " alias"),
                concat!(
                    "!has(self.amiFamily) || (self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '",
                    $alias,
                    "') ? (self.amiFamily == 'Custom' || self.amiFamily == '",
                    $family,
                    "') : true)"
                ),
                |spec| family_is_possible(spec, $family, $alias),
            )
        };
    }
    [
        family!("an", "AL2", "al2"),
        family!("an", "AL2023", "al2023"),
        family!("a", "Bottlerocket", "bottlerocket"),
        family!("a", "Windows2019", "windows2019"),
        family!("a", "Windows2022", "windows2022"),
        family!("a", "Windows2025", "windows2025"),
    ]
}

fn family_is_possible(spec: &Value, family: &str, alias: &str) -> bool {
    let aliased = ami_terms(spec).iter().any(|term| text_of(term, "alias").split('@').next() == Some(alias));
    let given = text_of(spec, "amiFamily");
    !has(spec, "amiFamily") || !aliased || given == "Custom" || given == family
}

fn ami_terms(spec: &Value) -> &[Value] {
    spec.get("amiSelectorTerms").map(elements).unwrap_or_default()
}

pub(super) fn tags() -> Schema {
    map("Tags put on everything created in EC2. Keys the controller sets itself are refused.", text("")).rules([
        Rule::entry("empty tag keys aren't supported", "self.all(k, k != '')", |key, _| !key.is_empty()),
        Rule::entry(
            "tag contains a restricted tag matching eks:eks-cluster-name",
            "self.all(k, k !='eks:eks-cluster-name')",
            |key, _| key != labels::EKS_CLUSTER_NAME_TAG,
        ),
        Rule::entry(
            "tag contains a restricted tag matching kubernetes.io/cluster/",
            "self.all(k, !k.startsWith('kubernetes.io/cluster') )",
            |key, _| !key.starts_with("kubernetes.io/cluster"),
        ),
        Rule::entry(
            "tag contains a restricted tag matching karpenter.sh/nodepool",
            "self.all(k, k != 'karpenter.sh/nodepool')",
            |key, _| key != labels::NODEPOOL,
        ),
        Rule::entry(
            "tag contains a restricted tag matching karpenter.sh/nodeclaim",
            "self.all(k, k !='karpenter.sh/nodeclaim')",
            |key, _| key != labels::NODECLAIM_TAG,
        ),
        Rule::entry(
            "tag contains a restricted tag matching karpenter.k8s.aws/ec2nodeclass",
            "self.all(k, k !='karpenter.k8s.aws/ec2nodeclass')",
            |key, _| key != labels::EC2_NODE_CLASS,
        ),
    ])
}
