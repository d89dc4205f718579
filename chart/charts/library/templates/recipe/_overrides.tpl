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
