{{/*
values.schema.json, as JSON schema (draft-07) defines it: prints one line per mistake. Helm itself does not read the
schema (.helmignore), since it ends at its errors and shows no other mistake. Takes (defs: schema.json, schema, value,
path, quiet: whether to print x instead of a line).
*/}}
{{- define "megatron-dpo.schema" -}}
{{- $defs := .defs -}}
{{- $quiet := .quiet -}}
{{- $path := .path -}}
{{- $value := .value -}}
{{- $schema := .schema -}}
{{- if $schema.ref }}{{ $schema = get $defs $schema.ref }}{{ end -}}
{{- if $schema.ref }}{{ $schema = get $defs $schema.ref }}{{ end -}}
{{- $kind := kindOf $value -}}
{{- $type := "number" -}}
{{- if eq $kind "map" }}{{ $type = "object" }}{{ else if eq $kind "slice" }}{{ $type = "array" }}
{{- else if eq $kind "bool" }}{{ $type = "boolean" }}{{ else if eq $kind "invalid" }}{{ $type = "null" }}
{{- else if and (eq $kind "string") (not (typeIs "json.Number" $value)) }}{{ $type = "string" }}{{ end -}}
{{- $isWhole := false -}}
{{- if eq $type "number" }}{{ $isWhole = eq (float64 (toString $value)) (floor (toString $value | float64)) }}{{ end -}}
{{- $at := dict "defs" $defs "schema" $schema "value" $value "path" $path "quiet" $quiet "type" $type -}}
{{- if and $schema.type (not (has $type $schema.type)) (not (and $isWhole (has "integer" $schema.type))) }}
{{- include "megatron-dpo.schema.wrong" (set $at "rule" "type") }}
{{- else }}
{{- if hasKey $schema "enum" }}
{{- $json := toJson $value }}
{{- $isIn := false }}
{{- range $schema.enum }}{{ if eq (toJson .) $json }}{{ $isIn = true }}{{ end }}{{ end }}
{{- if not $isIn }}{{ include "megatron-dpo.schema.wrong" (set $at "rule" "enum") }}{{ end }}
{{- end }}
{{- if and (hasKey $schema "const") (ne (toJson $schema.const) (toJson $value)) }}
{{- include "megatron-dpo.schema.wrong" (set $at "rule" "const") }}
{{- end }}
{{- if eq $type "string" }}
{{- if or $schema.pattern $schema.minLength $schema.maxLength }}{{ include "megatron-dpo.schema.text" $at }}{{ end }}
{{- else if eq $type "number" }}
{{- $number := float64 (toString $value) }}
{{- $isLow := or (and (hasKey $schema "minimum") (lt $number (float64 $schema.minimum))) (and (hasKey $schema "exclusiveMinimum") (le $number (float64 $schema.exclusiveMinimum))) }}
{{- if or $isLow (and (hasKey $schema "maximum") (gt $number (float64 $schema.maximum))) (and $schema.multipleOf (not $isWhole)) }}
{{- include "megatron-dpo.schema.wrong" (set $at "rule" "range") }}
{{- end }}
{{- else if eq $type "array" }}
{{- include "megatron-dpo.schema.list" $at }}
{{- else if eq $type "object" }}
{{- include "megatron-dpo.schema.map" $at }}
{{- end }}
{{- if or $schema.allOf $schema.anyOf $schema.oneOf $schema.not (hasKey $schema "if") }}
{{- include "megatron-dpo.schema.combined" $at }}
{{- end }}
{{- end }}
{{- end }}

{{/* Length and form of a text. */}}
{{- define "megatron-dpo.schema.text" -}}
{{- $schema := .schema -}}
{{- $isWrong := false -}}
{{- if $schema.pattern }}{{ $isWrong = not (regexMatch $schema.pattern .value) }}{{ end -}}
{{- if and $schema.minLength (lt (len .value) (int $schema.minLength)) }}{{ $isWrong = true }}{{ end -}}
{{- if $schema.maxLength }}{{ if gt (len .value) (int $schema.maxLength) }}
{{- if gt (splitList "" .value | len) (int $schema.maxLength) }}{{ $isWrong = true }}{{ end }}
{{- end }}{{ end -}}
{{- if $isWrong }}{{ include "megatron-dpo.schema.wrong" (set . "rule" "form") }}{{ end }}
{{- end }}

{{/* Number of items, equal ones, and each item. */}}
{{- define "megatron-dpo.schema.list" -}}
{{- $at := . -}}
{{- $schema := .schema -}}
{{- $count := len .value -}}
{{- if or (lt $count (int $schema.minItems)) (and (hasKey $schema "maxItems") (gt $count (int $schema.maxItems))) }}
{{- include "megatron-dpo.schema.wrong" (set . "rule" "count") }}
{{- end }}
{{- if and $schema.uniqueItems (ne $count (uniq .value | len)) }}
{{- include "megatron-dpo.schema.wrong" (set . "rule" "twice") }}
{{- end }}
{{- if $schema.items }}
{{- range $position, $item := .value }}
{{- include "megatron-dpo.schema" (dict "defs" $at.defs "quiet" $at.quiet "schema" $schema.items "value" $item "path" (printf "%s[%d]" $at.path $position)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Keys of a map: which it must have, their names, and the value of each. */}}
{{- define "megatron-dpo.schema.map" -}}
{{- $at := . -}}
{{- $schema := .schema -}}
{{- $value := .value -}}
{{- $properties := $schema.properties | default dict -}}
{{- $isClosed := and (hasKey $schema "additionalProperties") (kindIs "bool" $schema.additionalProperties) -}}
{{- $isMissing := false }}
{{- range $schema.required }}
{{- if not (hasKey $value .) }}{{ $isMissing = true }}{{ include "megatron-dpo.schema.wrong" (set (set $at "rule" "missing") "key" .) }}{{ end }}
{{- end }}
{{- if and (not $isMissing) (or (lt (len $value) (int $schema.minProperties)) (and (hasKey $schema "maxProperties") (gt (len $value) (int $schema.maxProperties)))) }}
{{- include "megatron-dpo.schema.wrong" (set . "rule" "one") }}
{{- end }}
{{- range $key, $child := $value }}
{{- $path := printf "%s.%s" $at.path $key }}
{{- if hasKey $properties $key }}
{{- with get $properties $key }}{{ include "megatron-dpo.schema" (dict "schema" . "defs" $at.defs "quiet" $at.quiet "value" $child "path" $path) }}{{ end }}
{{- else if $isClosed }}
{{- include "megatron-dpo.schema.wrong" (set (set $at "rule" "unknown") "key" $key) }}
{{- else if $schema.additionalProperties }}
{{- include "megatron-dpo.schema" (dict "schema" $schema.additionalProperties "defs" $at.defs "quiet" $at.quiet "value" $child "path" (include "megatron-dpo.schema.path" (list $at.path $key))) }}
{{- end }}
{{- if $schema.propertyNames }}
{{- if include "megatron-dpo.schema" (dict "defs" $at.defs "quiet" true "schema" $schema.propertyNames "value" $key "path" $path) }}
{{- include "megatron-dpo.schema.wrong" (set (set $at "rule" "name") "key" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $needed := $schema.dependencies }}
{{- if hasKey $value $key }}
{{- if kindIs "map" $needed }}
{{- include "megatron-dpo.schema" (dict "schema" $needed "defs" $at.defs "quiet" $at.quiet "value" $value "path" $at.path) }}
{{- else }}
{{- range $needed }}
{{- if not (hasKey $value .) }}{{ include "megatron-dpo.schema.wrong" (set (set (set $at "rule" "missing") "key" .) "for" $key) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
