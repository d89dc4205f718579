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
{{- else if regexMatch "(?i)(secret|token|passw|credential|auth|key)[^.]*$" .path -}}
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
{{- $items := $schema.items | default dict -}}
{{- if $items.ref }}{{ $items = get ($.defs | default dict) $items.ref | default dict }}{{ end -}}
{{- if and $items.properties (not (eq .type "string")) -}}
use a list of maps with keys such as {{ printf "%s," (keys $items.properties | sortAlpha | join ", ") | trunc 120 | regexFind "^.*," | trimSuffix "," }}
{{- else -}}
use a list, such as {{ ternary (printf "[%s]" (include "megatron-dpo.schema.shown" .)) "[a, b]" (and (eq .type "string") (not (has "object" $types)) (ne (include "megatron-dpo.schema.shown" .) "the value")) }}
{{- end }}
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
