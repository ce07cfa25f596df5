{{/* Terms about pods that select none get our own selector. (list $ term…), each changed in place. */}}
{{- define "karpenter.select" -}}
{{- $root := first . -}}
{{- range rest . -}}
  {{- if not (hasKey . "labelSelector") -}}
    {{- $_ := set . "labelSelector" (dict "matchLabels" (include "karpenter.selectorLabels" $root | fromYaml)) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "karpenter.affinity" -}}
{{- $root := . -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- range list "podAffinity" "podAntiAffinity" -}}
  {{- $terms := get $affinity . | default dict -}}
  {{- include "karpenter.select" (concat (list $root) (get $terms "requiredDuringSchedulingIgnoredDuringExecution" | default list)) -}}
  {{- range get $terms "preferredDuringSchedulingIgnoredDuringExecution" | default list -}}
    {{- include "karpenter.select" (list $root .podAffinityTerm) -}}
  {{- end -}}
{{- end -}}
{{ toYaml $affinity }}
{{- end }}

{{- define "karpenter.topologySpreadConstraints" -}}
{{- $constraints := deepCopy .Values.topologySpreadConstraints -}}
{{- include "karpenter.select" (concat (list .) $constraints) -}}
{{ toYaml $constraints }}
{{- end }}
