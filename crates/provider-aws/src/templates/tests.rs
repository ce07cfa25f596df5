use std::sync::Arc;

use karpenter_api::NodeClaim;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::launch::template::{Choice, Surroundings, plan};
use crate::testing::{Fake, at, class, facts, types};

fn wanted() -> NewLaunchTemplate {
    let cluster = karpenter_ec2::userdata::ClusterFacts {
        name: "here".into(),
        endpoint: "https://api".into(),
        ca_bundle: None,
        cidr: Some("10.0.0.0/16".into()),
    };
    let kubelets = Default::default();
    let around = Surroundings {
        region: "us-east-1",
        cluster: &cluster,
        cluster_dns: None,
        ipv6: false,
        reserved_capacity: true,
        placement_group_id: None,
        partition: None,
        tag_spot_requests: true,
        kubelets: &kubelets,
    };
    let kinds: Vec<_> = types(&facts(), &["m5.large"]).iter().map(|kind| (**kind).clone()).collect();
    let tags = Default::default();
    let choice = Choice { types: &kinds, capacity_type: "on-demand", tenancy: "default", tags: &tags };
    plan(&class(json!({})), &NodeClaim::default(), &choice, &around).unwrap().remove(0).template
}

/// Anything that EC2, or whoever stands in for it, might say of a template's name.
fn answers() -> impl Strategy<Value = Result<Vec<LaunchTemplate>>> {
    let name = prop_oneof!["[a-z/0-9]{0,6}", Just(wanted().name)];
    let template = ("[a-z/0-9]{0,6}", name).prop_map(|(id, name)| LaunchTemplate { id, name });
    let code = prop_oneof![
        Just("InvalidLaunchTemplateName.NotFoundException"),
        Just("InvalidLaunchTemplateId.NotFound"),
        Just("RequestLimitExceeded"),
        Just("UnauthorizedOperation"),
        Just("InternalError"),
        Just(""),
    ];
    prop_oneof![
        prop::collection::vec(template, 0..3).prop_map(Ok),
        (code, ".{0,8}").prop_map(|(code, text)| Err(AwsError::new("DescribeLaunchTemplates", code, text))),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_nobody_answers_holds_up_no_other_launch() {
    let (fake, template) = (Arc::new(Fake::default()), wanted());
    let templates = Templates::new(fake.aws(), "here");
    fake.templates.lock().unwrap().extend([Ok(Vec::new()), Ok(Vec::new())]);
    templates.ensure(&template, at(0)).await.unwrap();
    let elsewhere = |name: &String| !std::ptr::eq(templates.making(name), templates.making(&template.name));
    let name = (0..100).map(|number| format!("{}{number}", template.name)).find(elsewhere).unwrap();
    *fake.deletions_stall.lock().unwrap() = true;
    let launch = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        templates.ensure(&NewLaunchTemplate { name, ..template.clone() }, at(3601)).await.unwrap();
    };
    tokio::select! {
        swept = templates.sweep(at(3600)) => panic!("nobody answers, but {swept:?}"),
        () = launch => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it waits for the deletion"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A template is made if and only if EC2 says that there is none; it is ours once that worked, and asked about again
    /// if it did not.
    #[test]
    fn whatever_is_said_of_a_template_it_is_there_once(said in prop::collection::vec(answers(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (fake, template) = (Arc::new(Fake::default()), wanted());
            let templates = Templates::new(fake.aws(), "here");
            for (second, answer) in said.iter().enumerate() {
                let now = at(second as i64);
                fake.templates.lock().unwrap().push_back(answer.clone());
                let named = |found: &Vec<LaunchTemplate>| found.iter().filter(|one| one.name == template.name).count();
                let named = answer.as_ref().map(named);
                let missing = named.as_ref().map_or_else(|error| error.is_not_found(), |named| *named == 0);
                let there = named == Ok(1);
                let ensured = templates.ensure(&template, now).await;
                assert_eq!(ensured.is_ok(), missing || there, "{answer:?}");
                let asked = fake.asked();
                let made = asked.iter().filter(|call| call.starts_with("Create")).count();
                assert_eq!((asked.len() - made, made), (1, usize::from(missing)), "{asked:?}");
                if ensured.is_ok() {
                    templates.ensure(&template, now).await.unwrap();
                    assert!(fake.asked().is_empty(), "known for a minute");
                    return;
                }
            }
        });
    }
}
