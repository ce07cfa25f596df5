//! A definition as a template of the chart `karpenter-crd`: annotations from its values, and the conversion webhook where
//! an older version is served beside the stored one.

use karpenter_api::{Kind, conversion_path, crd, to_yaml, v1beta1_version};

const ANNOTATIONS: &str = "\
metadata:
  {{- with .Values.additionalAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
";

/// The certificate's authority is written by the controller, which makes the certificate.
const CONVERSION: &str = "\
spec:
  {{- if .Values.webhook.enabled }}
  conversion:
    strategy: Webhook
    webhook:
      clientConfig:
        service:
          name: {{ .Values.webhook.serviceName }}
          namespace: {{ .Values.webhook.serviceNamespace | default .Release.Namespace }}
          path: PATH
          port: {{ .Values.webhook.port }}
      conversionReviewVersions: [v1, v1beta1]
  {{- end }}
";
const IF: &str = "  {{- if .Values.webhook.enabled }}\n";
const END: &str = "  {{- end }}\n";
/// The version that exists only through the webhook.
const CONVERTED: &str = "    name: v1beta1\n";

pub(super) fn of(kind: Kind) -> String {
    let mut definition = crd(kind);
    let converted = v1beta1_version(kind);
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        versions.extend(converted.clone());
    }
    with_values(&to_yaml(&definition), converted.map(|_| conversion_path(kind)).as_deref())
}

/// With a path v1beta1 is served through the webhook there.
fn with_values(definition: &str, path: Option<&str>) -> String {
    // What is text in a definition must not become code in a template.
    let text = definition.replace("{{", "{{ \"{{\" }}").replacen("metadata:\n", ANNOTATIONS, 1);
    let (Some(path), Some((head, versions))) = (path, text.split_once("  versions:\n")) else { return text };
    let head = head.replacen("spec:\n", &CONVERSION.replace("PATH", path), 1);
    let guarded = entries(versions).into_iter().map(|version| match version.contains(CONVERTED) {
        true => format!("{IF}{version}{END}"),
        false => version,
    });
    format!("{head}  versions:\n{}", guarded.collect::<String>())
}

/// The entries of a list indented by two.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        match entries.last_mut() {
            Some(last) if !line.starts_with("  - ") => last.push_str(line),
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "kind: X\nmetadata:\n  name: x\nspec:\n  group: g\n  versions:\n  - columns:\n    - name: v1beta1x\n    name: v1\n";

    #[test]
    fn a_definition_without_conversion_gets_annotations_only() {
        let made = with_values(ONE, None);
        assert!(made.contains("additionalAnnotations") && made.ends_with("    name: v1\n"), "{made}");
        assert!(!made.contains("webhook"), "{made}");
        assert!(!of(Kind::CapacityBuffer).contains("webhook"), "v1beta1 is its stored version");
    }

    #[test]
    fn an_older_version_is_there_only_with_the_webhook() {
        let definition = format!("{ONE}  - name: v1alpha1\n  - columns: []\n    name: v1beta1\n");
        let made = with_values(&definition, Some("/there"));
        let guarded = "  {{- if .Values.webhook.enabled }}\n  - columns: []\n    name: v1beta1\n  {{- end }}\n";
        assert!(made.ends_with(&format!("    name: v1\n  - name: v1alpha1\n{guarded}")), "{made}");
        assert!(made.contains("path: /there\n"), "{made}");
        assert_eq!(of(Kind::NodePool).matches("name: v1beta1\n").count(), 1);
    }

    #[test]
    fn text_is_never_code() {
        assert!(with_values(&ONE.replace("kind: X", "kind: '{{x}}'"), None).contains("kind: '{{ \"{{\" }}x}}'"));
    }
}
