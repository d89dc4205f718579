{{/* Settings of metrics, webhook and events as JSON of NAME -> string or {valueFrom}. */}}
{{- define "megatron-dpo.monitoring.settings" -}}
{{- $settings := dict -}}
{{- with .Values.monitoring.port }}{{ $_ := set $settings "DPO_METRICS_PORT" (toString (int .)) }}{{ end }}
{{- with .Values.monitoring.webhook }}
{{- if .existingSecret }}
{{- $reference := dict "name" .existingSecret "key" .key }}
{{- $_ := set $settings "DPO_WEBHOOK_URL" (dict "valueFrom" (dict "secretKeyRef" $reference)) }}
{{- $_ := set $settings "DPO_WEBHOOK_WAIT" (toString (int .waitSeconds)) }}
{{- end }}
{{- end }}
{{- if .Values.monitoring.events }}
{{- $_ := set $settings "DPO_EVENTS" "1" }}
{{- end }}
{{- toJson $settings }}
{{- end }}

{{/* Names of the trackers that the run reports to, as a JSON list. */}}
{{- define "megatron-dpo.trackers" -}}
{{- $names := list -}}
{{- range $name := list "wandb" "swanlab" }}
{{- $tracker := get $.Values.monitoring.trackers $name }}
{{- if or $tracker.offline $tracker.existingSecret }}{{ $names = append $names $name }}{{ end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* Variables of the trackers' libraries as JSON of NAME -> string or {valueFrom}; SwanLab has two URLs. */}}
{{- define "megatron-dpo.trackers.env" -}}
{{- $env := dict -}}
{{- range $name := include "megatron-dpo.trackers" . | fromJsonArray }}
{{- $tracker := get $.Values.monitoring.trackers $name }}
{{- $prefix := upper $name }}
{{- with $tracker.project }}{{ $_ := set $env (printf "%s_PROJECT" $prefix) . }}{{ end }}
{{- if $tracker.offline }}
{{- $_ := set $env (printf "%s_MODE" $prefix) "offline" }}
{{- else }}
{{- $reference := dict "name" $tracker.existingSecret "key" $tracker.key }}
{{- $_ := set $env (printf "%s_API_KEY" $prefix) (dict "valueFrom" (dict "secretKeyRef" $reference)) }}
{{- end }}
{{- with $tracker.url }}
{{- if eq $name "wandb" }}
{{- $_ := set $env "WANDB_BASE_URL" . }}
{{- else }}
{{- $_ := set $env "SWANLAB_WEB_HOST" . }}
{{- $_ := set $env "SWANLAB_API_HOST" (printf "%s/api" (trimSuffix "/" .)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $env }}
{{- end }}
