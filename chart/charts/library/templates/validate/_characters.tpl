{{/*
Characters that YAML does not allow (yaml.org/spec/1.2.2, 5.1): Helm's toYaml would print nothing for a map that
holds one. Those below 0x20 are harmless, since JSON escapes them.
*/}}
{{- define "megatron-dpo.validate.characters" -}}
{{- $form := "[\\x7f-\\x84\\x86-\\x9f\\x{feff}\\x{fffe}\\x{ffff}]" -}}
{{- if regexMatch $form (toJson .Values) }}
{{- include "megatron-dpo.validate.characters.below" (dict "path" "" "value" .Values "form" $form) }}
{{- end }}
{{- end }}

{{/* Names each text that holds such a character. Takes (path, value, form). */}}
{{- define "megatron-dpo.validate.characters.below" -}}
{{- $at := . -}}
{{- $texts := list -}}
{{- if kindIs "map" .value }}
{{- $texts = keys .value | sortAlpha }}
{{- range $key, $value := .value }}
{{- include "megatron-dpo.validate.characters.below" (dict "path" (include "megatron-dpo.path" (list $at.path $key)) "value" $value "form" $at.form) }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $position, $value := .value }}
{{- include "megatron-dpo.validate.characters.below" (dict "path" (printf "%s[%d]" $at.path $position) "value" $value "form" $at.form) }}
{{- end }}
{{- else if kindIs "string" .value }}
{{- $texts = list .value }}
{{- end }}
{{- range $texts }}
{{- with regexFind $at.form . }}
- {{ $at.path }}: holds the character {{ . | quote }}, which YAML does not allow; remove it [character]
{{- end }}
{{- end }}
{{- end }}

{{/* A path with one more key; a key that is not a plain word is quoted. Takes a list (path, key). */}}
{{- define "megatron-dpo.path" -}}
{{- $key := last . -}}
{{- $shown := ternary $key (trunc 60 $key | printf "[%+q]") (regexMatch "^[A-Za-z0-9_./-]{1,200}$" $key) -}}
{{- trimPrefix "." (printf "%s%s%s" (first .) (ternary "" "." (hasPrefix "[" $shown)) $shown) -}}
{{- end }}
