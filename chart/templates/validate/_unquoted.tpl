{{/*
Numbers where a text belongs, such as a commit of digits only. The schema accepts them, since its message does not say
what to write (definitions.unquoted). Prints the refusals and makes each a text, which the other checks require.
*/}}
{{- define "megatron-dpo.validate.unquoted" -}}
{{- range $path := include "megatron-dpo.texts" . | splitList " " }}
{{- $keys := splitList "." $path }}
{{- $map := $.Values }}
{{- range initial $keys }}
{{- $map = get $map . | default dict }}
{{- end }}
{{- $value := get $map (last $keys) }}
{{- if or (kindIs "float64" $value) (kindIs "int64" $value) (kindIs "int" $value) }}
- {{ $path }}: a number ({{ toJson $value }} as YAML reads it), and a text is required; quote it as it was written (--set-string in a command) [number-unquoted]
{{- $_ := set $map (last $keys) (toJson $value) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Paths of texts for which the schema accepts a number; a test compares both. */}}
{{- define "megatron-dpo.texts" -}}
code.ref code.existingSecret image.tag image.digest workspace.existingClaim kueue.queue kueue.priorityClass
{{- print " secrets.hf.existingSecret secrets.modelscope.existingSecret serviceAccountName priorityClassName schedulerName" }}
{{- print " monitoring.trackers.wandb.project monitoring.trackers.wandb.existingSecret monitoring.trackers.swanlab.project" }}
{{- print " monitoring.trackers.swanlab.existingSecret monitoring.webhook.existingSecret" }}
{{- end }}
