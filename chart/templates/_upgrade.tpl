{{/*
An upgrade may change what JobSet and Kueue let change in a run; the rest is refused before
anything is sent, in one message. Each part prints `- <what>: <what changed>`; takes (root, live).
*/}}
{{- define "megatron-dpo.upgrade" -}}
{{- if .Release.IsUpgrade }}
{{- $both := dict "root" . "live" (include "megatron-dpo.live" . | fromJson) }}
{{- $changed := "" }}
{{- if $both.live.ConfigMap }}
{{- range $part := list "jobset" "recipe" "launchers" "pods" "queue" "claim" }}
{{- with include (printf "megatron-dpo.upgrade.%s" $part) $both | trim }}
{{- $changed = printf "%s\n%s" $changed (regexReplaceAll "\n\\s*\n*" . "\n") }}
{{- end }}
{{- end }}
{{- end }}
{{- if $changed }}
{{- $end := printf "helm -n %s uninstall %s --cascade foreground --wait" .Release.Namespace .Release.Name }}
{{- fail (printf "release %s is one run, and this of it can change no more:%s\nInstall it under another name; or end it with\n  %s\nand install it again: it resumes from its newest checkpoint, if recipe and data are the same." .Release.Name $changed $end) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.jobset" -}}
{{- if not .live.JobSet }}
- JobSet: it was deleted, or has ended more than ttlSecondsAfterFinished ago; an upgrade would start the run again [upgrade-ended]
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.recipe" -}}
{{- $text := include "megatron-dpo.recipe" .root | trim }}
{{- $before := get .live.ConfigMap.data "recipe.yaml" | trim }}
{{- if ne $text $before }}
{{- $new := fromYaml $text }}
{{- $old := fromYaml $before }}
{{- $keys := list }}
{{- range $key := list "backend" "task" "model" "dataset" "reference" }}
{{- if ne (get $new $key | toJson) (get $old $key | toJson) }}{{ $keys = append $keys $key }}{{ end }}
{{- end }}
{{- $flags := $old.args | default dict }}
{{- range $flag := concat (keys $new.args) (keys $flags) | uniq | sortAlpha }}
{{- if ne (get $new.args $flag | toJson) (get $flags $flag | toJson) }}{{ $keys = append $keys (printf "args.%s" $flag) }}{{ end }}
{{- end }}
- recipe: {{ join ", " $keys | default "its form, of another version of the chart" }} [upgrade-recipe]
{{- end }}
{{- end }}

{{- define "megatron-dpo.upgrade.launchers" -}}
{{- $old := get (.live.ConfigMap.metadata.annotations | default dict) "checksum/launchers" }}
{{- if ne $old (include "megatron-dpo.launcher.digest" .root) }}
- launchers: the launcher's code; upgrade with the chart that the run was installed with ({{ dig "metadata" "labels" "helm.sh/chart" "?" .live.ConfigMap }}) [upgrade-launcher]
{{- end }}
{{- end }}
