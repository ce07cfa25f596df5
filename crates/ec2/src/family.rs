//! AMI families: what an image's lineage says about the node that boots it.

use karpenter_core::Quantity;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmiFamily {
    Al2,
    Al2023,
    Bottlerocket,
    Custom,
    Windows2019,
    Windows2022,
    Windows2025,
}

const GIB: i64 = 1 << 30;

impl AmiFamily {
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// As `spec.amiFamily` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }

    /// From the family part of an alias such as `al2023@latest`. Custom images have no alias.
    pub fn from_alias(text: &str) -> Option<Self> {
        let family = text.split('@').next().unwrap_or(text);
        let spelled = |known: &Self| *known != Self::Custom && known.as_str().to_ascii_lowercase() == family;
        Self::ALL.into_iter().find(spelled)
    }

    /// The build that Windows nodes carry as a label; `None` on Linux.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            Self::Al2 | Self::Al2023 | Self::Bottlerocket | Self::Custom => None,
        }
    }

    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// Whether the number of pods is bounded by the addresses of the network interfaces.
    pub fn limits_pods_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    /// Whether the kubelet is told `podsPerCore`. Bottlerocket has no setting for it.
    pub fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// Whether the memory reserved for the kubelet follows the interfaces' pod limit, whatever `maxPods` says: the
    /// boot scripts of these images compute it so.
    pub fn reserves_memory_by_interfaces(self) -> bool {
        match self {
            Self::Al2 | Self::Al2023 | Self::Custom => true,
            Self::Bottlerocket | Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => false,
        }
    }

    /// The device that holds pods' files, and its size when nobody says otherwise. Of a custom image we know neither.
    pub fn ephemeral_device(self) -> Option<(&'static str, Quantity)> {
        match self {
            Self::Al2 | Self::Al2023 => Some(("/dev/xvda", default_volume_size())),
            Self::Bottlerocket => Some(("/dev/xvdb", default_volume_size())),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => {
                Some(("/dev/sda1", Quantity::from_bytes(50 * GIB)))
            }
            Self::Custom => None,
        }
    }
}

/// The size of a volume whose size nobody gave.
pub(crate) fn default_volume_size() -> Quantity {
    Quantity::from_bytes(20 * GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_traits() {
        // covers: AWS-AMI-26
        for (family, by_interfaces, memory_by_interfaces, pods_per_core) in [
            (AmiFamily::Al2, true, true, true),
            (AmiFamily::Al2023, true, true, true),
            (AmiFamily::Bottlerocket, true, false, false),
            (AmiFamily::Windows2022, false, false, true),
            (AmiFamily::Custom, true, true, true),
        ] {
            assert_eq!(family.limits_pods_by_interfaces(), by_interfaces, "{family:?}");
            assert_eq!(family.reserves_memory_by_interfaces(), memory_by_interfaces, "{family:?}");
            assert_eq!(family.honours_pods_per_core(), pods_per_core, "{family:?}");
        }
    }
}
