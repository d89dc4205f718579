{{- define "megatron-dpo.upgrade.pods" -}}
{{- $old := dig "metadata" "annotations" "checksum/spec" "" .live.JobSet }}
{{- if and $old (ne $old (include "megatron-dpo.spec.digest" .root)) }}
- pods: image, nodes, resources, environment, volumes or another part of the JobSet's spec; what it runs with: helm -n {{ .root.Release.Namespace }} get values {{ .root.Release.Name }} --all [upgrade-pods]
{{- end }}
{{- end }}

{{/*
Kueue's own rules (its pkg/controller/jobframework/validation.go): a queued run may change queue and
time limit and may get a priority class, a started one keeps them; a priority class can be replaced
at any time. A run that loses its queue would stay suspended.
*/}}
{{- define "megatron-dpo.upgrade.queue" -}}
{{- if .live.JobSet }}
{{- $isQueued := dig "spec" "suspend" false .live.JobSet }}
{{- $old := dig "metadata" "labels" dict .live.JobSet }}
{{- $new := include "megatron-dpo.kueue.labels" .root | fromJson }}
{{- range $name, $key := dict "queue-name" "queue" "priority-class" "priorityClass" "max-exec-time-seconds" "maxExecTimeSeconds" }}
{{- $label := printf "kueue.x-k8s.io/%s" $name }}
{{- $before := get $old $label }}
{{- $after := get $new $label }}
{{- $isFixed := not $isQueued }}
{{- if and $isFixed (eq $key "priorityClass") $before $after }}{{ $isFixed = false }}{{ end }}
{{- if and (not $after) (ne $key "maxExecTimeSeconds") }}{{ $isFixed = true }}{{ end }}
{{- if and $isFixed (ne $before $after) }}
- kueue.{{ $key }}: {{ $before | default "(none)" }} to {{ $after | default "(none)" }}{{ if not $isQueued }}, and it runs{{ end }} [upgrade-kueue]
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.claim" -}}
{{- $old := dig "PersistentVolumeClaim" "spec" dict .live }}
{{- with .root.Values.workspace.pvc }}
{{- if $old }}
{{- $size := dig "resources" "requests" "storage" "0" $old }}
{{- if lt (include "megatron-dpo.quantity" .size | float64) (include "megatron-dpo.quantity" $size | float64) }}
- workspace.pvc.size: {{ $size }} to {{ .size }}, and a claim does not shrink [upgrade-claim-size]
{{- end }}
{{- if ne (.accessModes | default (list "ReadWriteMany") | sortAlpha | toJson) ($old.accessModes | sortAlpha | toJson) }}
- workspace.pvc.accessModes: {{ join ", " $old.accessModes }} to {{ join ", " (.accessModes | default (list "ReadWriteMany")) }} [upgrade-claim-modes]
{{- end }}
{{- if and .storageClassName (ne .storageClassName ($old.storageClassName | default "")) }}
- workspace.pvc.storageClassName: {{ $old.storageClassName | default "(none)" }} to {{ .storageClassName }} [upgrade-claim-class]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
