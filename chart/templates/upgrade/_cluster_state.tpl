{{/*
What the cluster has of this release's objects, as JSON of kind -> object; empty where there is
none, or no cluster to ask (helm template, --dry-run=client). This is the chart's only look-up, and
_upgrade.tpl compares with it: nothing that is rendered depends on it. Tests put another file here.
*/}}
{{- define "megatron-dpo.live" -}}
{{- $ns := .Release.Namespace -}}
{{- $live := dict
  "ConfigMap" (lookup "v1" "ConfigMap" $ns (include "megatron-dpo.configMap.name" .))
  "JobSet" (lookup "jobset.x-k8s.io/v1alpha2" "JobSet" $ns (include "megatron-dpo.name" .)) -}}
{{- if .Values.workspace.pvc }}
{{- $_ := set $live "PersistentVolumeClaim" (lookup "v1" "PersistentVolumeClaim" $ns (include "megatron-dpo.claim.name" .)) }}
{{- end }}
{{- toJson $live }}
{{- end }}
