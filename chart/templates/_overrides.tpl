{{/*
What a recipe sets straight in the trainer's configuration: a map, which may be spelt as JSON, under
the flag that the table calls overrides.
*/}}

{{/* The switches of the table that such a map turns on, as a JSON list. Takes (backend, map). */}}
{{- define "megatron-dpo.switched" -}}
{{- $map := .map -}}
{{- if kindIs "string" $map }}{{ $map = fromJson $map }}{{ end -}}
{{- $on := list -}}
{{- if kindIs "map" $map }}
{{- range .backend.switches }}
{{- $value := get $map (trimPrefix (printf "%s." $.backend.overrides) .) }}
{{- if and (kindIs "bool" $value) $value }}{{ $on = append $on . }}{{ end }}
{{- end }}
{{- end -}}
{{ toJson $on }}
{{- end }}

{{/* The keys of such a map, as a JSON list. */}}
{{- define "megatron-dpo.keys" -}}
{{- $map := . -}}
{{- if kindIs "string" . }}{{ $map = fromJson . }}{{ end -}}
{{- if kindIs "map" $map }}{{ keys $map | sortAlpha | toJson }}{{ else }}[]{{ end -}}
{{- end }}
