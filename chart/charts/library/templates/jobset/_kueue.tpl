{{/* Labels of the JobSet that Kueue reads, as JSON. */}}
{{- define "megatron-dpo.kueue.labels" -}}
{{- $labels := dict -}}
{{- with .Values.kueue.queue }}{{ $_ := set $labels "kueue.x-k8s.io/queue-name" . }}{{ end }}
{{- with .Values.kueue.priorityClass }}{{ $_ := set $labels "kueue.x-k8s.io/priority-class" . }}{{ end }}
{{- with .Values.kueue.maxExecTimeSeconds }}{{ $_ := set $labels "kueue.x-k8s.io/max-exec-time-seconds" (int . | toString) }}{{ end }}
{{- toJson $labels }}
{{- end }}

{{/* Names of all resources that pods of the run request, as a JSON list: a ClusterQueue needs quota for each. */}}
{{- define "megatron-dpo.kueue.resources" -}}
{{- $names := list -}}
{{- range $role := ternary (list "node" "clone" "download") (list "node") (eq .Values.stages.placement "jobs") }}
{{- $resources := include "megatron-dpo.resources" (dict "root" $ "role" $role) | fromYaml }}
{{- $names = concat $names (keys $resources.requests) (keys $resources.limits) }}
{{- end }}
{{- range $container := (include "megatron-dpo.network" . | fromJson).initContainers }}
{{- range $side := list "requests" "limits" }}
{{- $names = concat $names (dig "resources" $side dict $container | keys) }}
{{- end }}
{{- end }}
{{- uniq $names | sortAlpha | toJson }}
{{- end }}
