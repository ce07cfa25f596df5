//! Taints, tolerations, and which taints are only there while a node starts.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute].into_iter().find(|e| e.as_str() == text)
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Empty: any key (with `Exists`).
    pub key: String,
    pub operator: TolerationOperator,
    pub value: String,
    /// `None`: any effect.
    pub effect: Option<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    Equal,
    Exists,
    Lt,
    Gt,
}

impl Toleration {
    /// What relaxation adds as its last resort.
    pub fn of_every_preference() -> Self {
        Self {
            key: String::new(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: Some(Effect::PreferNoSchedule),
        }
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                TolerationOperator::Exists => true,
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Lt => {
                    number(&taint.value).zip(number(&self.value)).is_some_and(|(taint, mine)| taint < mine)
                }
                TolerationOperator::Gt => {
                    number(&taint.value).zip(number(&self.value)).is_some_and(|(taint, mine)| taint > mine)
                }
            }
    }
}

/// The first taint that nothing tolerates, whatever its effect: a soft taint blocks until relaxation tolerates it.
pub fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// Taints that go away by themselves while a node starts.
pub fn is_ephemeral(taint: &Taint) -> bool {
    const EPHEMERAL: [(&str, Effect); 5] = [
        ("node.kubernetes.io/not-ready", Effect::NoSchedule),
        ("node.kubernetes.io/not-ready", Effect::NoExecute),
        ("node.kubernetes.io/unreachable", Effect::NoSchedule),
        ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule),
        ("karpenter.sh/unregistered", Effect::NoExecute),
    ];
    taint.key.starts_with("readiness.k8s.io/") || EPHEMERAL.contains(&(taint.key.as_str(), taint.effect))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: Effect) -> Taint {
        Taint { key: key.into(), value: value.into(), effect }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: Option<Effect>) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect }
    }

    #[test]
    fn tolerations_match_key_value_and_effect() {
        // covers: SCH-TAINT-02, SCH-TAINT-03
        use TolerationOperator::{Equal, Exists, Gt, Lt};
        let no = Effect::NoSchedule;
        for (toleration, taint, want) in [
            (toleration("a", Equal, "1", None), taint("a", "1", no), true),
            (toleration("a", Equal, "1", None), taint("a", "2", no), false),
            (toleration("a", Equal, "1", None), taint("b", "1", no), false),
            (toleration("a", Exists, "", Some(no)), taint("a", "2", no), true),
            (toleration("a", Exists, "", Some(Effect::NoExecute)), taint("a", "2", no), false),
            (toleration("", Exists, "", None), taint("a", "2", Effect::PreferNoSchedule), true),
            (toleration("", Equal, "2", None), taint("a", "2", no), true),
            (toleration("a", Lt, "10", None), taint("a", "9", no), true),
            (toleration("a", Lt, "10", None), taint("a", "10", no), false),
            (toleration("a", Gt, "10", None), taint("a", "11", no), true),
            (toleration("a", Gt, "10", None), taint("a", "x", no), false),
            (toleration("a", Gt, "", None), taint("a", "11", no), false),
        ] {
            assert_eq!(toleration.tolerates(&taint), want, "{toleration:?} {taint}");
        }
    }

    #[test]
    fn ephemeral_taints_are_told_by_key_and_effect() {
        // covers: SCH-TAINT-07, SCH-TAINT-08
        for (key, effect, want) in [
            ("node.kubernetes.io/not-ready", Effect::NoSchedule, true),
            ("node.kubernetes.io/not-ready", Effect::NoExecute, true),
            ("node.kubernetes.io/not-ready", Effect::PreferNoSchedule, false),
            ("node.kubernetes.io/unreachable", Effect::NoSchedule, true),
            ("node.kubernetes.io/unreachable", Effect::NoExecute, false),
            ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule, true),
            ("karpenter.sh/unregistered", Effect::NoExecute, true),
            ("karpenter.sh/unregistered", Effect::NoSchedule, false),
            ("readiness.k8s.io/network", Effect::PreferNoSchedule, true),
            ("x.readiness.k8s.io/network", Effect::NoSchedule, false),
            ("team", Effect::NoSchedule, false),
        ] {
            assert_eq!(is_ephemeral(&taint(key, "any", effect)), want, "{key} {effect:?}");
        }
    }
}
