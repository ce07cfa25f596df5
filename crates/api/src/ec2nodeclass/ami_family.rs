//! The family of an image decides the format of the user data and the default volumes.

use super::EC2NodeClass;

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

impl AmiFamily {
    /// In the order of the CRD's enumeration.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// The families an alias may name: all but `Custom`.
    pub const WITH_ALIAS: [Self; 6] =
        [Self::Al2, Self::Al2023, Self::Bottlerocket, Self::Windows2019, Self::Windows2022, Self::Windows2025];

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

    /// As aliases spell it: in lower case.
    pub fn alias_name(self) -> &'static str {
        match self {
            Self::Al2 => "al2",
            Self::Al2023 => "al2023",
            Self::Bottlerocket => "bottlerocket",
            Self::Custom => "custom",
            Self::Windows2019 => "windows2019",
            Self::Windows2022 => "windows2022",
            Self::Windows2025 => "windows2025",
        }
    }

    pub fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }
}

/// `family@version`. A family alone means its latest version (upstream refuses that form; existing manifests use it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmiAlias<'a> {
    pub family: AmiFamily,
    pub version: &'a str,
    /// Whether the version was left out and `latest` assumed.
    pub assumed_latest: bool,
}

pub const LATEST: &str = "latest";

impl<'a> AmiAlias<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let (family, version, assumed_latest) = match text.split_once('@') {
            Some((family, version)) => (family, version, false),
            None => (text, LATEST, true),
        };
        let family = AmiFamily::WITH_ALIAS.into_iter().find(|f| f.alias_name() == family)?;
        Some(Self { family, version, assumed_latest })
    }
}

impl EC2NodeClass {
    /// The alias of the image terms; admission sees to it that there is at most one.
    pub fn ami_alias(&self) -> Option<AmiAlias<'_>> {
        self.spec.ami_selector_terms.iter().find_map(|term| AmiAlias::parse(term.alias.as_deref()?))
    }

    /// The family in effect: as written, else that of the alias, else `Custom`.
    pub fn ami_family(&self) -> AmiFamily {
        match &self.spec.ami_family {
            Some(text) => AmiFamily::parse(text).unwrap_or(AmiFamily::Custom),
            None => self.ami_alias().map_or(AmiFamily::Custom, |alias| alias.family),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_name_a_family_and_a_version() {
        for (text, want) in [
            ("al2@v20240625", Some((AmiFamily::Al2, "v20240625", false))),
            ("bottlerocket@latest", Some((AmiFamily::Bottlerocket, "latest", false))),
            ("al2023", Some((AmiFamily::Al2023, "latest", true))),
            ("windows2025", Some((AmiFamily::Windows2025, "latest", true))),
            ("AL2023@latest", None),
            ("custom@latest", None),
            ("ubuntu", None),
        ] {
            let alias = AmiAlias::parse(text);
            assert_eq!(alias.map(|alias| (alias.family, alias.version, alias.assumed_latest)), want, "{text}");
        }
        for family in AmiFamily::ALL {
            assert_eq!(AmiFamily::parse(family.as_str()), Some(family));
            assert_eq!(family.as_str().to_lowercase(), family.alias_name());
        }
    }

    #[test]
    fn the_written_family_goes_before_that_of_the_alias() {
        let mut class = EC2NodeClass::default();
        assert_eq!(class.ami_family(), AmiFamily::Custom);
        class
            .spec
            .ami_selector_terms
            .push(super::super::AmiSelectorTerm { alias: Some("bottlerocket".to_owned()), ..Default::default() });
        assert_eq!(class.ami_family(), AmiFamily::Bottlerocket);
        class.spec.ami_family = Some("Custom".to_owned());
        assert_eq!(class.ami_family(), AmiFamily::Custom);
    }
}
