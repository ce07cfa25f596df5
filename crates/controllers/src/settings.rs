//! What operators set that these controllers look at. Reading flags and environment is somebody else's business.

use std::time::Duration;

/// No `Default`-less field is hidden: [`Settings::default`] is upstream's.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `--batch-max-duration`.
    pub batch_max: Duration,
    /// `--batch-idle-duration`.
    pub batch_idle: Duration,
    /// `--cpu-requests`, in millicores: how much may run in parallel.
    pub cpu_requests: u32,
    /// What decides placements.
    pub scheduling: karpenter_core::settings::Settings,
    /// Planned pods are nominated to their node: needs the permission on `pods/status`.
    pub nominate_pods: bool,
    /// Feature gate `NodeRepair`.
    pub node_repair: bool,
    /// Feature gate `NodeOverlay`.
    pub node_overlays: bool,
    /// Feature gate `CapacityBuffer`.
    pub capacity_buffers: bool,
    /// Feature gate `StaticCapacity`.
    pub static_capacity: bool,
    /// `--disable-cluster-state-observability`.
    pub quiet_status: bool,
    /// What decides which nodes go.
    pub disruption: karpenter_disruption::Policy,
    /// Namespace and name of the ConfigMap whose annotation pauses disruption.
    pub config_map: Option<(String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_max: Duration::from_secs(10),
            batch_idle: Duration::from_secs(1),
            cpu_requests: 1000,
            scheduling: karpenter_core::settings::Settings::default(),
            nominate_pods: true,
            node_repair: false,
            node_overlays: false,
            capacity_buffers: false,
            static_capacity: false,
            quiet_status: false,
            disruption: karpenter_disruption::Policy::default(),
            config_map: None,
        }
    }
}

impl Settings {
    /// How long a node that pods were planned onto is shielded from disruption.
    pub fn nomination_window(&self) -> Duration {
        (self.batch_max * 2).max(Duration::from_secs(10))
    }

    /// Grows with the cores we may use, from `least` at one core to `most` at sixty.
    pub fn parallelism(&self, least: usize, most: usize) -> usize {
        let cores = usize::try_from(self.cpu_requests.div_ceil(1000)).unwrap_or(1).clamp(1, 60);
        least + (most - least) * (cores - 1) / 59
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nomination_window_is_twice_the_longest_batch_and_at_least_ten_seconds() {
        let with = |seconds| Settings { batch_max: Duration::from_secs(seconds), ..Settings::default() };
        for (batch, want) in [(10, 20), (1, 10), (5, 10), (30, 60)] {
            assert_eq!(with(batch).nomination_window(), Duration::from_secs(want));
        }
    }

    #[test]
    fn parallelism_grows_linearly_with_cores() {
        let with = |cpu_requests| Settings { cpu_requests, ..Settings::default() };
        for (millicores, want) in [(100, 10), (1000, 10), (1001, 26), (30_000, 496), (60_000, 1000), (90_000, 1000)] {
            assert_eq!(with(millicores).parallelism(10, 1000), want, "{millicores}m");
        }
        assert_eq!(with(60_000).parallelism(1000, 5000), 5000);
    }
}
