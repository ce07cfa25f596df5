//! The plan for people.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_controllers::provisioning::why;
use karpenter_core::labels::SPOT;
use karpenter_core::plan::{LeftOver, NewNode, Plan};
use karpenter_core::resources::{CPU, MEMORY};
use karpenter_core::{MicroUsd, Quantity, Resources, World};

use super::json;
use super::order::names;
use crate::terminal::{Align, Style, columns};

/// The usual month of cloud price lists.
pub(crate) const HOURS_PER_MONTH: u64 = 730;
/// How many pods of one reason are named before they are only counted.
const NAMED: usize = 5;

pub(crate) struct View {
    pub(crate) style: Style,
    pub(crate) spot_is_assumed: bool,
    pub(crate) took: Option<Duration>,
}

pub(crate) fn buys_spot(plan: &Plan) -> bool {
    plan.new_nodes.iter().any(|node| &*node.launch.capacity_type == SPOT)
}

pub(crate) fn render(world: &World, plan: &Plan, view: View) -> String {
    let style = view.style;
    let left = json::unschedulable(world, plan);
    let placed = plan.new_nodes.iter().map(|node| node.pods.len()).sum::<usize>();
    let existing: usize = plan.existing.values().map(Vec::len).sum();
    let mut text = String::new();
    if plan.new_nodes.is_empty() {
        text += "No new nodes.\n";
    } else {
        text += &new_nodes(world, plan, style);
    }
    if existing > 0 {
        text += &format!("\n{}", existing_nodes(world, plan, style));
    }
    if !left.is_empty() {
        text += &format!("\n{}", left_over(world, &left, style));
    }
    let nodes = match plan.new_nodes.len() {
        1 => "1 new node".to_owned(),
        count => format!("{count} new nodes"),
    };
    let price = plan.price();
    text += &format!(
        "\n{}: {nodes} for {}, {} on existing nodes, {} left over; {} an hour, {} a month\n",
        style.bold("Plan"),
        pods(placed),
        pods(existing),
        if left.is_empty() { style.good(&pods(0)) } else { style.bad(&pods(left.len())) },
        style.bold(&dollars(price)),
        style.bold(&dollars(MicroUsd(price.0.saturating_mul(HOURS_PER_MONTH)))),
    );
    text += &style.dim("Volumes, data transfer and the control plane are not in the price; a month has 730 hours.");
    text.push('\n');
    if view.spot_is_assumed && buys_spot(plan) {
        text += &style.dim("Spot prices are assumed to be 40 % of on-demand.");
        text.push('\n');
    }
    if let Some(took) = view.took {
        text += &style.dim(&format!("Solved in {:.1} ms.", took.as_secs_f64() * 1000.0));
        text.push('\n');
    }
    text
}

pub(crate) fn pods(count: usize) -> String {
    match count {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    }
}

pub(crate) fn dollars(price: MicroUsd) -> String {
    let cents = price.fraction(1, 10_000).0;
    format!("${}.{:02}", thousands(cents / 100), cents % 100)
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
    groups.join(",")
}

fn new_nodes(world: &World, plan: &Plan, style: Style) -> String {
    let header = [
        ("NODE", Align::Left),
        ("TYPE", Align::Left),
        ("CAPACITY", Align::Left),
        ("ZONE", Align::Left),
        ("PODS", Align::Right),
        ("CPU", Align::Right),
        ("", Align::Right),
        ("MEMORY", Align::Right),
        ("", Align::Right),
        ("$/HOUR", Align::Right),
        ("$/MONTH", Align::Right),
        ("OTHER TYPES", Align::Right),
    ];
    let names = names(world, &plan.new_nodes);
    let rows: Vec<Vec<String>> = plan.new_nodes.iter().zip(names).map(|(node, name)| row(world, node, name)).collect();
    columns(&header, &rows, style)
}

fn row(world: &World, node: &NewNode, name: String) -> Vec<String> {
    let launch = &node.launch;
    let types = &world.pools[node.pool].instance_types;
    let launched = types.iter().find(|it| it.name == launch.instance_type);
    let allocatable = launched.map(|it| it.allocatable()).unwrap_or_default();
    let others = node.instance_types.len().saturating_sub(1);
    vec![
        name,
        launch.instance_type.to_string(),
        launch.capacity_type.to_string(),
        launch.zone.to_string(),
        node.pods.len().to_string(),
        format!("{}/{}", cores(node.requests.get(CPU)), cores(allocatable.get(CPU))),
        percent(&node.requests, &allocatable, CPU),
        format!("{}/{}Gi", gibibytes(node.requests.get(MEMORY)), gibibytes(allocatable.get(MEMORY))),
        percent(&node.requests, &allocatable, MEMORY),
        format!("{:.4}", launch.price.dollars()),
        dollars(MicroUsd(launch.price.0.saturating_mul(HOURS_PER_MONTH))).trim_start_matches('$').to_owned(),
        if others == 0 { "-".to_owned() } else { others.to_string() },
    ]
}

fn cores(quantity: Quantity) -> String {
    let text = format!("{:.2}", quantity.milli() as f64 / 1000.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn gibibytes(quantity: Quantity) -> String {
    format!("{:.1}", quantity.units() as f64 / f64::from(1 << 30))
}

fn percent(used: &Resources, of: &Resources, name: &str) -> String {
    let whole = of.get(name).nanos();
    if whole <= 0 {
        return "-".to_owned();
    }
    format!("{}%", used.get(name).nanos() * 100 / whole)
}

fn existing_nodes(world: &World, plan: &Plan, style: Style) -> String {
    let mut rows: Vec<Vec<String>> = plan
        .existing
        .iter()
        .filter(|(_, pods)| !pods.is_empty())
        .map(|(node, pods)| vec![world.nodes[*node].name.to_string(), pods.len().to_string(), some_pods(world, pods)])
        .collect();
    rows.sort();
    columns(&[("EXISTING NODE", Align::Left), ("PODS", Align::Right), ("", Align::Left)], &rows, style)
}

fn some_pods(world: &World, pods: &[usize]) -> String {
    let named: Vec<String> = pods.iter().take(NAMED).map(|pod| world.pods[*pod].key()).collect();
    let more = pods.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    named.join(", ") + &more
}

/// Pods that are left over for the same reason share an entry.
fn left_over(world: &World, left: &[&LeftOver], style: Style) -> String {
    let mut groups: BTreeMap<(String, Option<&str>), Vec<usize>> = BTreeMap::new();
    for entry in left {
        let miss = entry.nearest_miss.as_ref().map(|miss| miss.text.as_str());
        groups.entry((why::reason(world, &entry.reason), miss)).or_default().push(entry.pod);
    }
    let mut ordered: Vec<_> = groups.into_iter().collect();
    ordered.sort_by_key(|(_, pods)| world.pods[pods[0]].key());
    let mut text = style.bold("LEFT OVER") + "\n";
    for ((reason, miss), pods) in ordered {
        text += &format!("{}\n", style.bad(&some_pods(world, &pods)));
        for part in reason
            .split("; NodePool ")
            .enumerate()
            .map(|(i, part)| if i == 0 { part.to_owned() } else { format!("NodePool {part}") })
        {
            text += &format!("  {part}\n");
        }
        if let Some(miss) = miss {
            text += &format!("  {} {miss}\n", style.bold("Nearest miss:"));
        }
    }
    text
}

#[cfg(test)]
mod tests;
