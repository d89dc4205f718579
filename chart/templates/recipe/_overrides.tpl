{{/*
The map that a recipe sets directly in megatron-core's configuration, as JSON. It may be given as a map or as JSON
text; empty if it is neither. Helm's fromJson reports an error under the key Error.
*/}}
{{- define "megatron-dpo.overrides.map" -}}
{{- if kindIs "map" . }}{{ toJson . }}
{{- else if kindIs "string" . }}
{{- $map := fromJson . }}
{{- if and (hasPrefix "{" (trim .)) (not (hasKey $map "Error")) }}{{ toJson $map }}{{ end }}
{{- end -}}
{{- end }}

{{/* Keys of such a map, as a JSON list: rules that read a flag of that name do not apply. */}}
{{- define "megatron-dpo.overrides.keys" -}}
{{ include "megatron-dpo.overrides.map" . | default "{}" | fromJson | keys | sortAlpha | toJson }}
{{- end }}

{{/*
Refuse anything but a map, fields of it that are flags of ms-swift, and text in it that means true or false.
Takes (flag, map, not): not lists those fields.
*/}}
{{- define "megatron-dpo.validate.overrides" -}}
{{- $map := include "megatron-dpo.overrides.map" .map -}}
{{- if not (has (toJson .map) (list "null" "\"\"" "[]" "[\"\"]")) }}
{{- if not $map }}
- recipe.args.{{ .flag }}: "{{ include "megatron-dpo.flagText" .map }}" is not a map; use key: value lines below it or a JSON object [overrides-map]
{{- else }}
{{- range $key, $value := fromJson $map }}
{{- if has $key $.not }}
- recipe.args.{{ $.flag }}.{{ $key }}: would differ from the process groups, which are made from the flag; set recipe.args.{{ $key }} [overrides-parallel]
{{- end }}
{{- if and (kindIs "string" $value) (has (toString $value | lower) (list "true" "false" "yes" "no" "on" "off")) }}
- recipe.args.{{ $.flag }}.{{ $key }}: "{{ $value }}" is a string, which megatron-core treats as true; use true or false without quotes [overrides-text]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
