//! What a scraper sees over a cluster's life, compared with the list of everything there is.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::labels::WELL_KNOWN;
use karpenter_apiserver::User;
use karpenter_controllers::Settings;
use karpenter_runtime::metrics::{Show, page};
use serde_json::json;

use karpenter_aws_sim::{Script, Target};

use super::{DEPLOYMENTS, Lab, deployment, send};

const LIST: &str = include_str!("metrics.txt");

/// A metric's type, and the labels of its series.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    kind: String,
    labels: BTreeSet<String>,
}

#[derive(Debug)]
struct Row {
    shape: Shape,
    mark: String,
}

fn list() -> BTreeMap<String, Row> {
    let rows = LIST.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (name, kind, labels, mark) = (next(), next(), next(), next());
        let labels = labels.split(',').filter(|label| *label != "-").flat_map(|label| match label {
            "NODE" => node_labels(),
            label => vec![label.to_owned()],
        });
        (name, Row { shape: Shape { kind, labels: labels.collect() }, mark })
    })
    .collect()
}

fn node_labels() -> Vec<String> {
    let known = WELL_KNOWN.iter().map(|key| key.split_once('/').unwrap().1.to_lowercase().replace('-', "_"));
    known.chain(["node_name", "phase", "managed"].map(str::to_owned)).collect()
}

