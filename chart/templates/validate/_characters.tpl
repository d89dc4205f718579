{{/*
Characters that YAML does not allow (yaml.org/spec/1.2.2, 5.1): Helm's toYaml would print nothing for a map that
holds one. Those below 0x20 are harmless, since JSON escapes them.
*/}}
{{- define "megatron-dpo.validate.characters" -}}
{{- $values := .Values -}}
{{- $never := "[\\x7f-\\x84\\x86-\\x9f\\x{feff}\\x{fffe}\\x{ffff}]" -}}
{{- $blank := "[\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200f}\\x{202f}\\x{205f}\\x{2060}\\x{3000}]|\\\\u202[89]|[\\x{2028}\\x{2029}]" -}}
{{- range $key := keys $values | sortAlpha }}
{{- $json := get $values $key | toJson }}
{{- $ids := dict }}
{{- if regexMatch $never $json }}{{ $_ := set $ids "character" $never }}{{ end }}
{{- /* Flags and variables may hold prose. */}}
{{- if and (not (has $key (list "extraEnv" "podAnnotations" "global"))) (regexMatch $blank $json) }}{{ $_ := set $ids "character-blank" $blank }}{{ end }}
{{- range $id, $form := $ids }}
{{- include "megatron-dpo.validate.characters.below" (dict "path" $key "value" (get $values $key) "form" $form "id" $id) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Names each text that holds such a character. Takes (path, value, form, id). */}}
{{- define "megatron-dpo.validate.characters.below" -}}
{{- $at := . -}}
{{- $pass := pick . "form" "id" -}}
{{- if kindIs "map" .value }}
{{- range $key, $value := .value }}
{{- $path := include "megatron-dpo.path" (list $at.path $key) }}
{{- with regexFind $at.form $key }}
{{- include "megatron-dpo.validate.character" (dict "path" $at.path "found" . "id" $at.id) }}
{{- end }}
{{- if not (and (eq $path "recipe.args") (eq $at.id "character-blank")) }}
{{- include "megatron-dpo.validate.characters.below" (merge (dict "path" $path "value" $value) $pass) }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $position, $value := .value }}
{{- include "megatron-dpo.validate.characters.below" (merge (dict "path" (printf "%s[%d]" $at.path $position) "value" $value) $pass) }}
{{- end }}
{{- else if kindIs "string" .value }}
{{- with regexFind $at.form .value }}
{{- include "megatron-dpo.validate.character" (dict "path" $at.path "found" . "id" $at.id) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.character" -}}
{{- if eq .id "character" }}
- {{ .path }}: holds the character {{ .found | quote }}, which YAML does not allow; remove it [character]
{{- else }}
- {{ .path }}: holds a blank or an invisible character beyond ASCII, {{ printf "%+q" .found }}; replace it [character-blank]
{{- end }}
{{- end }}

{{/* A path with one more key; a key that is not a plain word is quoted. Takes a list (path, key). */}}
{{- define "megatron-dpo.path" -}}
{{- $key := last . -}}
{{- $shown := ternary $key (trunc 60 $key | printf "[%+q]") (regexMatch "^[A-Za-z0-9_./-]{1,200}$" $key) -}}
{{- trimPrefix "." (printf "%s%s%s" (first .) (ternary "" "." (hasPrefix "[" $shown)) $shown) -}}
{{- end }}
