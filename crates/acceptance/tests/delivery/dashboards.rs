//! Dashboards and alerts name series that exist, and every alert says what to do. Their queries are read by promtool in `.ci/run`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::helm::{read, yaml};

const DASHBOARDS: [&str; 5] = ["capacity", "controller", "cost", "disruption", "overview"];

fn queries(name: &str) -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read(&format!("dashboards/{name}.json"))).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().clone();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

fn rules() -> Vec<Value> {
    let rules = yaml(&read("dashboards/alerts.yaml"));
    rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Names of series in a query: words before a brace, a bracket or an operator that look like ours.
fn series(query: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let starts = [
        "karpenter_",
        "operator_",
        "controller_runtime_",
        "workqueue_",
        "leader_election_",
        "client_go_",
        "aws_sdk_go_",
        "process_",
    ];
    let ours = |name: &&str| starts.iter().any(|start| name.starts_with(start));
    query.split(word).filter(ours).map(|name| name.strip_suffix("_bucket").unwrap_or(name).to_owned()).collect()
}

#[test]
fn every_series_of_a_dashboard_or_an_alert_is_in_the_documentation() {
    let documented: BTreeSet<String> =
        read("docs/metrics.md").split('`').filter(|word| !word.contains(' ')).map(str::to_owned).collect();
    let alerts = rules().into_iter().map(|rule| rule["expr"].as_str().unwrap().to_owned());
    let all = DASHBOARDS.iter().flat_map(|name| queries(name)).chain(alerts);
    let mut seen = 0;
    for query in all {
        let names = series(&query);
        assert!(!names.is_empty(), "{query}");
        seen += names.len();
        for name in names {
            assert!(documented.contains(&name), "{name} of {query}");
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn the_series_that_users_watch_are_on_dashboards() {
    // covers: SEED1-32
    let all: BTreeSet<String> =
        DASHBOARDS.iter().flat_map(|name| queries(name)).flat_map(|query| series(&query)).collect();
    for name in [
        "karpenter_nodes_created_total",
        "karpenter_nodes_terminated_total",
        "karpenter_provisioner_scheduling_duration",
        "karpenter_nodes_allocatable",
        "karpenter_nodepool_usage",
        "karpenter_nodepool_limit",
        "karpenter_pods_startup_duration_seconds",
        "karpenter_nodepools_cost_total",
        "karpenter_cloudprovider_instance_type_offering_price_estimate",
        "karpenter_cluster_utilization_percent",
    ] {
        assert!(all.contains(name), "{name}");
    }
    let types = queries("overview").into_iter().find(|query| query.contains("count by (instance_type)"));
    assert_eq!(types.as_deref(), Some("count by (instance_type) (karpenter_nodes_allocatable{resource_type=\"cpu\"})"));
}

#[test]
fn dashboards_ask_for_their_data_source_and_have_names_of_their_own() {
    let mut names = BTreeSet::new();
    for name in DASHBOARDS {
        let dashboard: Value = serde_json::from_str(&read(&format!("dashboards/{name}.json"))).unwrap();
        assert!(names.insert(dashboard["uid"].as_str().unwrap().to_owned()), "{name}");
        assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource", "{name}");
        let ids: BTreeSet<i64> =
            dashboard["panels"].as_array().unwrap().iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
        assert_eq!(ids.len(), dashboard["panels"].as_array().unwrap().len(), "{name}");
        for panel in dashboard["panels"].as_array().unwrap() {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}: {}", panel["title"]);
        }
    }
}

#[test]
fn every_alert_has_a_runbook() {
    // covers: SEED1-49
    let runbooks = read("docs/runbooks.md");
    let headings: BTreeSet<&str> = runbooks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts: BTreeSet<String> = rules().iter().map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect();
    assert_eq!(headings, alerts.iter().map(String::as_str).collect::<BTreeSet<_>>());
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        let expected = format!("docs/runbooks.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], expected, "{name}");
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
    }
    let tests = yaml(&read("dashboards/alerts_test.yaml"));
    let cases = tests["tests"].as_array().unwrap().iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap());
    let fired: BTreeSet<String> = cases
        .filter(|case| !case["exp_alerts"].as_array().unwrap().is_empty())
        .map(|case| case["alertname"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(fired, alerts, "each is seen to fire in alerts_test.yaml");
}
