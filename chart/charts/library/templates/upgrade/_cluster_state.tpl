{{/*
This release's objects in the cluster, as JSON of kind -> object; empty if an object does not exist or there is no
cluster to ask (helm template, --dry-run=client). This is the chart's only lookup: an upgrade is compared with it,
and of the rendered objects only the launcher's source depends on it (launcher.from: auto). Tests replace this file.
*/}}
{{- define "megatron-dpo.clusterState" -}}
{{- $ns := .Release.Namespace -}}
{{- $live := dict
  "ConfigMap" (lookup "v1" "ConfigMap" $ns (include "megatron-dpo.configMap.name" .))
  "JobSet" (lookup "jobset.x-k8s.io/v1alpha2" "JobSet" $ns (include "megatron-dpo.name" .)) -}}
{{- if .Values.workspace.pvc }}
{{- $_ := set $live "PersistentVolumeClaim" (lookup "v1" "PersistentVolumeClaim" $ns (include "megatron-dpo.claim.name" .)) }}
{{- end }}
{{- toJson $live }}
{{- end }}
