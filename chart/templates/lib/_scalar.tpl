{{/*
One scalar as the text a program should read. Helm turns numbers into floats, whose default
spelling is 1e+06 for 1000000; whole numbers get their digits back, up to 2^53, where floats
begin to lose them: larger ones need quotes.
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
A scalar as a quoted string, a list of them, or a map as one string of JSON: left typed, YAML
readers would take its 5e-07 for a word.
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

{{/* A map of the user's as YAML without its nulls, which drop what an earlier file gave. */}}
{{- define "megatron-dpo.given" -}}
{{- $given := dict -}}
{{- range $name, $value := . }}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $given $name $value }}{{ end }}
{{- end }}
{{- with $given }}{{ toYaml . }}{{ end }}
{{- end }}
