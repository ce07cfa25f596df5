use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_apiserver::{ApiServer, Effect, Fault, Options};
use karpenter_aws_sim::{Options as SimOptions, Region};
use karpenter_provider_aws::Aws;
use karpenter_provider_aws::calls::{
    AwsError, CreateFleet, DescribeLaunchTemplates, FleetKind, MetadataOptions, NewInstanceProfile, NewLaunchTemplate,
    PERMISSIONS, Tags,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn led_for(left: Duration) -> Leadership {
    let leadership = Leadership::elected();
    leadership.extend(Instant::now());
    leadership.term.send_replace(Term::Until(Instant::now() + left));
    leadership
}

#[tokio::test(start_paused = true)]
async fn an_effect_begins_only_while_leadership_outlasts_it_and_is_cut_off_at_the_end() {
    let done = AtomicUsize::new(0);
    let effect = |takes: Duration| {
        let done = &done;
        async move {
            tokio::time::sleep(takes).await;
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    type Case = (fn() -> Leadership, Duration, Result<(), NotLeading>, Duration);
    let cases: [Case; 5] = [
        (Leadership::without_election, 3600 * SECOND, Ok(()), 3600 * SECOND),
        (Leadership::elected, Duration::ZERO, Err(NotLeading), Duration::ZERO),
        (|| led_for(EFFECT), EFFECT / 2, Ok(()), EFFECT / 2),
        (|| led_for(EFFECT - SECOND), Duration::ZERO, Err(NotLeading), Duration::ZERO),
        (|| led_for(EFFECT + SECOND), 3600 * SECOND, Err(NotLeading), EFFECT + SECOND),
    ];
    for (leadership, takes, want, after) in cases {
        let leadership = leadership();
        let (before, began) = (done.load(Ordering::Relaxed), Instant::now());
        assert_eq!(leadership.guard(effect(takes)).await, want, "{leadership:?} {takes:?}");
        assert_eq!(began.elapsed(), after, "{leadership:?} {takes:?}");
        assert_eq!(done.load(Ordering::Relaxed) - before, usize::from(want.is_ok()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_goes_on_with_the_lease_and_ends_with_it() {
    let leadership = led_for(10 * SECOND);
    let (renewal, guarded) = (leadership.clone(), leadership.guard(tokio::time::sleep(20 * SECOND)));
    let renewed = async move {
        tokio::time::sleep(9 * SECOND).await;
        renewal.extend(Instant::now());
    };
    assert_eq!(tokio::join!(guarded, renewed).0, Ok(()), "renewed in between");

    let leadership = led_for(10 * SECOND);
    let (election, guarded) = (leadership.clone(), leadership.guard(tokio::time::sleep(9 * SECOND)));
    let began = Instant::now();
    let lost = async move {
        tokio::time::sleep(2 * SECOND).await;
        election.end();
    };
    assert_eq!(tokio::join!(guarded, lost).0, Err(NotLeading));
    assert_eq!(began.elapsed(), 2 * SECOND);
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_kind_of_write_reaches_the_server_without_leadership_and_reads_do() {
    // covers: API-HM-54
    let server = ApiServer::new(Options::new());
    let leadership = led_for(DURATION);
    let maps = |client: Client| Api::<ConfigMap>::namespaced(client, "default");
    let open = maps(Client::new(server.service(), "default"));
    let ours = maps(leadership.fence(Client::new(server.service(), "default")));
    ours.create(&PostParams::default(), &map("a")).await.unwrap();
    let before = open.get("a").await.unwrap();

    // As of a process that was stopped, or that computed: no timer told it that its lease is over.
    tokio::time::advance(DURATION - EFFECT + Duration::from_millis(1)).await;
    let patch = json!({"data": {"key": "value"}});
    let refused = [
        ours.create(&PostParams::default(), &map("b")).await.map(drop),
        ours.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop),
        ours.replace("a", &PostParams::default(), &before).await.map(drop),
        ours.delete("a", &DeleteParams::default()).await.map(drop),
    ];
    for outcome in refused {
        let error = karpenter_provider::chain(&outcome.unwrap_err());
        assert!(error.contains("does not lead"), "{error}");
    }
    assert_eq!(open.list(&Default::default()).await.unwrap().items.len(), 1, "nothing was made or deleted");
    assert_eq!(ours.get("a").await.unwrap(), before, "nothing was changed, and reading is free");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_is_cut_off_when_somebody_else_may_lead() {
    let server = ApiServer::new(Options::new());
    let leadership = led_for(DURATION);
    let ours = leadership.fence(Client::new(server.service(), "default"));
    server.inject(Fault {
        methods: vec!["POST".to_owned()],
        path_contains: "/configmaps".to_owned(),
        per_mille: 1000,
        times: None,
        effect: Effect::Latency(Duration::from_secs(3600)),
    });
    let began = Instant::now();
    let outcome = Api::<ConfigMap>::namespaced(ours, "default").create(&PostParams::default(), &map("a")).await;
    assert!(outcome.is_err());
    assert_eq!(began.elapsed(), DURATION);
}

fn template() -> NewLaunchTemplate {
    NewLaunchTemplate {
        name: "t".to_owned(),
        image_id: "ami-1".to_owned(),
        instance_profile: "p".to_owned(),
        monitoring: false,
        user_data: String::new(),
        block_devices: vec![],
        metadata: MetadataOptions {
            http_endpoint: "enabled".to_owned(),
            http_protocol_ipv6: None,
            http_put_response_hop_limit: 1,
            http_tokens: "required".to_owned(),
            instance_metadata_tags: "disabled",
        },
        interfaces: vec![],
        tenancy: String::new(),
        placement_group_id: None,
        partition: None,
        nested_virtualization: None,
        enclaves: false,
        reservation: None,
        market_type: None,
        tags: Tags::new(),
        tag_spot_requests: false,
    }
}

fn fleet() -> CreateFleet {
    CreateFleet {
        client_token: None,
        dry_run: false,
        kind: FleetKind::Spot,
        total: 1,
        configs: vec![],
        tags: Tags::new(),
        context: None,
        prioritized: false,
    }
}

/// Every call that changes something, each made once; with the error of each, if any.
async fn change_everything(aws: &Aws) -> Vec<(&'static str, Option<AwsError>)> {
    let profile = NewInstanceProfile { name: "p".to_owned(), path: "/".to_owned(), tags: Tags::new() };
    let ids = ["i-1".to_owned()];
    vec![
        ("create_fleet", aws.ec2.create_fleet(&fleet()).await.err()),
        ("terminate_instances", aws.ec2.terminate_instances(&ids).await.err()),
        ("create_tags", aws.ec2.create_tags(&ids, &Tags::new()).await.err()),
        ("create_launch_template", aws.ec2.create_launch_template(&template()).await.err()),
        ("delete_launch_template_by_id", aws.ec2.delete_launch_template_by_id("lt-1").await.err()),
        ("delete_launch_template_by_name", aws.ec2.delete_launch_template_by_name("t").await.err()),
        ("create_instance_profile", aws.iam.create_instance_profile(&profile).await.err()),
        ("add_role_to_instance_profile", aws.iam.add_role_to_instance_profile("p", "r").await.err()),
        ("remove_role_from_instance_profile", aws.iam.remove_role_from_instance_profile("p", "r").await.err()),
        ("delete_instance_profile", aws.iam.delete_instance_profile("p").await.err()),
        ("delete_message", aws.sqs.delete_message("u", "h").await.err()),
    ]
}

#[tokio::test(start_paused = true)]
async fn no_call_to_aws_changes_anything_without_leadership() {
    // covers: API-HM-54
    let now: jiff::Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let region = Region::new(SimOptions::new("us-east-1", 1, "shop"), Arc::new(move || now));
    let leadership = led_for(EFFECT - Duration::from_millis(1));
    let fenced = fence_aws(region.aws(), &leadership);
    let outcomes = change_everything(&fenced).await;
    for (call, error) in &outcomes {
        assert_eq!(error.as_ref().map(|error| error.code.as_str()), Some("NotLeading"), "{call}");
    }
    assert!(region.calls().is_empty(), "{:?}", region.calls());

    // Whatever is no read and no dry run is among them: a call that is added later has to be added here.
    let reads = |action: &&str| ["Describe", "Get", "List", "Receive"].iter().any(|verb| action.contains(verb));
    let changes = PERMISSIONS.iter().filter(|(_, actions)| actions.iter().any(|action| !reads(action)));
    let changes: Vec<&str> = changes.map(|(call, _)| *call).filter(|call| !call.ends_with("_dry_run")).collect();
    assert_eq!(outcomes.iter().map(|(call, _)| *call).collect::<Vec<_>>(), changes);

    fenced.ec2.describe_launch_templates(&DescribeLaunchTemplates::default()).await.unwrap();
    let open = fence_aws(region.aws(), &led_for(3600 * SECOND));
    for (call, error) in change_everything(&open).await {
        assert_ne!(error.map(|error| error.code).as_deref(), Some("NotLeading"), "{call}: whoever leads may");
    }
}
