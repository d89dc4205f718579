{{/* A rule of the class Local in launchers/rules/engine.py; takes (rule, facts). */}}
{{- define "megatron-dpo.validate.local" -}}
{{- $text := get .facts.texts .rule.flag -}}
{{- if and $text (or (not (hasPrefix "/" $text)) (contains "://" $text)) }}
- recipe.args.{{ .rule.flag }}: "{{ $text }}" would not be downloaded, unlike recipe.dataset; use the absolute path of a file on the workspace{{ .rule.instead | default "" }} [{{ .rule.id }}]
{{- end }}
{{- end }}