/// Every metric of a page that has a series, and the series of each.
fn read(page: &str) -> BTreeMap<String, (String, Vec<BTreeMap<String, String>>)> {
    let mut metrics: BTreeMap<String, (String, Vec<BTreeMap<String, String>>)> = BTreeMap::new();
    let mut current = (String::new(), String::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            current = (name.to_owned(), kind.to_owned());
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value == "NaN" || value.parse::<f64>().is_ok(), "{line}");
        let (name, labels) =
            series.split_once('{').map_or((series, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
        let suffixes: &[&str] = match current.1.as_str() {
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["", "_sum", "_count"],
            _ => &[""],
        };
        let own = suffixes.iter().any(|suffix| *name == format!("{}{suffix}", current.0));
        assert!(own, "{line} stands under {current:?}");
        let labels = labels.split("\",").filter(|label| !label.is_empty()).map(|label| {
            let (key, value) = label.split_once("=\"").unwrap();
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        });
        let labels: BTreeMap<String, String> = labels.filter(|(key, _)| key != "le" && key != "quantile").collect();
        metrics.entry(current.0.clone()).or_insert_with(|| (current.1.clone(), Vec::new())).1.push(labels);
    }
    metrics
}

#[tokio::test(start_paused = true)]
async fn pools_nodes_and_pods_are_left_out_where_nobody_wants_them() {
    // covers: API-EV-40
    let quiet = Settings { quiet_status: true, ..Settings::default() };
    let lab = Lab::of(5, User::admin(), quiet, |_, _| ()).await;
    lab.pool().await;
    let limits = json!({"spec": {"limits": {"cpu": "100", "memory": "400Gi"}}});
    send(&lab.client, "PATCH", "/apis/karpenter.sh/v1/nodepools/default", Some(limits)).await;
    lab.create(DEPLOYMENTS, deployment(("web", "1500m", "1Gi"), 3)).await;
    lab.settle(200).await;
    let page = page(&lab.context, Show { legacy: true });
    assert!(page.contains("karpenter_nodeclaims_created_total{"), "there is something to tell of");
    let left_out = [
        "karpenter_nodepools_limit{",
        "karpenter_nodepools_usage{",
        "karpenter_nodepools_cost_total{",
        "karpenter_nodepool_limit{",
        "karpenter_nodepool_usage{",
        "karpenter_nodes_allocatable{",
        "karpenter_pods_state{",
    ];
    let samples = page.lines().filter(|line| left_out.iter().any(|name| line.starts_with(name)));
    let samples: Vec<&str> = samples.collect();
    assert!(samples.is_empty(), "{samples:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_sells_and_how_it_is_asked_are_measured() {
    // covers: AWS-MET-01, AWS-MET-03, AWS-MET-05, AWS-MET-06, AWS-MET-08
    let lab = Lab::new(5).await;
    lab.pool().await;
    lab.settle(10).await;
    lab.create(DEPLOYMENTS, deployment(("web", "1", "1Gi"), 1)).await;
    lab.settle(120).await;
    let value = |series: &str| -> Option<f64> {
        lab.metrics().lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    };
    let labels = lab.list("/api/v1/nodes").await[0]["metadata"]["labels"].clone();
    let label = |key: &str| labels[key].as_str().unwrap().to_owned();
    let (kind, zone) = (label("node.kubernetes.io/instance-type"), label("topology.kubernetes.io/zone"));
    let offering = |name: &str| {
        let labels = format!("instance_type=\"{kind}\",capacity_type=\"on-demand\",zone=\"{zone}\"");
        value(&format!("karpenter_cloudprovider_instance_type_offering_{name}{{{labels}}}"))
    };
    assert_eq!(offering("available"), Some(1.0));
    assert_eq!(offering("price_estimate"), Some(lab.region.price_per_hour().0 as f64 / 1e6), "what the one node costs");
    let types = lab.region.options().catalogue.types.clone();
    let facts = types.iter().find(|facts| *facts.name == *kind).unwrap();
    let of_type =
        |name: &str| value(&format!("karpenter_cloudprovider_instance_type_{name}{{instance_type=\"{kind}\"}}"));
    assert_eq!(of_type("cpu_cores"), Some(f64::from(facts.vcpus)));
    assert_eq!(of_type("memory_bytes"), Some((facts.memory_mib << 20) as f64));
    // What was refused a moment ago is not to be had.
    let pool = Target::Pool { class: None, instance_type: Some(kind.clone()), zone: Some(zone.clone()) };
    lab.region.script(Script::new(pool, "InsufficientInstanceCapacity", u32::MAX));
    lab.create(DEPLOYMENTS, deployment(("more", "1", "1Gi"), 1)).await;
    lab.settle(75).await;
    assert_eq!(offering("available"), Some(0.0));
    let template = "karpenter_ec2nodeclasses_userdata_bytes{nodeclass=\"default\"}";
    assert!(value(template).is_some_and(|bytes| bytes > 100.0), "{:?}", value(template));

    // Together, and then each alone.
    let refusal = Target::Call { operation: "TerminateInstances", server_fault: false };
    lab.region.script(Script::new(refusal, "UnauthorizedOperation", 3));
    for app in ["web", "more"] {
        send(&lab.client, "DELETE", &format!("{DEPLOYMENTS}/{app}"), None).await;
    }
    lab.settle(300).await;
    assert!(lab.list("/api/v1/nodes").await.is_empty());
    let failures: f64 = lab
        .metrics()
        .lines()
        .filter(|line| line.starts_with("karpenter_cloudprovider_instance_termination_failures_total{zone=\"us-east-1"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    assert!((1.0..=3.0).contains(&failures), "{failures}");
    for batcher in ["create_fleet", "describe_instances", "terminate_instances"] {
        let of = |name: &str| {
            value(&format!("karpenter_cloudprovider_batcher_batch_{name}{{batcher=\"{batcher}\"}}")).unwrap()
        };
        assert!(of("size_count") >= 1.0 && of("size_sum") >= of("size_count"), "{batcher}");
        assert_eq!(of("time_seconds_count"), of("size_count"), "{batcher}");
    }
    send(&lab.client, "DELETE", "/apis/karpenter.sh/v1/nodepools/default", None).await;
    send(&lab.client, "DELETE", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default", None).await;
    lab.settle(60).await;
    assert_eq!(value(template), None, "what is gone has no series");
}

#[tokio::test(start_paused = true)]
async fn every_series_is_on_the_list_and_those_of_a_life_are_seen() {
    // covers: API-MT-01, API-MT-02, API-MT-03, API-MT-04, API-MT-05, API-MT-06, EXT-05, AWS-MET-10
    let lab = Lab::new(5).await;
    lab.pool().await;
    let limits = json!({"spec": {"limits": {"cpu": "100", "memory": "400Gi"}}});
    send(&lab.client, "PATCH", "/apis/karpenter.sh/v1/nodepools/default", Some(limits)).await;
    lab.settle(10).await;
    let mut web = deployment(("web", "1500m", "1Gi"), 3);
    web["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "2", "memory": "1Gi"});
    lab.create(DEPLOYMENTS, web).await;
    lab.settle(2).await;
    let scrape = |legacy: bool| page(&lab.context, Show { legacy });
    let mut pages = vec![scrape(true)];
    lab.settle(200).await;
    pages.push(scrape(true));
    let running = scrape(true);
    let cpu = |name: &str| {
        let line =
            running.lines().find(|line| line.starts_with(name) && line.contains("resource_type=\"cpu\"")).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    // Cores, not thousandths of them.
    assert_eq!(cpu("karpenter_nodepools_limit{"), 100.0);
    assert_eq!((cpu("karpenter_nodes_total_pod_requests{") / 1.5).fract(), 0.0);
    assert_eq!((cpu("karpenter_nodes_total_pod_limits{") / 2.0).fract(), 0.0);
    assert!(cpu("karpenter_cluster_utilization_percent{") > 10.0);
    // Durations have the bounds of all others, and summaries their quantiles.
    let lines = |start: &str| running.lines().filter(|line| line.starts_with(start)).count();
    let buckets = "karpenter_scheduler_scheduling_duration_seconds_bucket{";
    assert_eq!(lines(buckets), 2 * 46, "45 bounds and infinity, for provisioning and for disruption");
    for bound in ["0.005", "0.15", "60.0", "120.0", "150.0", "300.0", "450.0", "600.0", "+Inf"] {
        assert_eq!(lines(&format!("{buckets}le=\"{bound}\"")), 2, "{bound}");
    }
    for quantile in ["0", "0.5", "0.9", "0.99", "1"] {
        assert_eq!(
            lines(&format!("karpenter_pods_startup_duration_seconds{{quantile=\"{quantile}\"}}")),
            1,
            "{quantile}"
        );
    }
    // The old names say the same.
    let values = |prefix: &str| -> Vec<String> {
        running.lines().filter_map(|line| line.strip_prefix(prefix).map(str::to_owned)).collect()
    };
    assert_eq!(values("karpenter_nodepool_usage{"), values("karpenter_nodepools_usage{"));
    assert_eq!(values("karpenter_nodepool_limit{"), values("karpenter_nodepools_limit{"));

    send(&lab.client, "PATCH", &format!("{DEPLOYMENTS}/web"), Some(json!({"spec": {"replicas": 1}}))).await;
    lab.settle(5).await;
    let nodes = lab.list("/api/v1/nodes").await;
    let node = nodes[0]["metadata"]["name"].as_str().unwrap();
    send(&lab.client, "DELETE", &format!("/api/v1/nodes/{node}"), None).await;
    lab.settle(2).await;
    pages.push(scrape(true));
    lab.settle(300).await;
    pages.push(scrape(true));
    send(&lab.client, "DELETE", &format!("{DEPLOYMENTS}/web"), None).await;
    lab.settle(600).await;
    assert!(lab.list("/api/v1/nodes").await.is_empty());
    let last = scrape(true);

    let rows = list();
    let mut seen = BTreeSet::new();
    for page in pages.iter().chain([&last]) {
        for (name, (kind, series)) in read(page) {
            let Some(row) = rows.get(&name) else { panic!("{name} is not on the list") };
            assert_eq!(kind, row.shape.kind, "{name}");
            for labels in series {
                let labels: BTreeSet<String> = labels.into_keys().collect();
                assert_eq!(labels, row.shape.labels, "{name}");
            }
            seen.insert(name);
        }
    }
    let missing: Vec<&String> = rows
        .iter()
        .filter(|(_, row)| row.mark == "*" || row.mark == "legacy")
        .map(|(name, _)| name)
        .filter(|name| !seen.contains(*name))
        .collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");

    // What is gone leaves no series.
    let left = read(&last);
    for name in [
        "karpenter_nodes_allocatable",
        "karpenter_pods_state",
        "operator_nodeclaim_status_condition_count",
        "operator_node_status_condition_count",
    ] {
        assert!(!left.contains_key(name), "{name} outlives its objects");
    }
    let modern = read(&scrape(false));
    for (name, row) in &rows {
        assert!(row.mark != "legacy" || !modern.contains_key(name), "{name} was not wanted");
    }
    // Controllers have their names.
    let controllers: BTreeSet<&String> =
        left["controller_runtime_reconcile_total"].1.iter().filter_map(|labels| labels.get("controller")).collect();
    for name in [
        "provisioner",
        "nodeclaim.lifecycle",
        "node.termination",
        "nodepool.counter",
        "nodeclass",
        "nodeclass.hash",
        "nodeclaim.tagging",
        "operatorpkg.nodeclaim.status",
        "metrics.pod",
    ] {
        assert!(controllers.contains(&name.to_owned()), "{name} is not in {controllers:?}");
    }
}
