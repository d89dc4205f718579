{{/* One flag's value against what its annotation takes, as launchers/flags/flag_types.py; takes (flag, text, kind). */}}
{{- define "megatron-dpo.validate.kind" -}}
{{- $wrong := "" -}}
{{- if kindIs "slice" .kind }}
{{- if not (has .text .kind) }}{{ $wrong = printf "is not known; write one of %s" (join ", " .kind) }}{{ end }}
{{- else if eq .kind "switch" }}
{{- if not (has (lower .text) (concat (include "megatron-dpo.yes" . | splitList " ") (include "megatron-dpo.no" . | splitList " "))) }}
{{- $wrong = "is neither true nor false; write one of them" }}
{{- end }}
{{- else if eq .kind "whole" }}
{{- if not (include "megatron-dpo.isWhole" .text) }}{{ $wrong = "is no whole number; write digits only" }}{{ end }}
{{- else if not (include "megatron-dpo.isNumber" .text) }}
{{- $wrong = "is no number; write one, such as 0.1 or 5e-6" }}
{{- end }}
{{- if $wrong }}
- recipe.args.{{ .flag }}: "{{ .text }}" {{ $wrong }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.yes" -}}yes true t y 1{{- end }}

{{- define "megatron-dpo.no" -}}no false f n 0{{- end }}

{{- define "megatron-dpo.isWhole" -}}
{{ if regexMatch "^-?(0|[1-9][0-9]{0,14})$" . }}yes{{ end }}
{{- end }}

{{- define "megatron-dpo.isNumber" -}}
{{ if regexMatch "^[-+]?([0-9]{1,30}[.]?[0-9]{0,30}|[.][0-9]{1,30})([eE][-+]?[0-9]{1,2})?$" . }}yes{{ end }}
{{- end }}

{{/* Not empty where one of a rule's conditions does not hold, as launchers/rules/condition.py; takes (when, texts). */}}
{{- define "megatron-dpo.silent" -}}
{{- $texts := .texts -}}
{{- range .when }}
{{- $text := get $texts .flag }}
{{- $holds := false }}
{{- if eq .test "given" }}{{ $holds = ne $text "" }}
{{- else if eq .test "missing" }}{{ $holds = eq $text "" }}
{{- else if eq .test "on" }}{{ $holds = has (lower $text) (include "megatron-dpo.yes" . | splitList " ") }}
{{- else if eq .test "off" }}{{ $holds = has (lower $text) (include "megatron-dpo.no" . | splitList " " | concat (list "")) }}
{{- else if eq .test "has" }}{{ $holds = has (first .words) (regexSplit "\\s+" (trim $text) -1) }}
{{- else if eq .test "is" }}{{ $holds = has $text .words }}
{{- else if eq .test "isnt" }}{{ $holds = and (ne $text "") (not (has $text .words)) }}
{{- else if include "megatron-dpo.isNumber" $text }}
{{- $number := float64 $text }}
{{- $bound := first .words | float64 }}
{{- $holds = ternary (gt $number $bound) (lt $number $bound) (eq .test "over") }}
{{- end }}
{{- if not $holds }}yes{{ end }}
{{- end }}
{{- end }}
