//! One generator per family of constraints.

use super::manifests::{HOST, ZONE, ZONES, claim, class, mount, name, on, pod, require, some_nodes, term, tie, volume};
use super::{Case, Dice};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Resources,
    NodeAffinity,
    PodAffinity,
    AntiAffinity,
    Spread,
    Taints,
    Ports,
    Volumes,
    Gates,
    Nominated,
    Priority,
}

impl Family {
    pub const ALL: [Self; 11] = [
        Self::Resources,
        Self::NodeAffinity,
        Self::PodAffinity,
        Self::AntiAffinity,
        Self::Spread,
        Self::Taints,
        Self::Ports,
        Self::Volumes,
        Self::Gates,
        Self::Nominated,
        Self::Priority,
    ];
}

pub(super) fn case(family: Family, seed: u64, id: usize) -> Case {
    let mut dice = Dice::new(seed, &format!("{family:?} {id}"));
    let nodes = some_nodes(&mut dice, id);
    let target = pod(&format!("case-{id}"), "web", ["500m", "1", "1500m"][dice.below(3)]);
    let mut case = Case {
        name: format!("{id}-{family:?}"),
        family,
        nodes,
        csi_nodes: Vec::new(),
        classes: Vec::new(),
        volumes: Vec::new(),
        claims: Vec::new(),
        running: Vec::new(),
        hopeful: None,
        pod: target,
        nominated: None,
    };
    let build = match family {
        Family::Resources => resources,
        Family::NodeAffinity => node_affinity,
        Family::PodAffinity => pod_affinity,
        Family::AntiAffinity => anti_affinity,
        Family::Spread => spread,
        Family::Taints => taints,
        Family::Ports => ports,
        Family::Volumes => volumes,
        Family::Gates => gates,
        Family::Nominated => nominated,
        Family::Priority => priority,
    };
    build(&mut case, &mut dice, id);
    case
}

fn populate(case: &mut Case, dice: &mut Dice, id: usize, apps: &[&str], cpu: &str, percent: usize) {
    for (n, node) in case.nodes.iter().enumerate() {
        if dice.chance(percent) {
            let app = *dice.pick(apps);
            case.running.push(on(pod(&format!("case-{id}-r{n}"), app, cpu), &name(node)));
        }
    }
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

/// Requests around what is left, through every way a pod can ask.
fn resources(case: &mut Case, dice: &mut Dice, id: usize) {
    let used = ["500m", "1", "1500m", "2"][dice.below(4)];
    populate(case, dice, id, &["db"], used, 80);
    let cpu = ["500m", "1", "2", "2500m", "3", "3500m"][dice.below(6)];
    let spec = &mut case.pod["spec"];
    spec["containers"][0]["resources"] = requests(cpu, ["1Gi", "8Gi", "17Gi"][dice.below(3)]);
    match dice.below(6) {
        0 => {
            spec["initContainers"] =
                json!([{"name": "init", "image": "i", "resources": requests(["1", "3", "4"][dice.below(3)], "1Gi")}])
        }
        1 => {
            let sidecar = json!({"name": "side", "image": "i", "restartPolicy": "Always", "resources": requests(["500m", "1"][dice.below(2)], "1Gi")});
            let init =
                json!({"name": "init", "image": "i", "resources": requests(["1", "2500m"][dice.below(2)], "1Gi")});
            spec["initContainers"] = if dice.chance(50) { json!([sidecar, init]) } else { json!([init, sidecar]) };
        }
        2 => {
            // The pod's own requests count, and may not be less than those of its containers.
            spec["containers"][0]["resources"] = requests("500m", "1Gi");
            spec["resources"] = requests(["2", "3", "4"][dice.below(3)], "2Gi");
        }
        3 => {
            for node in case.nodes.iter_mut().filter(|_| dice.chance(50)) {
                for list in ["capacity", "allocatable"] {
                    node["status"][list]["example.com/widget"] = json!("2");
                }
            }
            let amount = ["1", "2", "3"][dice.below(3)];
            spec["containers"][0]["resources"]["requests"]["example.com/widget"] = json!(amount);
            spec["containers"][0]["resources"]["limits"] = json!({"example.com/widget": amount});
        }
        4 => {
            for node in &mut case.nodes {
                node["status"]["allocatable"]["pods"] = json!(["1", "2"][dice.below(2)]);
            }
            spec["containers"][0]["resources"] = requests("100m", "64Mi");
        }
        _ => {
            spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!(["10Gi", "60Gi"][dice.below(2)])
        }
    }
}

fn node_affinity(case: &mut Case, dice: &mut Dice, _id: usize) {
    for node in &mut case.nodes {
        node["metadata"]["labels"]["rank"] = json!(["1", "5", "9"][dice.below(3)]);
        if dice.chance(40) {
            node["metadata"]["labels"]["special"] = json!("yes");
        }
    }
    let names: Vec<String> = case.nodes.iter().map(name).collect();
    let term = |dice: &mut Dice| -> Value {
        let zone = ZONES[dice.below(3)];
        match dice.below(8) {
            0 => json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}),
            1 => {
                json!({"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": [zone, ZONES[dice.below(3)]]}]})
            }
            2 => json!({"matchExpressions": [{"key": "special", "operator": "Exists"}]}),
            3 => {
                json!({"matchExpressions": [{"key": "special", "operator": "DoesNotExist"}, {"key": ZONE, "operator": "In", "values": [zone]}]})
            }
            4 => json!({"matchExpressions": [{"key": "rank", "operator": "Gt", "values": [dice.pick(&["4", "9"])]}]}),
            5 => json!({"matchExpressions": [{"key": "rank", "operator": "Lt", "values": [dice.pick(&["1", "6"])]}]}),
            6 => {
                json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [if dice.chance(50) { names[0].clone() } else { "nobody".into() }]}]})
            }
            _ => json!({"matchExpressions": [{"key": "missing", "operator": "In", "values": ["x"]}]}),
        }
    };
    if dice.chance(40) {
        case.pod["spec"]["nodeSelector"] = match dice.below(3) {
            0 => json!({ZONE: ZONES[dice.below(3)]}),
            1 => json!({"special": "yes"}),
            _ => json!({"disk": dice.pick(&["ssd", "tape"])}),
        };
    }
    let terms: Vec<Value> = (0..1 + dice.below(2)).map(|_| term(dice)).collect();
    case.pod["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
}

