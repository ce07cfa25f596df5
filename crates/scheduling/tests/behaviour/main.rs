//! What the solver decides, behaviour by behaviour, seen through its public face alone.
//!
//! Every scenario is solved in the reference's order, whose outcome is pinned, and again as it runs by default, which may
//! only place more and pay less.

mod anti_affinity;
mod daemons;
mod default_spread;
mod existing_nodes;
mod instance_types;
mod limits;
mod min_values;
mod moving_pods;
mod new_claims;
mod packing;
mod pod_affinity;
mod preferences;
mod reservations;
mod seen;
mod selection;
mod solve_loop;
mod spread;
mod spread_counts;
mod spread_domains;
mod spread_policies;
mod taints_and_ports;
mod volumes;
