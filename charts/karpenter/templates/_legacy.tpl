{{/*
Values of older charts. The current name wins where both are set; so a current value that an older name stands for has no
default in values.yaml, but here.
*/}}

{{/* The value at a dotted path below .Values, as JSON; nothing if it is not set: (list $ "settings.aws.clusterName") */}}
{{- define "karpenter.at" -}}
{{- $node := dict "at" (index . 0).Values -}}
{{- range splitList "." (index . 1) -}}
  {{- $at := get $node "at" -}}
  {{- if kindIs "map" $at -}}
    {{- $_ := set $node "at" (index $at .) -}}
  {{- else -}}
    {{- $_ := set $node "at" nil -}}
  {{- end -}}
{{- end -}}
{{- $found := get $node "at" -}}
{{- if not (has (toJson $found) (list "null" "\"\"" "[]")) -}}
{{ toJson $found }}
{{- end -}}
{{- end }}

{{/* The first of several paths that is set, as text: (list $ default path…) */}}
{{- define "karpenter.first" -}}
{{- $root := index . 0 -}}
{{- $found := dict -}}
{{- range slice . 2 -}}
  {{- $value := include "karpenter.at" (list $root .) -}}
  {{- if and (not (hasKey $found "value")) $value -}}
    {{- $_ := set $found "value" (index (fromJsonArray (printf "[%s]" $value)) 0) -}}
  {{- end -}}
{{- end -}}
{{- $value := hasKey $found "value" | ternary (get $found "value") (index . 1) -}}
{{- if kindIs "slice" $value -}}
{{ join "," $value }}
{{- else if kindIs "map" $value -}}
{{ toJson $value }}
{{- else -}}
{{ tpl (toString $value) $root }}
{{- end -}}
{{- end }}

{{/* The installation notes about older values: a line for each that is set. */}}
{{- define "karpenter.legacyNotes" -}}
{{- $root := . -}}
{{- $aliases := list
  (list "settings.interruptionQueueName" "settings.interruptionQueue")
  (list "settings.aws.interruptionQueueName" "settings.interruptionQueue")
  (list "settings.aws.clusterName" "settings.clusterName")
  (list "settings.aws.clusterEndpoint" "settings.clusterEndpoint")
  (list "settings.aws.clusterCABundle" "settings.clusterCABundle")
  (list "settings.aws.isolatedVPC" "settings.isolatedVPC")
  (list "settings.aws.vmMemoryOverheadPercent" "settings.vmMemoryOverheadPercent")
  (list "settings.aws.reservedENIs" "settings.reservedENIs")
  (list "controller.logLevel" "logLevel")
  (list "logConfig.logLevel.controller" "logLevel")
  (list "logConfig.logLevel.global" "logLevel")
  (list "controller.outputPaths" "logOutputPaths")
  (list "logConfig.outputPaths" "logOutputPaths")
  (list "controller.errorOutputPaths" "logErrorOutputPaths")
  (list "logConfig.errorOutputPaths" "logErrorOutputPaths")
  (list "controller.batchMaxDuration" "settings.batchMaxDuration")
  (list "controller.batchIdleDuration" "settings.batchIdleDuration")
-}}
{{- $ignored := list
  (list "settings.aws.defaultInstanceProfile" "an EC2NodeClass names its role or instanceProfile itself")
  (list "settings.aws.assumeRoleARN" "give the service account a role (IRSA or Pod Identity)")
  (list "settings.aws.assumeRoleDuration" "give the service account a role (IRSA or Pod Identity)")
  (list "settings.assumeRoleARN" "give the service account a role (IRSA or Pod Identity)")
  (list "settings.assumeRoleDuration" "give the service account a role (IRSA or Pod Identity)")
  (list "settings.aws.enablePodENI" "branch interfaces are always known")
  (list "settings.aws.enableENILimitedPodDensity" "set maxPods in the EC2NodeClass's kubelet")
  (list "settings.aws.nodeNameConvention" "nodes are named by the image")
  (list "settings.aws.tags" "set spec.tags of the EC2NodeClass")
  (list "settings.featureGates.drift" "drift is always on")
  (list "settings.featureGates.driftEnabled" "drift is always on")
  (list "logConfig.enabled" "set logLevel")
  (list "logConfig.logEncoding" "lines are JSON")
  (list "logEncoding" "lines are JSON")
  (list "logConfig.logLevel.webhook" "set logLevel")
  (list "postInstallHook.image" "nothing is run after an installation")
  (list "settings.securityGroupRefreshInterval" "it is a setting of upstream 1.15")
  (list "webhook.metrics.port" "the webhook's metrics are on controller.metrics.port")
  (list "webhook.logLevel" "set logLevel")
-}}
{{- range $aliases }}
{{- if include "karpenter.at" (list $root (index . 0)) }}
  {{ index . 0 }} is read as {{ index . 1 }}: use that name.
{{- end }}
{{- end }}
{{- range $ignored }}
{{- if include "karpenter.at" (list $root (index . 0)) }}
  {{ index . 0 }} has no effect: {{ index . 1 }}.
{{- end }}
{{- end }}
{{- $gates := dict
  "featureGates" (list "reservedCapacity" "spotToSpotConsolidation" "nodeRepair" "nodeOverlay" "staticCapacity" "capacityBuffer" "drift" "driftEnabled")
  "awsFeatureGates" (list "nodeClassCEL")
-}}
{{- range $group, $known := $gates }}
{{- range $gate, $_ := get $root.Values.settings $group }}
{{- if not (has $gate $known) }}
  settings.{{ $group }}.{{ $gate }} has no effect: no gate is called so.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