fn pod_affinity(case: &mut Case, dice: &mut Dice, id: usize) {
    populate(case, dice, id, &["db", "cache", "other"], "100m", 45);
    let key = [HOST, ZONE][dice.below(2)];
    let app = ["db", "cache", "web"][dice.below(3)];
    let mut wanted = term(app, key);
    match dice.below(5) {
        0 => wanted["namespaces"] = json!(["kube-system"]),
        1 => {
            wanted["namespaceSelector"] =
                json!({"matchLabels": {"kubernetes.io/metadata.name": dice.pick(&["default", "kube-system"])}})
        }
        2 => {
            wanted["labelSelector"] =
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "other"]}]})
        }
        _ => {}
    }
    require(&mut case.pod, "podAffinity", wanted);
    if dice.chance(30) {
        require(&mut case.pod, "podAffinity", term(["db", "cache"][dice.below(2)], ZONE));
    }
    if dice.chance(15) {
        for node in &mut case.nodes {
            node["metadata"]["labels"].as_object_mut().map(|l| l.remove(ZONE));
        }
    }
}

fn anti_affinity(case: &mut Case, dice: &mut Dice, id: usize) {
    populate(case, dice, id, &["db", "web", "other"], "100m", 75);
    for running in &mut case.running {
        if dice.chance(50) {
            continue;
        }
        let mut keeps_off = term(["web", "db"][dice.below(2)], [HOST, ZONE][dice.below(2)]);
        if dice.chance(20) {
            keeps_off["namespaceSelector"] = json!({});
        }
        require(running, "podAntiAffinity", keeps_off);
    }
    if dice.chance(70) {
        let mut keeps_off = term(["web", "db", "other"][dice.below(3)], [HOST, ZONE][dice.below(2)]);
        if dice.chance(20) {
            keeps_off["labelSelector"] =
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["nobody"]}]});
        }
        require(&mut case.pod, "podAntiAffinity", keeps_off);
    }
    if dice.chance(25) {
        require(&mut case.pod, "podAffinity", term("db", ZONE));
    }
}

fn spread(case: &mut Case, dice: &mut Dice, id: usize) {
    populate(case, dice, id, &["web"], "100m", 70);
    for running in &mut case.running {
        running["metadata"]["labels"]["version"] = json!(["1", "2"][dice.below(2)]);
    }
    case.pod["metadata"]["labels"]["version"] = json!("2");
    if dice.chance(30) {
        let last = case.nodes.len() - 1;
        case.nodes[last]["spec"]["taints"] = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
    }
    if dice.chance(20) {
        case.nodes[0]["metadata"]["labels"].as_object_mut().map(|l| l.remove(ZONE));
    }
    let constraint = |key: &str, dice: &mut Dice| {
        let mut c = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        if dice.chance(60) {
            c["minDomains"] = json!(2 + dice.below(3));
        }
        if dice.chance(35) {
            c["nodeAffinityPolicy"] = json!(["Honor", "Ignore", "Ignore"][dice.below(3)]);
        }
        if dice.chance(35) {
            c["nodeTaintsPolicy"] = json!(["Honor", "Ignore"][dice.below(2)]);
        }
        if dice.chance(25) {
            c["matchLabelKeys"] = json!(["version"]);
        }
        c
    };
    let mut constraints = vec![constraint(ZONE, dice)];
    if dice.chance(40) {
        constraints.push(constraint(HOST, dice));
    }
    case.pod["spec"]["topologySpreadConstraints"] = json!(constraints);
    if dice.chance(60) {
        case.pod["spec"]["nodeSelector"] = json!({ZONE: ZONES[dice.below(3)]});
    }
}

