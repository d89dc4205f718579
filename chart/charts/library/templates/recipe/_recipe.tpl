{{/*
recipe.yaml of the launcher: .Values.recipe in a fixed order. Scalars are quoted, so that every YAML parser reads
5e-06, yes and 1000000 alike:
  args:
    "lr": "5e-06"
A null means "not given", so that a later values file can remove a flag.
*/}}
{{- define "megatron-dpo.recipe" -}}
{{- with .Values.recipe -}}
backend: {{ .backend | quote }}
task: {{ .task | quote }}
model: {{ .model | quote }}
{{- if ne .reference "online" }}
reference: {{ .reference | quote }}
{{- end }}
{{- if ne .export "last" }}
export: {{ .export | quote }}
{{- end }}
{{- if ne .pairWeights "equal" }}
pairWeights: {{ .pairWeights | quote }}
{{- end }}
{{- if kindIs "bool" .promptOnce }}
promptOnce: {{ .promptOnce }}
{{- end }}
{{- if .allowVersionChange }}
allowVersionChange: true
{{- end }}
{{- if ne .adapterReference "adapter" }}
adapterReference: {{ .adapterReference | quote }}
{{- end }}
{{- if ne .saving "background" }}
saving: {{ .saving | quote }}
{{- end }}
{{- if ne (float64 .saveMinutes) 15.0 }}
saveMinutes: {{ .saveMinutes }}
{{- end }}
{{- if ne (float64 .maxDroppedRows) 0.05 }}
maxDroppedRows: {{ .maxDroppedRows }}
{{- end }}
{{- if not .checkFirstStep }}
checkFirstStep: false
{{- end }}
{{- if not .pairLedger }}
pairLedger: false
{{- end }}
{{- with include "megatron-dpo.trackers" $ | fromJsonArray }}
trackers: {{ toJson . }}
{{- end }}
{{- with .script }}
script: {{ toJson . }}
{{- end }}
{{- if .checkFlags }}
swiftVersion: {{ .swiftVersion | quote }}
{{- end }}
dataset:
{{- range .dataset }}
  - {{ . | quote }}
{{- end }}
args: {{- if not (include "megatron-dpo.recipe.args" .args) }} {}{{ end }}
{{- include "megatron-dpo.recipe.args" .args }}
{{- end }}
{{- end }}

{{/* One line per flag. */}}
{{- define "megatron-dpo.recipe.args" -}}
{{- range $flag, $value := . }}
{{- if not (kindIs "invalid" $value) }}
  {{ $flag | quote }}: {{ include "megatron-dpo.quoted" $value }}
{{- end }}
{{- end }}
{{- end }}
