{{/*
.Values.recipe for the launcher, in a fixed order. Scalars are quoted, so that no parser reads
5e-06, yes or 1000000 in its own way:
  args:
    "lr": "5e-06"
A null means "not given", so that a later file can drop a flag.
*/}}
{{- define "megatron-dpo.recipe" -}}
{{- with .Values.recipe -}}
backend: {{ .backend | quote }}
task: {{ .task | quote }}
model: {{ .model | quote }}
{{- if ne .reference "online" }}
reference: {{ .reference | quote }}
{{- end }}
dataset:
{{- range .dataset }}
  - {{ . | quote }}
{{- end }}
args: {{- if not (include "megatron-dpo.recipe.args" .args) }} {}{{ end }}
{{- include "megatron-dpo.recipe.args" .args }}
{{- end }}
{{- end }}

{{/* One line a flag. */}}
{{- define "megatron-dpo.recipe.args" -}}
{{- range $flag, $value := . }}
{{- if not (kindIs "invalid" $value) }}
  {{ $flag | quote }}: {{ include "megatron-dpo.quoted" $value }}
{{- end }}
{{- end }}
{{- end }}
