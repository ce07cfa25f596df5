{{/* A binding of our ServiceAccount to a role of the same name: (list $ kind name namespace), no namespace for a ClusterRole. */}}
{{- define "karpenter.binding" -}}
{{- $root := index . 0 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ index . 1 }}Binding
metadata:
  name: {{ index . 2 }}
  {{- with index . 3 }}
  namespace: {{ . }}
  {{- end }}
  {{- include "karpenter.meta" (list $root) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 1 }}
  name: {{ index . 2 }}
subjects:
  - kind: ServiceAccount
    name: {{ include "karpenter.serviceAccountName" $root }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
