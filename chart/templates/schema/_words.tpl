{{/* One mistake that the schema finds, as a line. Takes (rule, schema, value, path, type, quiet; key and for of some rules). */}}
{{- define "megatron-dpo.schema.wrong" -}}
{{- if .quiet -}}
x
{{- else }}
{{ include (printf "megatron-dpo.schema.wrong.%s" .rule) . | trim }}
{{- end }}
{{- end }}

{{/* A path with one more key; a key that is not a plain word is quoted. Takes a list (path, key). */}}
{{- define "megatron-dpo.schema.path" -}}
{{- $key := last . -}}
{{- $shown := ternary $key (trunc 60 $key | printf "[%+q]") (regexMatch "^[A-Za-z0-9_./-]{1,200}$" $key) -}}
{{- trimPrefix "." (printf "%s%s%s" (first .) (ternary "" "." (hasPrefix "[" $shown)) $shown) -}}
{{- end }}

{{/* A value as a message shows it; not one that may be a secret, by its path. Takes (value, path). */}}
{{- define "megatron-dpo.schema.shown" -}}
{{- if kindIs "map" .value -}}
a map
{{- else if kindIs "slice" .value -}}
a list
{{- else if kindIs "invalid" .value -}}
null
{{- else if regexMatch "(?i)secret|token|passw|credential|auth|key[^.]*$" .path -}}
the value
{{- else if kindIs "string" .value -}}
{{ trunc 80 (toString .value) | printf "%+q" }}{{ if gt (len (toString .value)) 80 }}...{{ end }}
{{- else -}}
{{ toJson .value }}
{{- end }}
{{- end }}

{{/* What to write: the schema's own words, or what its rules say. Takes the same as megatron-dpo.schema.wrong. */}}
{{- define "megatron-dpo.schema.use" -}}
{{- $schema := .schema -}}
{{- $types := without ($schema.type | default list) "null" -}}
{{- if $schema.errorMessage -}}
{{ $schema.errorMessage }}
{{- else if $schema.enum -}}
{{- $words := list -}}
{{- range $schema.enum }}{{ if not (kindIs "invalid" .) }}{{ $words = append $words (ternary "\"\"" (toString .) (eq (toString .) "")) }}{{ end }}{{ end -}}
use {{ if gt (len $words) 1 }}one of {{ end }}{{ join ", " $words }}
{{- else if hasKey $schema "const" -}}
use {{ $schema.const }}
{{- else if or (has "integer" $types) (and (has "number" $types) (not (has "string" $types))) -}}
use a {{ ternary "whole " "" (or (has "integer" $types) (hasKey $schema "multipleOf")) }}number{{ include "megatron-dpo.schema.bounds" $schema }}
{{- else if has "string" $types -}}
use a text{{ if $schema.maxLength }} of at most {{ $schema.maxLength }} characters{{ end }}
{{- else if has "boolean" $types -}}
use true or false
{{- else if has "array" $types -}}
use a list, such as [a, b]
{{- else if $schema.properties -}}
use a map with {{ if gt (len $schema.properties) 1 }}keys such as {{ end }}{{ keys $schema.properties | sortAlpha | join ", " | trunc 120 }}
{{- else -}}
use a map, such as {a: b}
{{- end }}
{{- end }}

{{/* Bounds of a number, as text. Takes a schema. */}}
{{- define "megatron-dpo.schema.bounds" -}}
{{- $most := "" -}}
{{- if hasKey . "maximum" }}{{ $most = include "megatron-dpo.scalar" .maximum }}{{ end -}}
{{- if hasKey . "exclusiveMinimum" }} above {{ include "megatron-dpo.scalar" .exclusiveMinimum }}{{ with $most }} and up to {{ . }}{{ end }}
{{- else if hasKey . "minimum" }}{{ if $most }} from {{ include "megatron-dpo.scalar" .minimum }} to {{ $most }}{{ else }} of {{ include "megatron-dpo.scalar" .minimum }} or more{{ end }}
{{- else if $most }} of at most {{ $most }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.schema.wrong.type" -}}
{{- $types := .schema.type -}}
{{- if and (eq .type "number") (has "string" $types) }}
- {{ .path }}: a number ({{ toJson .value }} as YAML reads it), and a text is required; quote it as it was written (--set-string in a command) [number-unquoted]
{{- else if and (eq .type "boolean") (has "string" $types) }}
- {{ .path }}: {{ toJson .value }} is a boolean, as YAML reads it, and a text is required; quote it as it was written [boolean-unquoted]
{{- else if and (eq .type "string") (has "boolean" $types) (has (lower .value) (list "true" "false" "yes" "no" "on" "off")) }}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is a text; remove the quotes and write {{ ternary "true" "false" (has (lower .value) (list "true" "yes" "on")) }} [value-quoted]
{{- else if and (eq .type "string") (or (has "integer" $types) (has "number" $types)) (regexMatch "^-?[0-9]{1,15}$" .value) }}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is a text; remove the quotes [value-quoted]
{{- else }}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }}{{ if has .type (list "string" "number" "boolean") }} is a {{ ternary "text" .type (eq .type "string") }}{{ end }}, where {{ include "megatron-dpo.schema.type" $types }} is required; {{ include "megatron-dpo.schema.use" . }} [value-type]
{{- end }}
{{- end }}

{{/* Types as words. Takes a list. */}}
{{- define "megatron-dpo.schema.type" -}}
{{- $words := dict "object" "a map" "array" "a list" "string" "a text" "boolean" "true or false" "integer" "a whole number" "number" "a number" -}}
{{- $found := list -}}
{{- range without . "null" }}{{ $found = append $found (get $words .) }}{{ end -}}
{{- join " or " $found -}}
{{- end }}

