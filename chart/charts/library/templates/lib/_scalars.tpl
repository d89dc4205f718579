{{/*
One scalar as text. Helm turns numbers into floats and prints 1000000 as 1e+06; whole numbers are printed with all
digits up to 2^53, above which floats lose digits: quote those.
*/}}
{{- define "megatron-dpo.scalar" -}}
{{- $text := toString . -}}
{{- if or (kindIs "float64" .) (typeIs "json.Number" .) -}}
{{- $number := float64 $text -}}
{{- if and (eq $number (floor $number)) (le $number 9007199254740992.0) (ge $number -9007199254740992.0) -}}
{{- $text = printf "%.0f" $number -}}
{{- else -}}
{{- $text = toString $number -}}
{{- end -}}
{{- end -}}
{{- $text -}}
{{- end }}

{{/*
A scalar as a quoted string, a list of quoted strings, or a map as one string of JSON: unquoted, some YAML
parsers would read 5e-07 as a string.
*/}}
{{- define "megatron-dpo.quoted" -}}
{{- if kindIs "map" . -}}
{{ toJson . | quote }}
{{- else if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . }}{{- $items = append $items (include "megatron-dpo.scalar" . | quote) }}{{- end -}}
[{{ join ", " $items }}]
{{- else -}}
{{ include "megatron-dpo.scalar" . | quote }}
{{- end -}}
{{- end }}

{{/* Remove the keys of a map that are null, at any depth: Kubernetes' schemas have no null. Changes the map. */}}
{{- define "megatron-dpo.unsetNulls" -}}
{{- $node := . -}}
{{- if kindIs "map" . }}
{{- range $key, $value := . }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $node $key }}{{ else }}{{ include "megatron-dpo.unsetNulls" $value }}{{ end }}
{{- end }}
{{- else if kindIs "slice" . }}
{{- range . }}{{ include "megatron-dpo.unsetNulls" . }}{{ end }}
{{- end }}
{{- end }}

{{/* A map as YAML without its nulls, which remove entries of an earlier values file. */}}
{{- define "megatron-dpo.withoutNulls" -}}
{{- $given := dict -}}
{{- range $name, $value := . }}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $given $name $value }}{{ end }}
{{- end }}
{{- with $given }}{{ toYaml . }}{{ end }}
{{- end }}
