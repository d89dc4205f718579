{{/* The other kinds of rules, each as the class of its name in launchers/rules/engine.py; take (rule, facts). */}}
{{- define "megatron-dpo.validate.range" -}}
{{- $rule := .rule -}}
{{- $text := get .facts.texts $rule.flag -}}
{{- if $text }}
{{- $whole := $rule.whole | default false }}
{{- $fits := include (ternary "megatron-dpo.isWhole" "megatron-dpo.isNumber" $whole) $text }}
{{- $bounds := printf "of %s or more" $rule.low }}
{{- if $rule.high }}
{{- $bounds = printf "from %s to %s%s" $rule.low (ternary "less than " "" ($rule.below | default false)) $rule.high }}
{{- end }}
{{- if $fits }}
{{- $number := float64 $text }}
{{- if lt $number (float64 $rule.low) }}{{ $fits = "" }}{{ end }}
{{- if $rule.high }}
{{- if or (gt $number (float64 $rule.high)) (and $rule.below (eq $number (float64 $rule.high))) }}{{ $fits = "" }}{{ end }}
{{- end }}
{{- end }}
{{- if not $fits }}
- recipe.args.{{ $rule.flag }}: "{{ $text }}" is no {{ $rule.noun }}; write {{ ternary "a whole number" "a number" $whole }} {{ $bounds }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.words" -}}
{{- $rule := .rule -}}
{{- range regexSplit "\\s+" (get .facts.texts $rule.flag | trim) -1 }}
{{- if and . (not (has . $rule.known)) }}
- recipe.args.{{ $rule.flag }}: "{{ . }}" is not known; write one of {{ join ", " $rule.known }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.order" -}}
{{- $least := get .facts.texts .rule.least -}}
{{- $most := get .facts.texts .rule.most -}}
{{- $strict := .rule.strict | default false -}}
{{- if and (include "megatron-dpo.isNumber" $least) (include "megatron-dpo.isNumber" $most) }}
{{- if .rule.twice }}
{{- if gt (mulf 2 (float64 $least)) (float64 $most) }}
- recipe.args.{{ .rule.most }}: {{ $most }} is less than twice {{ .rule.least }} {{ $least }}; write twice as much
{{- end }}
{{- else if or (gt (float64 $least) (float64 $most)) (and $strict (eq (float64 $least) (float64 $most))) }}
- recipe.args.{{ .rule.least }}: {{ $least }} is {{ ternary "not below" "above" $strict }} {{ .rule.most }} {{ $most }}; write {{ ternary "less" (printf "at most %s" $most) $strict }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.conflict" -}}
{{- $texts := .facts.texts -}}
{{- $says := .rule.says -}}
{{- range .rule.when }}
{{- $says = replace (printf "{%s}" .flag) (get $texts .flag) $says }}
{{- end }}
- {{ ternary "" "recipe.args." (hasPrefix "recipe." .rule.flag) }}{{ .rule.flag }}: {{ $says }}
{{- end }}
