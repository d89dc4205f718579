{{/*
The rules of the table, in the words of launchers/flags/flag_types.py and launchers/rules/engine.py, which explain
them. Takes (backend, recipe, nodes, gpus). Rules of a release are left out with checkFlags: false.
*/}}
{{- define "megatron-dpo.validate.rules" -}}
{{- $recipe := .recipe -}}
{{- $kinds := .backend.kinds -}}
{{- $texts := merge (dict "recipe.task" $recipe.task "recipe.reference" ($recipe.reference | default "online")) (deepCopy .backend.defaults) -}}
{{- range $flag, $value := $recipe.args }}
{{- $text := include "megatron-dpo.words" $value }}
{{- if $text }}
{{- $_ := set $texts $flag $text }}
{{- if and $recipe.checkFlags (hasKey $kinds $flag) }}
{{- include "megatron-dpo.validate.kind" (dict "flag" $flag "text" $text "kind" (get $kinds $flag)) }}
{{- end }}
{{- end }}
{{- end }}
{{- $overrides := get $recipe.args .backend.overrides -}}
{{- include "megatron-dpo.validate.overrides" (dict "flag" .backend.overrides "map" $overrides) }}
{{- range include "megatron-dpo.switched" (dict "backend" .backend "map" $overrides) | fromJsonArray }}
{{- $_ := set $texts . "true" }}
{{- end }}
{{- $facts := dict "texts" $texts "nodes" .nodes "gpus" .gpus "world" (mul .nodes .gpus) -}}
{{- $overridden := include "megatron-dpo.keys" $overrides | fromJsonArray -}}
{{- range .backend.rules }}
{{- if or $recipe.checkFlags (has .kind (list "Multiple" "Range")) }}
{{- $read := concat (list .flag .total .least .most) (.factors | default list) (.replica | default list) }}
{{- $silent := include "megatron-dpo.silent" (dict "when" .when "texts" $texts) }}
{{- range .when }}{{ $read = append $read .flag }}{{ end }}
{{- range $overridden }}{{ if has . $read }}{{ $silent = "yes" }}{{ end }}{{ end }}
{{- if not $silent }}
{{- include (printf "megatron-dpo.validate.%s" (lower .kind)) (dict "rule" . "facts" $facts) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A value as one text: of a list its words, of a map its JSON. */}}
{{- define "megatron-dpo.words" -}}
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
