{{/*
The text of a named template, which takes the root context: rendered once and kept there, since all templates share it.
Takes (root, name).
*/}}
{{- define "megatron-dpo.once" -}}
{{- if not (hasKey .root .name) }}
{{- $_ := set .root .name (include .name .root) }}
{{- end }}
{{- get .root .name }}
{{- end }}
