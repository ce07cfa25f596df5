{{/* The settings as environment variables, in a list. Empty texts are left out, false is not. */}}
{{- define "karpenter.settings" -}}
{{- $root := . -}}
{{- $name := include "karpenter.first" (list . "" "settings.clusterName" "settings.aws.clusterName") -}}
{{- $gates := .Values.settings.featureGates -}}
{{- if eq (include "karpenter.first" (list . "false" "settings.enableDRA")) "true" }}
{{- fail "settings.enableDRA is not supported: devices of ResourceClaims are not allocated yet; leave it out or set it to false" }}
{{- end }}
{{- if eq (include "karpenter.first" (list . "true" "settings.ignoreDRARequests")) "false" }}
{{- fail "settings.ignoreDRARequests: false is not supported, devices of ResourceClaims are not allocated; leave it at true" }}
{{- end }}
{{- $ours := list
  (list "BATCH_MAX_DURATION" "10s" "settings.batchMaxDuration" "controller.batchMaxDuration")
  (list "BATCH_IDLE_DURATION" "1s" "settings.batchIdleDuration" "controller.batchIdleDuration")
  (list "PREFERENCE_POLICY" "" "settings.preferencePolicy")
  (list "MIN_VALUES_POLICY" "" "settings.minValuesPolicy")
  (list "CLUSTER_CA_BUNDLE" "" "settings.clusterCABundle" "settings.aws.clusterCABundle")
  (list "CLUSTER_NAME" (required "settings.clusterName is missing: the name of the EKS cluster" $name))
  (list "CLUSTER_ENDPOINT" "" "settings.clusterEndpoint" "settings.aws.clusterEndpoint")
  (list "ISOLATED_VPC" "false" "settings.isolatedVPC" "settings.aws.isolatedVPC")
  (list "EKS_CONTROL_PLANE" "" "settings.eksControlPlane")
  (list "VM_MEMORY_OVERHEAD_PERCENT" "0.075" "settings.vmMemoryOverheadPercent" "settings.aws.vmMemoryOverheadPercent")
  (list "INTERRUPTION_QUEUE" "" "settings.interruptionQueue" "settings.interruptionQueueName" "settings.aws.interruptionQueueName")
  (list "ENABLE_ZONAL_SHIFT" "" "settings.enableZonalShift")
  (list "RESERVED_ENIS" "0" "settings.reservedENIs" "settings.aws.reservedENIs")
  (list "IGNORE_DRA_REQUESTS" "" "settings.ignoreDRARequests")
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" "" "settings.disableClusterStateObservability")
  (list "DISABLE_DRY_RUN" "" "settings.disableDryRun")
  (list "AMI_REFRESH_INTERVAL" "" "settings.amiRefreshInterval")
  (list "SUBNET_REFRESH_INTERVAL" "" "settings.subnetRefreshInterval")
  (list "SCHEDULER_CONFIG" "" "settings.schedulerConfig")
  (list "LEGACY_METRICS" "" "settings.legacyMetrics")
  (list "COMPAT_LOG_LINES" "" "settings.compatLogLines")
-}}
- name: FEATURE_GATES
  value: {{ printf "ReservedCapacity=%v,SpotToSpotConsolidation=%v,NodeRepair=%v,NodeOverlay=%v,StaticCapacity=%v,CapacityBuffer=%v" $gates.reservedCapacity $gates.spotToSpotConsolidation $gates.nodeRepair $gates.nodeOverlay $gates.staticCapacity $gates.capacityBuffer | quote }}
- name: AWS_FEATURE_GATES
  value: {{ printf "NodeClassCEL=%v" .Values.settings.awsFeatureGates.nodeClassCEL | quote }}
{{- range $ours }}
{{- $env := first . }}
{{- with include "karpenter.first" (concat (list $root) (rest .)) }}
- name: {{ $env }}
  value: {{ . | quote }}
{{- end }}
{{- end }}
- name: DISABLE_WEBHOOK
  value: {{ not .Values.webhook.enabled | quote }}
- name: WEBHOOK_PORT
  value: {{ .Values.webhook.port | quote }}
{{- end }}
