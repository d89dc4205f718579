{{/* A total that must be a multiple of a product, as launchers/rules/engine.py:Multiple; takes (rule, facts). */}}
{{- define "megatron-dpo.validate.multiple" -}}
{{- $facts := .facts -}}
{{- $rule := .rule -}}
{{- $sized := true -}}
{{- range concat $rule.factors ($rule.replica | default list) (list $rule.total) }}
{{- if not (or (eq . "world") (regexMatch "^[1-9][0-9]{0,5}$" (get $facts.texts .))) }}{{ $sized = false }}{{ end }}
{{- end }}
{{- if $sized }}
{{- $divisor := 1 }}
{{- $spelt := list }}
{{- range $rule.factors }}
{{- $divisor = mul $divisor (get $facts.texts . | int64) }}
{{- $spelt = append $spelt (printf "%s %s" . (get $facts.texts .)) }}
{{- end }}
{{- $factors := join " x " $spelt }}
{{- if eq $rule.total "world" }}
{{- if mod $facts.world $divisor }}
- recipe.args: {{ $facts.world }} processes (nodes {{ $facts.nodes }} x gpusPerNode {{ $facts.gpus }}) are not a multiple of {{ $factors }} = {{ $divisor }}; change the sizes, nodes or gpusPerNode
{{- end }}
{{- else }}
{{- $replica := 1 }}
{{- range $rule.replica }}{{ $replica = mul $replica (get $facts.texts . | int64) }}{{ end }}
{{- $replicas := div $facts.world $replica }}
{{- $divisor = mul $divisor $replicas }}
{{- $total := get $facts.texts $rule.total }}
{{- /* A replica that does not fit is the message of another rule. */}}
{{- if not (mod $facts.world $replica) }}
{{- if mod (int64 $total) $divisor }}
- recipe.args.{{ $rule.total }}: {{ $total }} is not a multiple of {{ $factors }} x {{ $replicas }} replicas = {{ $divisor }}; write a multiple of {{ $divisor }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
