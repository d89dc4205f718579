{{/*
The arithmetic of the parallel sizes; the same words as launchers/parallel.py, which explains it.
Takes (rules, sizes, nodes, gpus); sizes are texts.
*/}}
{{- define "megatron-dpo.validate.rules" -}}
{{- $wrong := false -}}
{{- range $flag, $size := .sizes }}
{{- if not (regexMatch "^[1-9][0-9]{0,5}$" $size) }}
{{- $wrong = true }}
- recipe.args.{{ $flag }}: "{{ $size }}" is no size; write a whole number from 1 to 999999
{{- end }}
{{- end }}
{{- if not $wrong }}
{{- range .rules }}
{{- include "megatron-dpo.validate.rule" (merge (dict "rule" .) (omit $ "rules")) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.rule" -}}
{{- $world := mul .nodes .gpus -}}
{{- $sizes := .sizes -}}
{{- $divisor := 1 -}}
{{- $spelt := list -}}
{{- range .rule.factors }}
{{- $divisor = mul $divisor (get $sizes . | int64) }}
{{- $spelt = append $spelt (printf "%s %s" . (get $sizes .)) }}
{{- end }}
{{- $factors := join " x " $spelt }}
{{- if eq .rule.total "world" }}
{{- if mod $world $divisor }}
- recipe.args: {{ $world }} processes (nodes {{ .nodes }} x gpusPerNode {{ .gpus }}) are not a multiple of {{ $factors }} = {{ $divisor }}; change the sizes, nodes or gpusPerNode
{{- end }}
{{- else }}
{{- $replica := 1 }}
{{- range .rule.replica }}
{{- $replica = mul $replica (get $sizes . | int64) }}
{{- end }}
{{- $replicas := div $world $replica }}
{{- $divisor = mul $divisor $replicas }}
{{- /* A replica that does not fit is the message of another rule. */}}
{{- if not (mod $world $replica) }}
{{- if mod (get $sizes .rule.total | int64) $divisor }}
- recipe.args.{{ .rule.total }}: {{ get $sizes .rule.total }} is not a multiple of {{ $factors }} x {{ $replicas }} replicas = {{ $divisor }}; write a multiple of {{ $divisor }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
