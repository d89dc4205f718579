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

{{/* order: one flag's number does not exceed another's. */}}
{{- define "megatron-dpo.rule.order" -}}
{{- $least := get .facts.texts .rule.least -}}
{{- $most := get .facts.texts .rule.most -}}
{{- $strict := .rule.strict | default false -}}
{{- if and (include "megatron-dpo.isNumber" $least) (include "megatron-dpo.isNumber" $most) }}
{{- if .rule.twice }}
{{- if gt (mulf 2 (float64 $least)) (float64 $most) }}
- recipe.args.{{ .rule.most }}: {{ $most }} is less than twice {{ .rule.least }} {{ $least }}; use at least twice as much [{{ .rule.id }}]
{{- end }}
{{- else if or (gt (float64 $least) (float64 $most)) (and $strict (eq (float64 $least) (float64 $most))) }}
- recipe.args.{{ .rule.least }}: {{ $least }} is {{ ternary "not less than" "greater than" $strict }} {{ .rule.most }} {{ $most }}; use {{ ternary "less" (printf "at most %s" $most) $strict }} [{{ .rule.id }}]
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

{{/* words: each word of a flag is an allowed one; the allowed words may depend on other flags. */}}
{{- define "megatron-dpo.rule.words" -}}
{{- $rule := .rule -}}
{{- $text := get .facts.texts $rule.flag -}}
{{- $isFile := and $rule.otherwise (regexMatch "[/.{]" $text) -}}
{{- range regexSplit "\\s+" (trim $text) -1 }}
{{- if not (or $isFile (empty .) (has . $rule.known)) }}
- recipe.args.{{ $rule.flag }}: "{{ . }}" is unknown; use {{ gt (len $rule.known) 1 | ternary "one of " "" }}{{ join ", " $rule.known }}{{ $rule.otherwise | default "" }} [{{ $rule.id }}]
{{- end }}
{{- end }}
{{- end }}

{{/*
range: a number is within bounds. The schema checks whole numbers; it cannot compare numbers given as text (--set
passes 0.1 and 5e-6 as text).
*/}}
{{- define "megatron-dpo.rule.range" -}}
{{- $rule := .rule -}}
{{- $text := get .facts.texts $rule.flag -}}
{{- if $text }}
{{- $fits := include "megatron-dpo.isNumber" $text }}
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
- recipe.args.{{ $rule.flag }}: "{{ $text }}" is not a valid {{ $rule.noun }}; use a number {{ $bounds }} [{{ $rule.id }}]
{{- end }}
{{- end }}
{{- end }}

{{/*
local: a flag that names files uses absolute paths, since these files are not downloaded. Files that are evaluated are none of
recipe.dataset; one text is one path, which may hold blanks.
*/}}
{{- define "megatron-dpo.rule.local" -}}
{{- $text := get .facts.texts .rule.flag -}}
{{- if and $text (or (not (hasPrefix "/" $text)) (contains "://" $text)) }}
- recipe.args.{{ .rule.flag }}: "{{ $text }}" would not be downloaded, unlike recipe.dataset; use the absolute path of a file on the workspace{{ .rule.instead | default "" }} [{{ .rule.id }}]
{{- else if and $text .rule.evaluates }}
{{- $files := list }}
{{- $given := get .facts.args .rule.flag }}
{{- range ternary $given (list $text) (kindIs "slice" $given) }}{{ $files = append $files (regexReplaceAll "#[0-9]+$" (toString .) "" | clean) }}{{ end }}
{{- range $position, $dataset := .facts.dataset }}
{{- $file := regexReplaceAll "#[0-9]+$" $dataset "" | trimPrefix "file://" | clean }}
{{- if has $file $files }}
- recipe.args.{{ $.rule.flag }}: {{ $file }} is recipe.dataset[{{ $position }}] too, and rows that were trained on say nothing; use other rows{{ $.rule.instead | default "" }} [evaluation-trained]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
