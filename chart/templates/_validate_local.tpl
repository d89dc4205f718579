{{/* A rule of the class Local in launchers/rules/engine.py; takes (rule, facts). */}}
{{- define "megatron-dpo.validate.local" -}}
{{- $text := get .facts.texts .rule.flag -}}
{{- if and $text (or (not (hasPrefix "/" $text)) (contains "://" $text)) }}
- recipe.args.{{ .rule.flag }}: "{{ $text }}" would not be downloaded, as recipe.dataset is; write the absolute path of what is on the workspace{{ .rule.instead | default "" }}
{{- end }}
{{- end }}
