{{/*
Relations that the schema cannot express. Each check prints one line per mistake with the values path, what was
given, and the remedy; all of them are reported at once.
To add a check: print `- <path>: <cause>; <remedy> [<id>]` in the file of its subject.
*/}}
{{- define "megatron-dpo.validate" -}}
{{- $messages := "" -}}
{{- $subjects := list "unquoted" "unknown" "launchers" "name" "nodes" "workspace" "paths" "stages" "rehearsal" "resources" "code" "recipe" "kueue" "network" "env" "security" "pod" "labels" "volumes" "containers" "podSpec" "objects" "sizes" -}}
{{- /* The other checks cannot print such characters. */}}
{{- if include "megatron-dpo.validate.characters" . }}{{ $subjects = list "characters" }}{{ end }}
{{- /* The other checks print values. */}}
{{- if include "megatron-dpo.validate.secrets" . | trim }}{{ $subjects = list "secrets" }}{{ end }}
{{- range $subject := $subjects }}
{{- $found := include (printf "megatron-dpo.validate.%s" $subject) $ | trim }}
{{- if $found }}
{{- $messages = printf "%s\n%s" $messages (regexReplaceAll "\n\\s*\n*" $found "\n") }}
{{- end }}
{{- end }}
{{- /* Flags are checked last: their rules, but not their names, assume valid nodes. */}}
{{- if and (gt (len $subjects) 1) (not (contains "[chart-flags]" $messages)) }}
{{- $found := include "megatron-dpo.validate.flags" (dict "Values" .Values "Files" .Files "rules" (not $messages)) | trim }}
{{- if $found }}
{{- $messages = printf "%s\n%s" $messages (regexReplaceAll "\n\\s*\n*" $found "\n") }}
{{- end }}
{{- end }}
{{- if $messages }}
{{- fail (printf "the values cannot work:%s" $messages) }}
{{- end }}
{{- include "megatron-dpo.upgrade" . }}
{{- end }}

{{/*
Restore the defaults that a null in a values file removed: Helm deletes such keys, also from the chart's defaults.
Takes (values, defaults); modifies the values, which all templates share.
*/}}
{{- define "megatron-dpo.defaults" -}}
{{- range $key, $default := .defaults }}
{{- if or (not (hasKey $.values $key)) (kindIs "invalid" (get $.values $key)) }}
{{- $_ := set $.values $key $default }}
{{- else if and (kindIs "map" $default) (kindIs "map" (get $.values $key)) }}
{{- include "megatron-dpo.defaults" (dict "values" (get $.values $key) "defaults" $default) }}
{{- end }}
{{- end }}
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
{{- /* Flags and variables may hold prose. */}}
{{- $given := ternary (omit (toJson $value | fromJson) "args") $value (eq $path "recipe") }}
{{- if not (has $path (list "extraEnv" "podAnnotations" "global")) }}
{{- with regexFind "[\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200f}\\x{202f}\\x{205f}\\x{2060}\\x{3000}]|\\\\u202[89]" (toJson $given) }}
- {{ $path }}: holds a blank or an invisible character beyond ASCII, {{ . | quote | trimAll "\"" | printf "%+q" }}; replace it [character-blank]
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Generated files of the chart. */}}
{{- define "megatron-dpo.validate.launchers" -}}
{{- range list "defaults.yaml" "keys.json" }}
{{- if not ($.Files.Get .) }}
- chart/{{ . }}: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-defaults]
{{- end }}
{{- end }}
{{- if and (eq .Values.launcher.from "chart") (not (and (include "megatron-dpo.launcher.archive" .) (.Files.Get "launchers.digest"))) }}
- chart/charts/launcher-archive/launchers.tar.bz2: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-launcher]
{{- end }}
{{- $table := printf "flags/ms-swift-%s.yaml" .Values.recipe.swiftVersion }}
{{- if not (.Files.Get $table) }}
- chart/{{ $table }}: missing; run `make flags` with that ms-swift, or use a recipe.swiftVersion that has one [chart-flags]
{{- end }}
{{- end }}
