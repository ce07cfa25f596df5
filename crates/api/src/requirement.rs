//! A node selector requirement with a floor on flexibility, as NodePools and NodeClaims write it.

use serde::{Deserialize, Serialize};

/// The operators a requirement may use, as spelled on the wire.
pub mod operator {
    pub const IN: &str = "In";
    pub const NOT_IN: &str = "NotIn";
    pub const EXISTS: &str = "Exists";
    pub const DOES_NOT_EXIST: &str = "DoesNotExist";
    pub const GT: &str = "Gt";
    pub const LT: &str = "Lt";
    pub const GTE: &str = "Gte";
    pub const LTE: &str = "Lte";

    /// In the order of the CRD's enumeration.
    pub const ALL: [&str; 8] = [GTE, LTE, IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT];

    /// Whether the operator compares with one integer.
    pub fn is_numeric(operator: &str) -> bool {
        matches!(operator, GT | LT | GTE | LTE)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    pub key: String,
    /// One of [`operator::ALL`].
    pub operator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// How many distinct values must remain for the instance types chosen. NodeOverlays have no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

impl NodeSelectorRequirement {
    /// The values, none when absent.
    pub fn values(&self) -> &[String] {
        self.values.as_deref().unwrap_or_default()
    }
}
