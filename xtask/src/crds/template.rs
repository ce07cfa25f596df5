//! A definition as a template of the chart `karpenter-crd`: annotations from its values, and the conversion webhook where
//! an older version is served beside the stored one.

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
          path: /conversion/GROUP
          port: {{ .Values.webhook.port }}
      conversionReviewVersions: [v1, v1beta1]
  {{- end }}
";
const IF: &str = "  {{- if .Values.webhook.enabled }}\n";
const END: &str = "  {{- end }}\n";
/// The version that exists only through the webhook.
const CONVERTED: &str = "    name: v1beta1\n";

pub(super) fn of(group: &str, definition: &str) -> String {
    // What is text in a definition must not become code in a template.
    let text = definition.replace("{{", "{{ \"{{\" }}").replacen("metadata:\n", ANNOTATIONS, 1);
    let (head, versions) = text.split_once("  versions:\n").unwrap_or((&text, ""));
    let versions = entries(versions);
    // A version that is alone is the stored one, whatever its name.
    if versions.len() < 2 || !versions.iter().any(|version| version.contains(CONVERTED)) {
        return text;
    }
    let head = head.replacen("spec:\n", &CONVERSION.replace("GROUP", group), 1);
    let guarded = versions.iter().map(|version| match version.contains(CONVERTED) {
        true => format!("{IF}{version}{END}"),
        false => version.clone(),
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
    fn a_definition_with_one_version_gets_annotations_only() {
        let made = of("g", ONE);
        assert!(made.contains("additionalAnnotations") && made.ends_with("    name: v1\n"), "{made}");
        assert!(!made.contains("webhook"), "{made}");
        let alone = of("g", &ONE.replace("    name: v1\n", "    name: v1beta1\n"));
        assert!(!alone.contains("webhook"), "{alone}");
    }

    #[test]
    fn an_older_version_is_there_only_with_the_webhook() {
        let made = of("g.example", &format!("{ONE}  - name: v1alpha1\n  - columns: []\n    name: v1beta1\n"));
        let guarded = "  {{- if .Values.webhook.enabled }}\n  - columns: []\n    name: v1beta1\n  {{- end }}\n";
        assert!(made.ends_with(&format!("    name: v1\n  - name: v1alpha1\n{guarded}")), "{made}");
        assert!(made.contains("path: /conversion/g.example\n"), "{made}");
    }

    #[test]
    fn text_is_never_code() {
        assert!(of("g", &ONE.replace("kind: X", "kind: '{{x}}'")).contains("kind: '{{ \"{{\" }}x}}'"));
    }
}
