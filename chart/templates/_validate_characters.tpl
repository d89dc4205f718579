{{/*
Characters that YAML does not allow (yaml.org/spec/1.2.2, 5.1): Helm's toYaml would print nothing for
a map that holds one. Those below 0x20 are harmless, since JSON escapes them.
*/}}
{{- define "megatron-dpo.validate.characters" -}}
{{- range $path, $value := .Values }}
{{- with regexFind "[\\x7f-\\x84\\x86-\\x9f\\x{feff}\\x{fffe}\\x{ffff}]" (toJson $value) }}
- {{ $path }}: holds the character {{ . | quote }}, which YAML does not allow; remove it [character]
{{- end }}
{{- end }}
{{- end }}
