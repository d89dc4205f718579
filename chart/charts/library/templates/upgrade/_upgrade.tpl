{{/*
Refuse an upgrade that changes more than JobSet and Kueue allow during a run, before anything is sent and in one
message. Each part prints `- <what>: <what changed>`. Takes (root, live).
*/}}
{{- define "megatron-dpo.upgrade" -}}
{{- if .Release.IsUpgrade }}
{{- $both := dict "root" . "live" (include "megatron-dpo.clusterState" . | fromJson) }}
{{- $changed := "" }}
{{- if or $both.live.ConfigMap $both.live.JobSet }}
{{- range $part := list "jobset" "configmap" "recipe" "launchers" "pods" "queue" "claim" }}
{{- with include (printf "megatron-dpo.upgrade.%s" $part) $both | trim }}
{{- $changed = printf "%s\n%s" $changed (regexReplaceAll "\n\\s*\n*" . "\n") }}
{{- end }}
{{- end }}
{{- end }}
{{- if $changed }}
{{- $end := printf "helm -n %s uninstall %s --cascade foreground --wait" .Release.Namespace .Release.Name }}
{{- fail (printf "release %s is one run, and an upgrade cannot change these parts of it:%s\nInstall under another name, or uninstall with\n  %s\nand install again: the run resumes from its newest checkpoint if recipe and data are the same." .Release.Name $changed $end) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.jobset" -}}
{{- if not .live.JobSet }}
- JobSet: deleted, or finished more than ttlSecondsAfterFinished ago; an upgrade would start the run again [upgrade-ended]
{{- end }}
{{- end }}

{{/* A deleted ConfigMap comes back with an upgrade if recipe and launcher are those whose checksums the run's pods have. */}}
{{- define "megatron-dpo.upgrade.configmap" -}}
{{- if and (not .live.ConfigMap) .live.JobSet }}
{{- $pods := dig "template" "spec" "template" "metadata" "annotations" dict (last .live.JobSet.spec.replicatedJobs) }}
{{- $same := eq (get $pods "checksum/recipe") (include "megatron-dpo.recipe" .root | sha256sum) }}
{{- if not (and $same (eq (get $pods "checksum/launchers") (include "megatron-dpo.launcher.digest" .root))) }}
- ConfigMap: deleted, and recipe or launcher are not those of the run; upgrade with values and chart of the installation, or restore it with: helm -n {{ .root.Release.Namespace }} get manifest {{ .root.Release.Name }} | kubectl -n {{ .root.Release.Namespace }} apply -f - [upgrade-configmap]
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.recipe" -}}
{{- if .live.ConfigMap }}
{{- $text := include "megatron-dpo.recipe" .root | trim }}
{{- $before := get .live.ConfigMap.data "recipe.yaml" | trim }}
{{- if ne $text $before }}
{{- $new := fromYaml $text }}
{{- $old := fromYaml $before }}
{{- $keys := list }}
{{- range $key := list "backend" "task" "model" "dataset" "reference" "pairWeights" "promptOnce" "export" "saving" "saveMinutes" "maxDroppedRows" "adapterReference" "allowVersionChange" "checkFirstStep" "pairLedger" "script" }}
{{- if ne (get $new $key | toJson) (get $old $key | toJson) }}{{ $keys = append $keys $key }}{{ end }}
{{- end }}
{{- $flags := $old.args | default dict }}
{{- range $flag := concat (keys $new.args) (keys $flags) | uniq | sortAlpha }}
{{- if ne (get $new.args $flag | toJson) (get $flags $flag | toJson) }}{{ $keys = append $keys (printf "args.%s" $flag) }}{{ end }}
{{- end }}
- recipe: {{ join ", " $keys | default "its format, from another version of the chart" }} [upgrade-recipe]
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.launchers" -}}
{{- $old := get (dig "metadata" "annotations" dict .live.ConfigMap | default dict) "checksum/launchers" }}
{{- if and .live.ConfigMap (ne $old (include "megatron-dpo.launcher.digest" .root)) }}
- launchers: the launcher's code; upgrade with the chart of the installation ({{ dig "metadata" "labels" "helm.sh/chart" "?" .live.ConfigMap }}) [upgrade-launcher]
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.pods" -}}
{{- $old := dig "metadata" "annotations" "checksum/spec" "" .live.JobSet }}
{{- if and $old (ne $old (include "megatron-dpo.spec.digest" .root)) }}
- pods: image, nodes, resources, environment, volumes or another part of the JobSet's spec; to see the installed values: helm -n {{ .root.Release.Namespace }} get values {{ .root.Release.Name }} --all [upgrade-pods]
{{- end }}
{{- end }}

{{/*
Kueue's rules (its pkg/controller/jobframework/validation.go): a queued run may change queue and time limit
and may get a priority class; a started one keeps them; a priority class can be replaced at any time. A run
that loses its queue would stay suspended.
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
- kueue.{{ $key }}: {{ $before | default "(none)" }} to {{ $after | default "(none)" }}{{ if not $isQueued }}, and the run has started{{ end }} [upgrade-kueue]
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
- workspace.pvc.size: {{ $size }} to {{ .size }}, and a claim cannot shrink [upgrade-claim-size]
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
