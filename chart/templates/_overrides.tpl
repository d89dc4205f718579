{{/*
What a recipe sets straight in the trainer's configuration, as launchers/flags/core_overrides.py: a map, which
may be spelt as JSON, under the flag that the table calls overrides.
*/}}

{{/* The map as JSON; empty where there is none. Helm's fromJson tells a fault under the key Error. */}}
{{- define "megatron-dpo.overrides" -}}
{{- if kindIs "map" . }}{{ toJson . }}
{{- else if kindIs "string" . }}
{{- $map := fromJson . }}
{{- if and (hasPrefix "{" (trim .)) (not (hasKey $map "Error")) }}{{ toJson $map }}{{ end }}
{{- end -}}
{{- end }}

{{/* The switches of the table that such a map turns on, as a JSON list. Takes (backend, map). */}}
{{- define "megatron-dpo.switched" -}}
{{- $map := include "megatron-dpo.overrides" .map | default "{}" | fromJson -}}
{{- $on := list -}}
{{- range .backend.switches }}
{{- if get $map (trimPrefix (printf "%s." $.backend.overrides) .) }}{{ $on = append $on . }}{{ end }}
{{- end -}}
{{ toJson $on }}
{{- end }}

{{/* The keys of such a map, as a JSON list. */}}
{{- define "megatron-dpo.keys" -}}
{{ include "megatron-dpo.overrides" . | default "{}" | fromJson | keys | sortAlpha | toJson }}
{{- end }}

{{/* That it is a map, and no switch in it a text. Takes (flag, map). */}}
{{- define "megatron-dpo.validate.overrides" -}}
{{- $map := include "megatron-dpo.overrides" .map -}}
{{- if not (has (toJson .map) (list "null" "\"\"" "[]" "[\"\"]")) }}
{{- if not $map }}
- recipe.args.{{ .flag }}: "{{ include "megatron-dpo.words" .map }}" is no map; write key: value lines below it, or a JSON object
{{- else }}
{{- range $key, $value := fromJson $map }}
{{- if and (kindIs "string" $value) (has (toString $value | lower) (list "true" "false" "yes" "no" "on" "off")) }}
- recipe.args.{{ $.flag }}.{{ $key }}: "{{ $value }}" is a text, which megatron-core takes for true; write true or false without quotes
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