fn taints(case: &mut Case, dice: &mut Dice, _id: usize) {
    let effects = ["NoSchedule", "NoExecute", "NoSchedule", "NoExecute", "PreferNoSchedule"];
    for node in &mut case.nodes {
        if dice.chance(97) {
            let mut all =
                vec![json!({"key": "dedicated", "value": dice.pick(&["gpu", "db"]), "effect": effects[dice.below(5)]})];
            if dice.chance(30) {
                all.push(json!({"key": "maintenance", "effect": effects[dice.below(2)]}));
            }
            node["spec"]["taints"] = json!(all);
        }
        if dice.chance(15) {
            node["spec"]["unschedulable"] = json!(true);
        }
    }
    let toleration = match dice.below(6) {
        0 => json!([{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]),
        1 => json!([{"key": "dedicated", "operator": "Exists"}]),
        2 => {
            json!([{"key": "dedicated", "operator": "Equal", "value": "db"}, {"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}])
        }
        3 => json!([{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]),
        4 => json!([{"operator": "Exists", "effect": "NoSchedule"}]),
        _ => json!([]),
    };
    case.pod["spec"]["tolerations"] = toleration;
}

fn ports(case: &mut Case, dice: &mut Dice, id: usize) {
    let port = |dice: &mut Dice| {
        let mut port = json!({"containerPort": 80, "hostPort": dice.pick(&[8080, 8080, 8080, 8080, 8080, 9090]), "protocol": dice.pick(&["TCP", "TCP", "TCP", "TCP", "UDP"])});
        if dice.chance(30) {
            port["hostIP"] = json!(["127.0.0.1", "10.0.0.1", "0.0.0.0"][dice.below(3)]);
        }
        port
    };
    for (n, node) in case.nodes.iter().enumerate() {
        if dice.chance(97) {
            let mut running = on(pod(&format!("case-{id}-r{n}"), "other", "100m"), &name(node));
            let mut list = vec![port(dice)];
            if dice.chance(50) {
                list.push(json!({"containerPort": 81, "hostPort": 9090, "protocol": "TCP"}));
            }
            list.dedup();
            let distinct = list.len() < 2
                || list[0]["hostPort"] != list[1]["hostPort"]
                || list[0]["protocol"] != list[1]["protocol"];
            running["spec"]["containers"][0]["ports"] = json!(if distinct { list } else { vec![list[0].clone()] });
            case.running.push(running);
        }
    }
    case.pod["spec"]["containers"][0]["ports"] = json!([port(dice)]);
}

fn volumes(case: &mut Case, dice: &mut Dice, id: usize) {
    let storage = format!("case-{id}");
    let data = format!("case-{id}-data");
    mount(&mut case.pod, &data);
    match dice.below(7) {
        0 => {
            // Bound, in a zone of its own.
            case.classes.push(class(&storage, "kubernetes.io/no-provisioner", true));
            let mut wanted = claim(&data, &storage, "1Gi");
            let mut made = volume(&storage, &storage, "1Gi", Some(ZONES[dice.below(3)]));
            tie(&mut wanted, &mut made);
            case.claims.push(wanted);
            case.volumes.push(made);
        }
        1 => {
            // A choice of volumes, none of which may do.
            case.classes.push(class(&storage, "kubernetes.io/no-provisioner", true));
            case.claims.push(claim(&data, &storage, ["1Gi", "5Gi"][dice.below(2)]));
            for n in 0..dice.below(3) {
                case.volumes.push(volume(
                    &format!("{storage}-{n}"),
                    &storage,
                    ["2Gi", "10Gi"][dice.below(2)],
                    Some(ZONES[dice.below(3)]),
                ));
            }
        }
        2 => {
            case.classes.push(class(&storage, "kubernetes.io/no-provisioner", false));
            case.claims.push(claim(&data, &storage, "1Gi"));
            if dice.chance(50) {
                case.volumes.push(volume(&storage, &storage, "1Gi", Some(ZONES[dice.below(3)])));
            }
        }
        3 => {
            // Made to order, where the class may.
            let mut made = class(&storage, "disk.example.com", true);
            made["allowedTopologies"] =
                json!([{"matchLabelExpressions": [{"key": ZONE, "values": [ZONES[dice.below(3)]]}]}]);
            case.classes.push(made);
            case.claims.push(claim(&data, &storage, "1Gi"));
        }
        4 => {} // The claim does not exist.
        5 => {
            // Attach limits.
            case.classes.push(class(&storage, "disk.example.com", true));
            for node in &case.nodes {
                case.csi_nodes.push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name(node)},
                    "spec": {"drivers": [{"name": "disk.example.com", "nodeID": name(node), "topologyKeys": [], "allocatable": {"count": 1 + dice.below(2)}}]}}));
            }
            for (n, node) in case.nodes.iter().enumerate() {
                let held = format!("case-{id}-held-{n}");
                let mut wanted = claim(&held, &storage, "1Gi");
                let mut made = volume(&held, &storage, "1Gi", None);
                tie(&mut wanted, &mut made);
                let mut running = on(pod(&format!("case-{id}-r{n}"), "other", "100m"), &name(node));
                mount(&mut running, &held);
                case.claims.push(wanted);
                case.volumes.push(made);
                case.running.push(running);
            }
            let mut wanted = claim(&data, &storage, "1Gi");
            let mut made = volume(&storage, &storage, "1Gi", None);
            tie(&mut wanted, &mut made);
            case.claims.push(wanted);
            case.volumes.push(made);
        }
        _ => {
            // One pod only.
            case.classes.push(class(&storage, "kubernetes.io/no-provisioner", true));
            let mut wanted = claim(&data, &storage, "1Gi");
            wanted["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
            let mut made = volume(&storage, &storage, "1Gi", None);
            made["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
            tie(&mut wanted, &mut made);
            case.claims.push(wanted);
            case.volumes.push(made);
            if dice.chance(50) {
                let mut running = on(pod(&format!("case-{id}-r"), "other", "100m"), &name(&case.nodes[0]));
                mount(&mut running, &data);
                case.running.push(running);
            }
        }
    }
}

fn gates(case: &mut Case, dice: &mut Dice, id: usize) {
    populate(case, dice, id, &["db"], "1", 50);
    if dice.chance(70) {
        case.pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    }
}

fn nominated(case: &mut Case, dice: &mut Dice, id: usize) {
    // Nodes of one size, so that what is kept free decides.
    case.nodes.truncate(2);
    for node in &mut case.nodes {
        for list in ["capacity", "allocatable"] {
            node["status"][list]["cpu"] = json!("4");
        }
    }
    let other = case.nodes.len() - 1;
    if dice.chance(90) {
        let node = name(&case.nodes[other]);
        // Too important to make way.
        let mut running = on(pod(&format!("case-{id}-r"), "other", "3500m"), &node);
        running["spec"]["priorityClassName"] = json!("high");
        case.running.push(running);
    }
    let node = name(&case.nodes[0]);
    let mut waiting = pod(&format!("case-{id}-hopeful"), "hopeful", ["1", "2", "3"][dice.below(3)]);
    waiting["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    waiting["spec"]["priorityClassName"] = json!(["low", "middle"][dice.below(2)]);
    case.pod["spec"]["priorityClassName"] = json!(["low", "middle"][dice.below(2)]);
    case.pod["spec"]["containers"][0]["resources"] = requests(["1", "2", "3", "3500m"][dice.below(4)], "64Mi");
    case.hopeful = Some((waiting, node.clone()));
    if dice.chance(30) {
        case.nominated = Some(node);
    }
}

fn priority(case: &mut Case, dice: &mut Dice, id: usize) {
    case.nodes.truncate(2 + dice.below(2));
    let classes = ["low", "middle", "high"];
    for (n, at) in case.nodes.iter().enumerate() {
        for m in 0..1 + dice.below(2) {
            let mut running =
                on(pod(&format!("case-{id}-r{n}-{m}"), "other", ["1", "1500m", "2"][dice.below(3)]), &name(at));
            running["spec"]["priorityClassName"] = json!(classes[dice.below(3)]);
            case.running.push(running);
        }
    }
    case.pod["spec"]["priorityClassName"] = json!(classes[dice.below(3)]);
    case.pod["spec"]["containers"][0]["resources"] = requests(["1", "2", "3"][dice.below(3)], "64Mi");
    if dice.chance(20) {
        // As important as any, and too polite to push.
        case.pod["spec"]["priorityClassName"] = json!("patient");
    }
    if dice.chance(20) {
        case.pod["spec"]["nodeSelector"] = json!({ZONE: ZONES[dice.below(3)]});
    }
}
