{{/*
Rules between the flags, from the table; launchers/rules evaluates the same rows with the same messages, without
evaluation-trained, since it does not read the datasets. Multiple and Range hold for every release of ms-swift, the
others for the pinned one only (recipe.checkFlags).
Takes (backend, recipe, nodes, gpus, gpuModel).
*/}}
{{- define "megatron-dpo.validate.rules" -}}
{{- $recipe := .recipe -}}
{{- /* the recipe's own keys, as launchers/config/recipe.py: Recipe.own */ -}}
{{- $own := dict
  "recipe.task" $recipe.task
  "recipe.reference" ($recipe.reference | default "online")
  "recipe.export" ($recipe.export | default "last")
  "recipe.pairWeights" ($recipe.pairWeights | default "equal")
  "recipe.promptOnce" ($recipe.promptOnce | default "auto")
  "recipe.adapterReference" ($recipe.adapterReference | default "adapter")
  "gpuModel" (.gpuModel | default "")
-}}
{{- $texts := merge $own (deepCopy .backend.defaults) -}}
{{- /* YAML reads a default such as 1e-08 as a number */ -}}
{{- range $flag, $text := $texts }}{{ $_ := set $texts $flag (toString $text) }}{{ end }}
{{- range $flag, $value := $recipe.args }}
{{- $text := include "megatron-dpo.flagText" $value }}
{{- if $text }}
{{- $_ := set $texts $flag $text }}
{{- end }}
{{- end }}
{{- /* what Megatron's trainer trains: an adapter also where a flag names one */ -}}
{{- $trains := ternary "full" "adapter" (eq (get $texts .backend.tuner | default "full") "full") }}
{{- range .backend.adapters }}{{ if get $texts . }}{{ $trains = "adapter" }}{{ end }}{{ end }}
{{- $_ := set $texts "recipe.trains" $trains }}
{{- $overrides := get $recipe.args .backend.overrides -}}
{{- $facts := dict "texts" $texts "nodes" .nodes "gpus" .gpus "world" (mul .nodes .gpus) -}}
{{- $overridden := include "megatron-dpo.overrides.keys" $overrides | fromJsonArray -}}
{{- range .backend.rules }}
{{- if eq .kind (ternary .kind "Multiple" $recipe.checkFlags) }}
{{- $silent := include "megatron-dpo.isInactive" (dict "when" .when "texts" $texts) }}
{{- if and $overridden (not $silent) }}
{{- $read := concat (list .flag .total) (.factors | default list) (.replica | default list) }}
{{- if eq .kind "Multiple" }}{{ $read = concat $read (list "nodes" "gpusPerNode") }}{{ end }}
{{- range .when }}{{ $read = append $read .flag }}{{ end }}
{{- range $overridden }}{{ if has . $read }}{{ $silent = "yes" }}{{ end }}{{ end }}
{{- end }}
{{- if not $silent }}
{{- include (printf "megatron-dpo.rule.%s" (lower .kind)) (dict "rule" . "facts" $facts) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Non-empty if one of a rule's conditions does not hold. Takes (when, texts). on and off have the spellings that ms-swift's
argument parser accepts.
*/}}
{{- define "megatron-dpo.isInactive" -}}
{{- $texts := .texts -}}
{{- range .when }}
{{- $text := get $texts .flag }}
{{- $holds := false }}
{{- if eq .test "given" }}{{ $holds = ne $text "" }}
{{- else if eq .test "missing" }}{{ $holds = eq $text "" }}
{{- else if eq .test "on" }}{{ $holds = has (lower $text) (list "yes" "true" "t" "y" "1") }}
{{- else if eq .test "off" }}{{ $holds = has (lower $text) (list "" "no" "false" "f" "n" "0") }}
{{- else if eq .test "has" }}{{ $holds = has (first .words) (regexSplit "\\s+" (trim $text) -1) }}
{{- else if eq .test "is" }}{{ $holds = has $text .words }}
{{- else if eq .test "isnt" }}{{ $holds = and (ne $text "") (not (has $text .words)) }}
{{- else if and $text (include "megatron-dpo.isNumber" $text) }}
{{- $number := float64 $text }}
{{- $bound := first .words | float64 }}
{{- $holds = ternary (gt $number $bound) (lt $number $bound) (eq .test "over") }}
{{- end }}
{{- if not $holds }}yes{{ break }}{{ end }}
{{- end }}
{{- end }}

{{/* A flag's value as one text: a list's elements separated by spaces, a map as JSON. */}}
{{- define "megatron-dpo.flagText" -}}
{{- if kindIs "map" . -}}
{{ toJson . }}
{{- else if kindIs "slice" . -}}
{{- $words := list -}}
{{- range . }}{{ $words = append $words (include "megatron-dpo.scalar" .) }}{{ end -}}
{{ join " " $words }}
{{- else if not (kindIs "invalid" .) -}}
{{ include "megatron-dpo.scalar" . }}
{{- end -}}
{{- end }}
