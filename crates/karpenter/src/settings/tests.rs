use clap::Parser;
use karpenter_core::pod::WhenUnsatisfiable;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: SettingsArgs,
}

fn resolve(flags: &[&str], env: &[(&str, &str)]) -> Result<Resolved, Vec<String>> {
    let line = Line::try_parse_from([&["x"], flags].concat()).map_err(|error| vec![error.to_string()])?;
    let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    line.settings.resolve(&lookup)
}

#[test]
fn a_flag_beats_the_environment_beats_the_default() {
    // covers: API-ST-01
    assert_eq!(resolve(&[], &[]).unwrap().ec2, Ec2Settings::default());
    assert_eq!(resolve(&[], &[]).unwrap().core, Settings::default());
    let env = [("RESERVED_ENIS", "2"), ("PREFERENCE_POLICY", "Ignore")];
    assert_eq!(resolve(&[], &env).unwrap().ec2.reserved_enis, 2);
    assert_eq!(resolve(&["--reserved-enis=3"], &env).unwrap().ec2.reserved_enis, 3);
    assert_eq!(resolve(&[], &env).unwrap().core.preferences, PreferencePolicy::Ignore);
    assert_eq!(resolve(&["--preference-policy=Respect"], &env).unwrap().core.preferences, PreferencePolicy::Respect);
}

#[test]
fn an_environment_value_that_does_not_parse_is_as_good_as_none_but_a_flag_is_fatal() {
    // covers: API-ST-02
    let env = [("RESERVED_ENIS", "many"), ("VM_MEMORY_OVERHEAD_PERCENT", "x"), ("IGNORE_DRA_REQUESTS", "maybe")];
    assert_eq!(resolve(&[], &env), resolve(&[], &[]));
    assert!(resolve(&["--reserved-enis=many"], &[]).is_err());
    assert!(resolve(&["--vm-memory-overhead-percent=x"], &[]).is_err());
}

#[test]
fn booleans_are_spelled_in_the_usual_ways() {
    // covers: API-ST-03
    let ignores = |flags: &[&str], env: &[(&str, &str)]| resolve(flags, env).map(|r| r.core.ignore_device_requests);
    for (flags, env, want) in [
        (&["--ignore-dra-requests"][..], "false", true),
        (&["--ignore-dra-requests=false"], "true", false),
        (&["--ignore-dra-requests=true"], "0", true),
        (&[], "F", false),
        (&[], "1", true),
    ] {
        assert_eq!(ignores(flags, &[("IGNORE_DRA_REQUESTS", env)]), Ok(want), "{flags:?} {env}");
    }
    assert!(ignores(&["--ignore-dra-requests=yes"], &[]).is_err());
}

#[test]
fn gates_are_a_list_with_blanks() {
    // covers: API-ST-06
    for (text, want) in [
        ("", true),
        ("ReservedCapacity=false", false),
        (" NodeRepair = true ,\tReservedCapacity=0", false),
        ("Unheard=true,Drift=false", true),
    ] {
        assert_eq!(resolve(&["--feature-gates", text], &[]).unwrap().core.reserved_capacity, want, "{text}");
    }
    assert!(resolve(&["--feature-gates=ReservedCapacity"], &[]).is_err());
    assert!(resolve(&["--feature-gates=ReservedCapacity=maybe"], &[]).is_err());
}

#[test]
fn every_setting_that_is_wrong_is_named() {
    let env = [("PREFERENCE_POLICY", "Sometimes"), ("MIN_VALUES_POLICY", "Lax"), ("RESERVED_ENIS", "-1")];
    let faults = resolve(&["--vm-memory-overhead-percent=-0.1"], &env).unwrap_err();
    let names: Vec<_> = faults.iter().map(|fault| fault.split(':').next().unwrap()).collect();
    assert_eq!(names, ["preference-policy", "min-values-policy", "vm-memory-overhead-percent", "reserved-enis"]);
}

#[test]
fn the_schedulers_defaults_are_read_from_yaml_and_json() {
    // covers: SCH-TDEF-01, API-ST-10
    let yaml = "podTopologySpread:\n  defaultConstraints:\n  - {maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 3}\n";
    let json = r#"{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3}]}}"#;
    for text in [yaml, json] {
        let spread = resolve(&[], &[("SCHEDULER_CONFIG", text)]).unwrap().core.default_spread;
        assert_eq!((spread.len(), spread[0].max_skew, spread[0].min_domains), (1, 2, Some(3)));
        assert_eq!(spread[0].when, WhenUnsatisfiable::ScheduleAnyway);
    }
    assert!(resolve(&[], &[("SCHEDULER_CONFIG", " ")]).unwrap().core.default_spread.is_empty());
}

#[test]
fn defaults_the_scheduler_would_refuse_are_fatal() {
    // covers: SCH-TDEF-02, SCH-TDEF-03
    let entry = |text: &str| format!("{{podTopologySpread: {{defaultConstraints: [{text}]}}}}");
    let good = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule";
    for (text, want) in [
        ("podTopologySpread: [".to_owned(), ""),
        ("{other: {}}".to_owned(), "unknown field"),
        (entry("{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}"), "maxSkew"),
        (entry("{maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: DoNotSchedule}"), "topologyKey"),
        (entry("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}"), "topologyKey"),
        (entry("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never}"), "whenUnsatisfiable"),
        (entry(&format!("{{{good}, labelSelector: {{}}}}")), "labelSelector"),
        (entry(&format!("{{{good}, matchLabelKeys: [a]}}")), "matchLabelKeys"),
        (entry(&format!("{{{good}, color: red}}")), "unknown field"),
        (entry(&format!("{{{good}}}, {{{good}}}")), "repeats"),
    ] {
        let faults = resolve(&["--scheduler-config", &text], &[]).expect_err(&text).join("\n");
        assert!(faults.starts_with("scheduler-config: ") && faults.contains(want), "{text}: {faults}");
    }
}
