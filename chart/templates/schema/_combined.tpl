{{/* allOf, anyOf, oneOf, not, if. An anyOf without errorMessage prints the mistakes of its last schema. */}}
{{- define "megatron-dpo.schema.combined" -}}
{{- $schema := .schema -}}
{{- $defs := .defs -}}
{{- $value := .value -}}
{{- $path := .path -}}
{{- $quiet := .quiet -}}
{{- $at := . -}}
{{- range $schema.allOf }}
{{- include "megatron-dpo.schema" (dict "schema" . "quiet" $quiet "defs" $defs "value" $value "path" $path) }}
{{- end }}
{{- if $schema.anyOf }}
{{- $isAny := false }}
{{- range $schema.anyOf }}
{{- if not $isAny }}{{ $isAny = not (include "megatron-dpo.schema" (dict "schema" . "quiet" true "defs" $defs "value" $value "path" $path)) }}{{ end }}
{{- end }}
{{- if not $isAny }}
{{- if $schema.errorMessage }}
{{- include "megatron-dpo.schema.wrong" (set $at "rule" "form") }}
{{- else }}
{{- include "megatron-dpo.schema" (dict "schema" (last $schema.anyOf) "quiet" $quiet "defs" $defs "value" $value "path" $path) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $schema.oneOf }}
{{- $count := 0 }}
{{- range $schema.oneOf }}
{{- if not (include "megatron-dpo.schema" (dict "schema" . "quiet" true "defs" $defs "value" $value "path" $path)) }}{{ $count = add1 $count }}{{ end }}
{{- end }}
{{- if ne (int $count) 1 }}{{ include "megatron-dpo.schema.wrong" (set $at "rule" "one") }}{{ end }}
{{- end }}
{{- if hasKey $schema "not" }}
{{- if not (include "megatron-dpo.schema" (dict "schema" $schema.not "quiet" true "defs" $defs "value" $value "path" $path)) }}
{{- include "megatron-dpo.schema.wrong" (set $at "rule" "not") }}
{{- end }}
{{- end }}
{{- if hasKey $schema "if" }}
{{- $branch := ternary "else" "then" (ne (include "megatron-dpo.schema" (dict "schema" $schema.if "quiet" true "defs" $defs "value" $value "path" $path)) "") }}
{{- if hasKey $schema $branch }}
{{- include "megatron-dpo.schema" (dict "schema" (get $schema $branch) "quiet" $quiet "defs" $defs "value" $value "path" $path) }}
{{- end }}
{{- end }}
{{- end }}
