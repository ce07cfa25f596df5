//! Kubelet settings that are formulas: a number worked out from what an instance type has.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::Quantity;
use karpenter_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use karpenter_structural::cel::{Formula, Input};

use crate::catalogue::TypeFacts;
use crate::nodeclass::{KubeletFacts, MaxPods, Reserved};

/// Compiled ones by their text. One that is missing is compiled where it is needed.
pub type Formulas = BTreeMap<String, Arc<Formula>>;

/// A formula that does not give a usable number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.kubelet.{field} on {instance_type}: {message}")]
pub struct ExpressionError {
    /// As in `kubeReserved[cpu]`.
    pub field: String,
    pub instance_type: String,
    pub message: String,
}

/// What a formula may ask about the machine it is evaluated for.
pub(super) struct Machine<'a> {
    facts: &'a TypeFacts,
    pub(super) max_pods: i64,
}

/// The values that compilation looks at the types of.
fn inputs<'a>(facts: Option<&'a TypeFacts>, max_pods: i64) -> [(&'static str, Input<'a>); 6] {
    let number = |of: &dyn Fn(&TypeFacts) -> u64| {
        Input::Int(facts.map_or(0, |facts| i64::try_from(of(facts)).unwrap_or(i64::MAX)))
    };
    let enis = |facts: &TypeFacts| {
        facts.network_cards.get(facts.default_network_card).map_or(0, |card| u64::from(card.max_enis))
    };
    [
        ("vcpus", number(&|facts| u64::from(facts.vcpus))),
        ("memory_mib", number(&|facts| facts.memory_mib)),
        ("default_enis", number(&enis)),
        ("ips_per_eni", number(&|facts| u64::from(facts.ipv4_per_eni))),
        ("max_pods", Input::Int(max_pods)),
        ("instance_type", Input::Text(facts.map_or("", |facts| &facts.name))),
    ]
}

pub fn compile(source: &str) -> Result<Formula, String> {
    Formula::compile(source, &inputs(None, 0))
}

/// The texts of all formulas in a class, by the field that holds them.
pub fn expressions(kubelet: &KubeletFacts) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    if let Some(MaxPods::Expression(source)) = &kubelet.max_pods {
        found.push(("maxPods".to_owned(), source.as_str()));
    }
    for (field, given) in [("kubeReserved", &kubelet.kube_reserved), ("systemReserved", &kubelet.system_reserved)] {
        for (name, reserved) in given {
            if let Reserved::Expression(source) = reserved {
                found.push((format!("{field}[{name}]"), source.as_str()));
            }
        }
    }
    found
}

impl<'a> Machine<'a> {
    pub(super) fn new(facts: &'a TypeFacts, max_pods: i64) -> Self {
        Self { facts, max_pods }
    }

    fn value(&self, field: &str, source: &str, formulas: &Formulas) -> Result<i64, ExpressionError> {
        let inputs = inputs(Some(self.facts), self.max_pods);
        let value = match formulas.get(source) {
            Some(formula) => formula.value(&inputs),
            None => compile(source).and_then(|formula| formula.value(&inputs)),
        };
        value.map_err(|message| self.error(field, message))
    }

    fn error(&self, field: &str, message: String) -> ExpressionError {
        ExpressionError { field: field.to_owned(), instance_type: self.facts.name.to_string(), message }
    }

    pub(super) fn max_pods(&self, source: &str, formulas: &Formulas) -> Result<i32, ExpressionError> {
        let value = self.value("maxPods", source, formulas)?;
        let fits = i32::try_from(value).ok().filter(|count| *count >= 0);
        fits.ok_or_else(|| self.error("maxPods", format!("{value} is not between 0 and {}", i32::MAX)))
    }

    /// Rounded up, so that types which differ by a hair share a launch template.
    pub(super) fn reserved(
        &self,
        field: &str,
        resource: &str,
        source: &str,
        formulas: &Formulas,
    ) -> Result<Quantity, ExpressionError> {
        let field = format!("{field}[{resource}]");
        let value = self.value(&field, source, formulas)?;
        if value < 0 {
            return Err(self.error(&field, format!("{value} is negative")));
        }
        let rounded = |step: i64| value.checked_add(step - 1).map(|sum| sum / step * step);
        let text = match resource {
            CPU => rounded(10).map(|amount| format!("{amount}m")),
            MEMORY => rounded(16).map(|amount| format!("{amount}Mi")),
            EPHEMERAL_STORAGE => Some(format!("{value}Gi")),
            _ => Some(value.to_string()),
        };
        let quantity = text.and_then(|text| text.parse().ok());
        quantity.ok_or_else(|| self.error(&field, format!("{value} is too large")))
    }
}