{{- define "megatron-dpo.schema.wrong.enum" -}}
{{- $value := toString .value -}}
{{- $words := list -}}
{{- range .schema.enum }}{{ if kindIs "string" . }}{{ $words = append $words . }}{{ end }}{{ end -}}
{{- $same := "" -}}
{{- range $words }}{{ if eq (lower .) (lower $value) }}{{ $same = . }}{{ end }}{{ end -}}
{{- $near := "" -}}
{{- if and (not $same) (eq .type "string") }}{{ $near = include "megatron-dpo.nearest" (dict "word" (snakecase $value) "known" $words) }}{{ end }}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is not one of its choices; {{ if $same }}use {{ $same }} ({{ end }}{{ if $near }}the nearest is {{ $near }} ({{ end }}{{ include "megatron-dpo.schema.use" . | trimPrefix (ternary "use " "-" (ne (print $same $near) "")) }}{{ if or $same $near }}){{ end }} [value-choice]
{{- end }}

{{- define "megatron-dpo.schema.wrong.const" -}}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is not possible here; {{ include "megatron-dpo.schema.use" . }} [value-choice]
{{- end }}

{{- define "megatron-dpo.schema.wrong.range" -}}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is out of range; use a {{ ternary "whole " "" (or (has "integer" (.schema.type | default list)) (hasKey .schema "multipleOf")) }}number{{ include "megatron-dpo.schema.bounds" .schema }} [value-range]
{{- end }}

{{- define "megatron-dpo.schema.wrong.form" -}}
{{- $isLong := and .schema.maxLength (kindIs "string" .value) }}
{{- if $isLong }}{{ $isLong = gt (len .value) (int .schema.maxLength) }}{{ end }}
{{- if eq (toString .value) "" }}
- {{ .path }}: empty; {{ include "megatron-dpo.schema.use" . }} [value-form]
{{- else if $isLong }}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} has {{ len .value }} characters, of at most {{ .schema.maxLength }}; shorten it [value-form]
{{- else }}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is not accepted; {{ include "megatron-dpo.schema.use" . }} [value-form]
{{- end }}
{{- end }}

{{- define "megatron-dpo.schema.wrong.not" -}}
{{- $refused := .schema.not.required -}}
{{- if $refused }}
- {{ include "megatron-dpo.schema.path" (list .path (first $refused)) }}: not possible here; {{ .schema.errorMessage | default "remove it" }} [value-excluded]
{{- else }}
{{- include "megatron-dpo.schema.wrong.form" . }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.schema.wrong.count" -}}
{{- $least := int .schema.minItems -}}
{{- $count := len .value -}}
- {{ .path }}: {{ if $count }}{{ $count }} items{{ else }}an empty list{{ end }}; {{ with .schema.errorMessage }}{{ . }}{{ else }}use {{ if hasKey .schema "maxItems" }}at most {{ .schema.maxItems }}{{ else }}at least {{ $least }}{{ end }}{{ end }} [value-count]
{{- end }}

{{- define "megatron-dpo.schema.wrong.twice" -}}
- {{ .path }}: the same item is there twice; remove one [value-twice]
{{- end }}

{{- define "megatron-dpo.schema.wrong.missing" -}}
- {{ include "megatron-dpo.schema.path" (list .path .key) }}: missing, and required {{ if .for }}with {{ .for }}{{ else if .path }}in {{ .path }}{{ end }}; set it [value-missing]
{{- end }}

{{- define "megatron-dpo.schema.wrong.unknown" -}}
{{- $known := keys (.schema.properties | default dict) | sortAlpha -}}
{{- $near := "" -}}
{{- range $known }}{{ if eq (lower .) (lower $.key) }}{{ $near = . }}{{ end }}{{ end -}}
{{- if not $near }}{{ $near = include "megatron-dpo.nearest" (dict "word" (snakecase .key) "known" $known) }}{{ end -}}
- {{ include "megatron-dpo.schema.path" (list .path .key) }}: not a key of {{ .path }}; {{ if $near }}the nearest is {{ $near }}{{ else if le (len $known) 16 }}remove it, or use one of {{ join ", " $known }}{{ else }}remove it{{ end }} [key-unknown]
{{- end }}

{{- define "megatron-dpo.schema.wrong.name" -}}
{{- $names := .schema.propertyNames -}}
{{- if $names.ref }}{{ $names = get .defs $names.ref }}{{ end -}}
- {{ include "megatron-dpo.schema.path" (list .path .key) }}: {{ trunc 80 .key | printf "%+q" }} is not accepted as a name; {{ $names.errorMessage | default "use letters, digits and -" }} [value-name]
{{- end }}

{{- define "megatron-dpo.schema.wrong.one" -}}
{{- $fields := list -}}
{{- range .schema.oneOf }}{{ if .required }}{{ $fields = append $fields (first .required) }}{{ end }}{{ end -}}
{{- if not $fields }}{{ $fields = keys (.schema.properties | default dict) | sortAlpha }}{{ end -}}
{{- $set := list -}}
{{- range $fields }}{{ if hasKey $.value . }}{{ $set = append $set . }}{{ end }}{{ end -}}
- {{ .path }}: {{ if $set }}sets {{ join " and " $set }}{{ else }}sets none of {{ join ", " $fields }}{{ end }}; {{ .schema.errorMessage | default (printf "set exactly one of %s" (join ", " $fields)) }} [value-one]
{{- end }}
