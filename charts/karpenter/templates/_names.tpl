{{- define "karpenter.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "karpenter.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $derived := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ .Values.fullnameOverride | default $derived | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "karpenter.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (ternary (include "karpenter.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "karpenter.containerName" -}}
{{ .Values.controller.containerName | default "controller" }}
{{- end }}

{{/* No default: a name without a registry is whoever's it is at the registry that the nodes ask first. */}}
{{- define "karpenter.image" -}}
{{- $image := .Values.controller.image | default dict -}}
{{ required "controller.image.repository is missing: the image of the controller in a registry of yours, e.g. 111122223333.dkr.ecr.eu-west-1.amazonaws.com/karpenter/controller (deploy/README.md says how to build it)" $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* What selects our pods. Immutable in a Deployment: it never changes, or no release could be upgraded. */}}
{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "karpenter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The labels and annotations of an object: (list $ more-labels more-annotations), the last two may be left out. */}}
{{- define "karpenter.meta" -}}
{{- $root := index . 0 -}}
{{- $filled := concat . (list dict dict) -}}
{{- $labels := index $filled 1 -}}
{{- $annotations := index $filled 2 -}}
labels:
  {{- include "karpenter.labels" $root | nindent 2 }}
  {{- with $labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict ($annotations | default dict) ($root.Values.additionalAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
