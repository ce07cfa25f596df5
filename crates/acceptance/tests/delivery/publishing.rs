//! Charts as they are published.

use super::helm::{IMAGE, chart, helm, read, yaml};

/// What a chart does not render without.
fn required(chart: &str) -> &'static [&'static str] {
    match chart {
        "karpenter" => &["--set", "settings.clusterName=shop", "--set", IMAGE],
        _ => &[],
    }
}

#[test]
fn charts_lint_clean() {
    let Some(helm) = helm() else { return };
    for name in ["karpenter", "karpenter-crd"] {
        let folder = chart(name).to_string_lossy().into_owned();
        let output = helm.run(&[&["lint", &folder, "--strict"], required(name)].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !said.contains("[WARNING]"), "{name}: {said}");
    }
}

#[test]
fn charts_are_packaged_under_their_names_with_and_without_a_v() {
    // covers: API-HM-10, SEED0-04, SEED4-01, API-TF-16, API-TF-31
    let Some(helm) = helm() else { return };
    let target = std::env::temp_dir().join(format!("karpenter-charts-{}", std::process::id()));
    let folder = target.to_string_lossy().into_owned();
    for name in ["karpenter", "karpenter-crd"] {
        let source = chart(name).to_string_lossy().into_owned();
        for version in ["9.8.7", "v9.8.7"] {
            let output = helm.run(&["package", &source, "--version", version, "--app-version", "9.8.7", "-d", &folder]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let archive = target.join(format!("{name}-{version}.tgz"));
            assert!(archive.is_file(), "{}", archive.display());
            let archive = archive.to_string_lossy().into_owned();
            let made = helm.run(&[&["template", "karpenter", &archive], required(name)].concat());
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
    }
    std::fs::remove_dir_all(&target).unwrap();
}

#[test]
fn charts_and_program_have_one_version() {
    for name in ["karpenter", "karpenter-crd"] {
        let chart = yaml(&read(&format!("charts/{name}/Chart.yaml")));
        assert_eq!(chart["name"], name);
        assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"), "{name}");
        assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"), "{name}");
    }
}
