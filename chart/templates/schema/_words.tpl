{{/* One mistake that the schema finds, as a line. Takes (rule, schema, value, path, type, quiet; key and for of some rules). */}}
{{- define "megatron-dpo.schema.wrong" -}}
{{- if .quiet -}}
x
{{- else }}
{{ include (printf "megatron-dpo.schema.wrong.%s" .rule) . | trim }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.schema.wrong.type" -}}
{{- $types := .schema.type -}}
{{- $isSize := hasPrefix "use a quantity" (get .schema "errorMessage" | toString) -}}
{{- $bytes := include "megatron-dpo.validate.amount" (dict "path" .path "name" "memory" "amount" (ternary .value nil (and $isSize (eq .type "number")))) | trim }}
{{- /* Quotes alone do not make a size of true or -5. */}}
{{- $isQuotable := or (not $isSize) (regexMatch "^[1-9][0-9]{0,14}$" (toJson .value)) }}
{{- if $bytes }}
{{ $bytes }}
{{- else if and $isQuotable (eq .type "number") (has "string" $types) }}
- {{ .path }}: a number ({{ toJson .value }} as YAML reads it), and a text is required; quote it as it was written (--set-string in a command) [number-unquoted]
{{- else if and $isQuotable (eq .type "boolean") (has "string" $types) (not (has "number" $types)) }}
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
{{- range $words }}{{ if has (lower .) (list (lower $value) (lower $value | trimPrefix "cap_")) }}{{ $same = . }}{{ end }}{{ end -}}
{{- $near := "" -}}
{{- if and (not $same) (eq .type "string") }}{{ $near = include "megatron-dpo.nearest" (dict "word" (snakecase $value) "known" $words) }}{{ end }}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is not one of its choices; {{ if $same }}use {{ $same }} ({{ end }}{{ if $near }}the nearest is {{ $near }} ({{ end }}{{ include "megatron-dpo.schema.use" . | trimPrefix (ternary "use " "-" (ne (print $same $near) "")) }}{{ if or $same $near }}){{ end }} [value-choice]
{{- end }}

{{- define "megatron-dpo.schema.wrong.const" -}}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is not possible here; {{ include "megatron-dpo.schema.use" . }} [value-choice]
{{- end }}

{{- define "megatron-dpo.schema.wrong.range" -}}
- {{ .path }}: {{ include "megatron-dpo.schema.shown" . }} is out of range; {{ with .schema.errorMessage }}{{ . }}{{ else }}use a {{ ternary "whole " "" (or (has "integer" (.schema.type | default list)) (hasKey .schema "multipleOf")) }}number{{ include "megatron-dpo.schema.bounds" .schema }}{{ end }} [value-range]
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
- {{ include "megatron-dpo.schema.path" (list .path .key) }}: missing, and required{{ with .for }} with {{ . }}{{ end }}; set it [value-missing]
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
- {{ include "megatron-dpo.schema.path" (list .path .key) }}: {{ trunc 80 .key | printf "%+q" }} is not accepted as a name; {{ if or $names.errorMessage $names.enum }}{{ include "megatron-dpo.schema.use" (dict "schema" $names) }}{{ else }}use letters, digits and -{{ end }} [value-name]
{{- end }}

{{- define "megatron-dpo.schema.wrong.one" -}}
{{- $fields := list -}}
{{- range .schema.oneOf }}{{ if .required }}{{ $fields = append $fields (first .required) }}{{ end }}{{ end -}}
{{- /* A map with the keys that it must have and one more, such as a volume's name and its source. */}}
{{- if not $fields }}{{ range keys (.schema.properties | default dict) | sortAlpha }}{{ if not (has . ($.schema.required | default list)) }}{{ $fields = append $fields . }}{{ end }}{{ end }}{{ end -}}
{{- $set := list -}}
{{- range $fields }}{{ if hasKey $.value . }}{{ $set = append $set . }}{{ end }}{{ end -}}
- {{ .path }}: {{ if $set }}sets {{ join " and " $set }}{{ else }}sets none{{ if .schema.errorMessage }} of {{ join ", " $fields }}{{ end }}{{ end }}; {{ .schema.errorMessage | default (printf "set exactly one of %s" (join ", " $fields)) }} [value-one]
{{- end }}
