//! What kube-controller-manager does, as pure functions: each looks at the world and says what to write.

pub mod attach;
pub mod cron;
pub mod cronjob;
pub mod daemonset;
pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod ephemeral;
pub mod eviction;
pub mod job;
pub mod namespace;
pub mod nodes;
pub mod podgc;
pub mod replicas;
pub mod replicaset;
pub mod revisions;
pub mod rollout;
pub mod statefulset;
pub mod volumes;

#[cfg(test)]
mod tests;
