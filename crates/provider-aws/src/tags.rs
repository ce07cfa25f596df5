//! Tags: what everything we make carries, and what users may not say themselves.

use karpenter_api::{EC2NodeClass, NodeClaim, labels, validation};

use crate::calls::Tags;

/// On fleet, instance, volume, network interface, spot request and launch template. `claim` is none when permissions
/// are checked: then the pool's tag is there and empty, as policies look at its key.
pub(crate) fn launch_tags(class: &EC2NodeClass, claim: Option<&NodeClaim>, cluster: &str) -> Result<Tags, String> {
    let faults = validation::runtime::ec2nodeclass_tags(class);
    if !faults.is_empty() {
        return Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    }
    let pool = claim.and_then(|claim| claim.metadata.labels.as_ref()?.get(labels::NODEPOOL)).cloned();
    let mut tags: Tags = class.spec.tags.clone().unwrap_or_default();
    let (key, value) = ownership_tag(cluster);
    tags.insert(key, value.to_owned());
    tags.insert(labels::NODEPOOL.to_owned(), pool.unwrap_or_default());
    tags.insert(labels::EKS_CLUSTER_NAME_TAG.to_owned(), cluster.to_owned());
    tags.insert(labels::EC2_NODE_CLASS.to_owned(), class.metadata.name.clone().unwrap_or_default());
    Ok(tags)
}

/// Says whose a machine is.
pub(crate) fn ownership_tag(cluster: &str) -> (String, &'static str) {
    (format!("kubernetes.io/cluster/{cluster}"), "owned")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(tags: &[(&str, &str)]) -> EC2NodeClass {
        let mut class = EC2NodeClass::default();
        class.metadata.name = Some("main".to_owned());
        class.spec.tags = Some(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        class
    }

    #[test]
    fn everything_carries_our_tags_over_the_users() {
        // covers: AWS-TAG-01, AWS-TAG-08
        let mut claim = NodeClaim::default();
        claim.metadata.labels = Some([(labels::NODEPOOL.to_owned(), "pool".to_owned())].into());
        let want = |pool: &str| {
            [
                ("team", "a"),
                ("kubernetes.io/cluster/here", "owned"),
                ("karpenter.sh/nodepool", pool),
                ("eks:eks-cluster-name", "here"),
                ("karpenter.k8s.aws/ec2nodeclass", "main"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect::<Tags>()
        };
        assert_eq!(launch_tags(&class(&[("team", "a")]), Some(&claim), "here").unwrap(), want("pool"));
        assert_eq!(launch_tags(&class(&[("team", "a")]), None, "here").unwrap(), want(""));
    }

    #[test]
    fn users_may_not_set_ours() {
        // covers: AWS-TAG-04
        for key in [
            "kubernetes.io/cluster/here",
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "karpenter.k8s.aws/ec2nodeclass",
            "eks:eks-cluster-name",
            "",
        ] {
            let refused = launch_tags(&class(&[(key, "x")]), None, "here").unwrap_err();
            assert!(refused.contains(key), "{refused}");
        }
    }
}
