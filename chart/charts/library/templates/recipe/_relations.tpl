{{/*
One template per type of rule, named like its class in launchers/rules. All take (rule, facts).
multiple: a total is a multiple of a product.
*/}}
{{- define "megatron-dpo.rule.multiple" -}}
{{- $facts := .facts -}}
{{- $rule := .rule -}}
{{- $sized := true -}}
{{- range concat $rule.factors ($rule.replica | default list) (list $rule.total) }}
{{- if not (or (eq . "world") (regexMatch "^[1-9][0-9]{0,5}$" (get $facts.texts .))) }}{{ $sized = false }}{{ end }}
{{- end }}
{{- if $sized }}
{{- $divisor := 1 }}
{{- $sizes := list }}
{{- range $rule.factors }}
{{- $divisor = mul $divisor (get $facts.texts . | int64) }}
{{- $sizes = append $sizes (printf "%s %s" . (get $facts.texts .)) }}
{{- end }}
{{- $factors := join " x " $sizes }}
{{- if eq $rule.total "world" }}
{{- if mod $facts.world $divisor }}
- recipe.args: {{ $facts.world }} processes (nodes {{ $facts.nodes }} x gpusPerNode {{ $facts.gpus }}) are not a multiple of {{ $factors }} = {{ $divisor }}; change the sizes, nodes or gpusPerNode [{{ $rule.id }}]
{{- end }}
{{- else }}
{{- $replica := 1 }}
{{- range $rule.replica }}{{ $replica = mul $replica (get $facts.texts . | int64) }}{{ end }}
{{- $replicas := div $facts.world $replica }}
{{- $divisor = mul $divisor $replicas }}
{{- $total := get $facts.texts $rule.total }}
{{- /* If a replica does not fit, another rule reports it. */}}
{{- if not (mod $facts.world $replica) }}
{{- if mod (int64 $total) $divisor }}
- recipe.args.{{ $rule.total }}: {{ $total }} is not a multiple of {{ $factors }} x {{ $replicas }} replicas = {{ $divisor }}; use a multiple of {{ $divisor }} [{{ $rule.id }}]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* conflict: conditions that must not hold together. */}}
{{- define "megatron-dpo.rule.conflict" -}}
{{- $texts := .facts.texts -}}
{{- $says := .rule.says -}}
{{- range .rule.when }}
{{- $says = replace (printf "{%s}" .flag) (get $texts .flag) $says }}
{{- end }}
- {{ ternary "" "recipe.args." (hasPrefix "recipe." .rule.flag) }}{{ .rule.flag }}: {{ $says }} [{{ .rule.id }}]
{{- end }}
