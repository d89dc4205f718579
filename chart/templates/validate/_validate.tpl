{{/*
Relations that the schema cannot express. Each check prints one line per mistake with the values path, what was
given, and the remedy; all of them are reported at once.
To add a check: print `- <path>: <cause>; <remedy> [<id>]` in the file of its subject.
*/}}
{{- define "megatron-dpo.validate" -}}
{{- $messages := "" -}}
{{- $subjects := list "launchers" "name" "nodes" "workspace" "paths" "stages" "rehearsal" "resources" "code" "recipe" "kueue" "network" "env" "security" "pod" "volumes" -}}
{{- /* The other checks cannot print such characters. */}}
{{- if include "megatron-dpo.validate.characters" . }}{{ $subjects = list "characters" }}{{ end }}
{{- range $subject := $subjects }}
{{- $found := include (printf "megatron-dpo.validate.%s" $subject) $ | trim }}
{{- if $found }}
{{- $messages = printf "%s\n%s" $messages (regexReplaceAll "\n\\s*\n*" $found "\n") }}
{{- end }}
{{- end }}
{{- /* Flags are checked last: their rules assume valid nodes. */}}
{{- if not $messages }}
{{- $found := include "megatron-dpo.validate.flags" $ | trim }}
{{- if $found }}
{{- $messages = printf "\n%s" (regexReplaceAll "\n\\s*\n*" $found "\n") }}
{{- end }}
{{- end }}
{{- if $messages }}
{{- fail (printf "the values cannot work:%s" $messages) }}
{{- end }}
{{- include "megatron-dpo.upgrade" . }}
{{- end }}

{{/*
Characters that YAML does not allow (yaml.org/spec/1.2.2, 5.1): Helm's toYaml would print nothing for a map that
holds one. Those below 0x20 are harmless, since JSON escapes them.
*/}}
{{- define "megatron-dpo.validate.characters" -}}
{{- range $path, $value := .Values }}
{{- with regexFind "[\\x7f-\\x84\\x86-\\x9f\\x{feff}\\x{fffe}\\x{ffff}]" (toJson $value) }}
- {{ $path }}: holds the character {{ . | quote }}, which YAML does not allow; remove it [character]
{{- end }}
{{- end }}
{{- end }}

{{/* Generated files of the chart. */}}
{{- define "megatron-dpo.validate.launchers" -}}
{{- if and (eq .Values.launcher.from "chart") (not (and (.Files.Get "launchers.tar.xz") (.Files.Get "launchers.digest"))) }}
- chart/launchers.tar.xz: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-launcher]
{{- end }}
{{- $table := printf "flags/ms-swift-%s.yaml" .Values.recipe.swiftVersion }}
{{- if not (.Files.Get $table) }}
- chart/{{ $table }}: missing; run `make flags` with that ms-swift, or use a recipe.swiftVersion that has one [chart-flags]
{{- end }}
{{- end }}
