//! The operator's settings that change what instance types look like.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ec2Settings {
    /// `VM_MEMORY_OVERHEAD_PERCENT`: the share of nominal memory that hypervisor and kernel keep.
    pub vm_memory_overhead_percent: f64,
    /// `RESERVED_ENIS`: interfaces that pods get no addresses from.
    pub reserved_enis: u32,
    /// Feature gate ReservedCapacity.
    pub reserved_capacity: bool,
    /// AWS feature gate NodeClassCEL: kubelet settings may be formulas.
    pub kubelet_expressions: bool,
}

impl Default for Ec2Settings {
    /// Upstream's defaults.
    fn default() -> Self {
        Self {
            vm_memory_overhead_percent: 0.075,
            reserved_enis: 0,
            reserved_capacity: true,
            kubelet_expressions: false,
        }
    }
}
