//! Ways to be wrong on purpose: the differential suite is worth what it catches, so a test plants each of these and
//! expects the suite to find it. Nothing else ever plants one.

use crate::state::State;

#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// `metadata.generation` stays when a spec changes.
    GenerationStands,
    /// A write with an old resource version goes through.
    StaleWritesPass,
    /// What has finalizers is removed at once.
    FinalizersIgnored,
    /// Lists and watches ignore label selectors.
    LabelSelectorsIgnored,
    /// Lists ignore `limit`.
    LimitsIgnored,
    /// Server-side apply takes what others own.
    ApplyConflictsIgnored,
    /// Pods come without the usual tolerations.
    TolerationsForgotten,
    /// Evictions ignore disruption budgets.
    BudgetsIgnored,
    /// A dry run writes.
    DryRunsWrite,
    /// CEL rules and schemas of custom resources are not looked at.
    CustomValidationSkipped,
    /// Watches are not told of deletions.
    DeletionsUnseen,
    /// A merge patch keeps what it should delete.
    NullsKeep,
}

impl Planted {
    pub const ALL: [Planted; 12] = [
        Planted::GenerationStands,
        Planted::StaleWritesPass,
        Planted::FinalizersIgnored,
        Planted::LabelSelectorsIgnored,
        Planted::LimitsIgnored,
        Planted::ApplyConflictsIgnored,
        Planted::TolerationsForgotten,
        Planted::BudgetsIgnored,
        Planted::DryRunsWrite,
        Planted::CustomValidationSkipped,
        Planted::DeletionsUnseen,
        Planted::NullsKeep,
    ];
}

impl State {
    /// Whether this fault is planted.
    pub(crate) fn suffers(&self, fault: Planted) -> bool {
        self.planted == Some(fault)
    }
}
