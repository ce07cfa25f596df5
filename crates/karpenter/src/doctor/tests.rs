use karpenter_aws_sim::{Region, Script, Target};
use karpenter_provider_aws::calls::AwsError;

use super::objects::judge_one;
use super::*;
use crate::account::testing::{self, Simulated};

fn patient() -> Patient {
    Patient { cluster: "shop".to_owned(), queue: Some("simulated".to_owned()), isolated_vpc: false }
}

async fn examine(region: &Region, patient: &Patient) -> Vec<Finding> {
    account::examine(&testing::account(region), patient, jiff::Timestamp::UNIX_EPOCH).await
}

fn of<'a>(findings: &'a [Finding], subject: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.subject == subject).unwrap_or_else(|| panic!("{subject}: {findings:#?}"))
}

#[tokio::test(start_paused = true)]
async fn a_healthy_account_has_nothing_wrong() {
    let findings = examine(&testing::region(), &patient()).await;
    let unwell: Vec<&Finding> = findings.iter().filter(|finding| finding.verdict != Verdict::Good).collect();
    assert!(unwell.is_empty(), "{unwell:#?}");
    assert!(findings.len() > 12, "{findings:#?}");
    assert!(of(&findings, "images").seen.contains("al2023@latest is ami-"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named_with_its_statement() {
    // Operation, what it is looked at for, and whether nodes still come.
    for (operation, subject, verdict, statement) in [
        ("DescribeSubnets", "subnets", Verdict::Broken, "AllowRegionalReadActions"),
        ("GetParameter", "images", Verdict::Broken, "AllowSSMReadActions"),
        ("GetProducts", "price list", Verdict::Lacking, "AllowPricingReadActions"),
        ("ListInstanceProfiles", "instance profiles", Verdict::Lacking, "AllowUnscopedInstanceProfileListAction"),
        ("GetQueueUrl", "queue", Verdict::Lacking, "AllowInterruptionQueueActions"),
        ("DescribeCluster", "cluster shop", Verdict::Lacking, "AllowAPIServerEndpointDiscovery"),
    ] {
        let region = testing::region();
        region.script(Script::new(Target::Call { operation, server_fault: false }, "AccessDenied", 100));
        let findings = examine(&region, &patient()).await;
        let found = of(&findings, subject);
        assert_eq!(found.verdict, verdict, "{operation}");
        let advice = found.advice.clone().unwrap();
        assert!(advice.contains(operation) && advice.contains(statement), "{operation}: {advice}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_told_apart_from_what_is_forbidden() {
    let region = testing::region();
    let elsewhere =
        Patient { cluster: "other".to_owned(), queue: Some("no-such-queue".to_owned()), isolated_vpc: true };
    let findings = examine(&region, &elsewhere).await;
    assert_eq!(of(&findings, "cluster other").verdict, Verdict::Broken);
    let queue = of(&findings, "queue");
    assert!(queue.seen.contains("there is no queue no-such-queue"), "{queue:?}");
    assert!(!findings.iter().any(|finding| finding.subject == "price list"), "an isolated network has none");
    let without = Patient { queue: None, ..patient() };
    assert_eq!(of(&examine(&region, &without).await, "queue").seen, "none is set");
}

#[tokio::test(start_paused = true)]
async fn who_is_nobody_to_aws_is_told_where_credentials_come_from() {
    let mut account = testing::account(&testing::region());
    let error = AwsError::new("GetCallerIdentity", "InvalidClientTokenId", "The security token is invalid");
    account.asks = std::sync::Arc::new(Simulated { zones: Err(testing::denied("x")), caller: Err(error) });
    let findings = account::examine(&account, &patient(), jiff::Timestamp::UNIX_EPOCH).await;
    let advice = of(&findings, "credentials").advice.clone().unwrap();
    assert!(advice.contains("Pod Identity"), "{advice}");
}

#[test]
fn objects_are_judged_by_their_first_failing_condition() {
    let object =
        |conditions: serde_json::Value| json!({"metadata": {"name": "main"}, "status": {"conditions": conditions}});
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Why", "message": "because"});
    let good = judge_one("EC2NodeClass", &object(json!([condition("Ready", "True")])));
    assert_eq!(good, Finding::good("EC2NodeClass main", "ready"));
    let bad = judge_one(
        "EC2NodeClass",
        &object(json!([
            condition("AMIsReady", "True"),
            condition("SubnetsReady", "False"),
            condition("Ready", "False")
        ])),
    );
    assert_eq!(bad.seen, "SubnetsReady is False: Why because");
    assert!(bad.advice.unwrap().contains("subnetSelectorTerms"));
    assert_eq!(judge_one("NodePool", &json!({"metadata": {"name": "x"}})).verdict, Verdict::Broken);
}

#[test]
fn findings_are_printed_for_people_and_programs() {
    let findings = [Finding::good("EC2", "answers"), Finding::bad("queue", Verdict::Lacking, "none is set", "set one")];
    let mut text = Vec::new();
    print(&findings, Output::Text, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(
        text,
        "ok       EC2    answers\nlacking  queue  none is set\n                ▸ set one\n2 looked at: 0 broken, 1 lacking\n"
    );
    let mut lines = Vec::new();
    print(&findings, Output::Json, &mut lines).unwrap();
    let last = String::from_utf8(lines).unwrap().lines().last().unwrap().to_owned();
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last, json!({"subject": "queue", "verdict": "lacking", "seen": "none is set", "advice": "set one"}));
}
