//! Values of older charts.

use super::helm::{IMAGE, Release, Rendered, chart, helm};

fn with(set: &[&str]) -> Option<Rendered> {
    let set: Vec<&str> = ["settings.clusterName=shop"].into_iter().chain(set.iter().copied()).collect();
    Some(helm()?.template(&Release { set: &set, ..Release::default() }))
}

#[test]
fn the_queue_is_found_under_its_three_names_and_the_current_one_wins() {
    // covers: API-HM-20, SEED4-03, EXT-04
    for (set, queue) in [
        (&["settings.interruptionQueueName=old"] as &[&str], "old"),
        (&["settings.aws.interruptionQueueName=older"], "older"),
        (&["settings.interruptionQueueName=old", "settings.aws.interruptionQueueName=older"], "old"),
        (&["settings.interruptionQueueName=old", "settings.interruptionQueue=new"], "new"),
    ] {
        let Some(made) = with(set) else { return };
        assert_eq!(made.env("INTERRUPTION_QUEUE"), Some(queue), "{set:?}");
    }
}

#[test]
fn settings_below_aws_count_where_the_current_ones_are_not_set() {
    // covers: API-HM-21
    for (value, variable, legacy, current) in [
        ("clusterEndpoint", "CLUSTER_ENDPOINT", "https://old.example", "https://new.example"),
        ("clusterCABundle", "CLUSTER_CA_BUNDLE", "b2xk", "bmV3"),
        ("isolatedVPC", "ISOLATED_VPC", "true", "false"),
        ("vmMemoryOverheadPercent", "VM_MEMORY_OVERHEAD_PERCENT", "0.1", "0.2"),
        ("reservedENIs", "RESERVED_ENIS", "3", "1"),
    ] {
        let (old, new) = (format!("settings.aws.{value}={legacy}"), format!("settings.{value}={current}"));
        let Some(made) = with(&[&old]) else { return };
        assert_eq!(made.env(variable), Some(legacy), "{value}");
        let both = with(&[&old, &new]).unwrap();
        assert_eq!(both.env(variable), Some(current), "{value}: the current one wins");
    }
    let Some(helm) = helm() else { return };
    let made = helm.template(&Release { set: &["settings.aws.clusterName=old"], ..Release::default() });
    assert_eq!(made.env("CLUSTER_NAME"), Some("old"));
    let both = with(&["settings.aws.clusterName=old"]).unwrap();
    assert_eq!(both.env("CLUSTER_NAME"), Some("shop"));
}

#[test]
fn log_and_batch_settings_are_found_where_they_used_to_be() {
    // covers: API-HM-26, API-HM-27, API-HM-28
    for (set, variable, value) in [
        (&["controller.logLevel=debug"] as &[&str], "LOG_LEVEL", "debug"),
        (&["logConfig.logLevel.controller=error"], "LOG_LEVEL", "error"),
        (&["logConfig.logLevel.global=debug"], "LOG_LEVEL", "debug"),
        (&["logConfig.logLevel.global=debug", "logLevel=error"], "LOG_LEVEL", "error"),
        (&["controller.outputPaths={a,b}"], "LOG_OUTPUT_PATHS", "a,b"),
        (&["logConfig.outputPaths={a}", "logOutputPaths={c}"], "LOG_OUTPUT_PATHS", "c"),
        (&["controller.errorOutputPaths={a}"], "LOG_ERROR_OUTPUT_PATHS", "a"),
        (&["logConfig.errorOutputPaths={b}"], "LOG_ERROR_OUTPUT_PATHS", "b"),
        (&["controller.batchMaxDuration=20s"], "BATCH_MAX_DURATION", "20s"),
        (&["controller.batchIdleDuration=2s", "settings.batchIdleDuration=3s"], "BATCH_IDLE_DURATION", "3s"),
        (&[], "LOG_LEVEL", "info"),
        (&[], "LOG_OUTPUT_PATHS", "stdout"),
        (&[], "BATCH_MAX_DURATION", "10s"),
    ] {
        let Some(made) = with(set) else { return };
        assert_eq!(made.env(variable), Some(value), "{set:?}");
    }
}

/// Values that change nothing, each told once in the notes of an installation.
const TOLERATED: [&str; 20] = [
    "settings.aws.defaultInstanceProfile=profile",
    "settings.aws.assumeRoleARN=arn",
    "settings.aws.assumeRoleDuration=15m",
    "settings.assumeRoleARN=arn",
    "settings.assumeRoleDuration=15m",
    "settings.aws.enablePodENI=true",
    "settings.aws.enableENILimitedPodDensity=false",
    "settings.aws.nodeNameConvention=ip-name",
    "settings.aws.tags.a=b",
    "settings.featureGates.drift=true",
    "settings.featureGates.driftEnabled=false",
    "logConfig.enabled=true",
    "logConfig.logEncoding=json",
    "logEncoding=console",
    "logConfig.logLevel.webhook=error",
    "postInstallHook.image.a=b",
    "settings.securityGroupRefreshInterval=1m",
    "settings.featureGates.future=true",
    "webhook.metrics.port=8001",
    "webhook.logLevel=error",
];

#[test]
fn what_has_no_effect_any_more_changes_nothing_and_is_told_once() {
    // covers: API-HM-22, API-HM-23, API-HM-24, API-HM-25, API-HM-28, SEED4-04, SEED4-22, EXT-11
    let Some(plain) = with(&[]) else { return };
    assert_eq!(with(&TOLERATED).unwrap().objects, plain.objects);
    let notes = notes(&TOLERATED);
    for set in TOLERATED {
        let (name, _) = set.split_once('=').unwrap();
        let name = name.strip_suffix(".a").unwrap_or(name);
        assert_eq!(notes.matches(&format!("  {name} has no effect: ")).count(), 1, "{name}:\n{notes}");
    }
    assert!(!self::notes(&[]).contains("older charts"));
    let read = self::notes(&["settings.interruptionQueueName=q", "controller.logLevel=debug"]);
    assert!(read.contains("settings.interruptionQueueName is read as settings.interruptionQueue"), "{read}");
    assert!(read.contains("controller.logLevel is read as logLevel"), "{read}");
    assert!(!read.contains("No interruption queue is set"), "{read}");
}

fn notes(set: &[&str]) -> String {
    let folder = chart("karpenter").to_string_lossy().into_owned();
    let mut arguments =
        vec!["install", "karpenter", &folder, "--dry-run=client", "--set", IMAGE, "--set", "settings.clusterName=shop"];
    for set in set {
        arguments.extend(["--set", set]);
    }
    let output = helm().unwrap().run(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_once("NOTES:").unwrap().1.to_owned()
}
