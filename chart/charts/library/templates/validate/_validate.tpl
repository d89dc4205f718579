{{/*
What Helm's schema (values.schema.json) cannot say: credentials and characters first, then relations, one line each with
the values path, what was given, and the remedy. `megatron-dpo plan -f FILE` shows these lines and those of the schema
together. To add a check: print `- <path>: <cause>; <remedy> [<id>]` in the file of its subject.
*/}}
{{- define "megatron-dpo.validate" -}}
{{- include "megatron-dpo.defaults" (dict "values" .Values "defaults" (.Files.Get "defaults.yaml" | fromYaml)) -}}
{{- $stages := list (list "characters" "secrets") (list "launchers" "name" "required" "files" "env" "security" "mounts" "flags") -}}
{{- range $stages }}
{{- $messages := "" }}
{{- range $subject := . }}
{{- if not (and (eq $subject "flags") (contains "[chart-flags]" $messages)) }}
{{- with include (printf "megatron-dpo.validate.%s" $subject) $ | trim }}
{{- $messages = printf "%s\n%s" $messages (regexReplaceAll "\n\\s*\n*" . "\n") }}
{{- end }}
{{- end }}
{{- end }}
{{- if $messages }}
{{- fail (printf "the values cannot work:%s" $messages) }}
{{- end }}
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

{{/* Generated files of the chart. */}}
{{- define "megatron-dpo.validate.launchers" -}}
{{- if not (.Files.Get "defaults.yaml") }}
- chart/defaults.yaml: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-defaults]
{{- end }}
{{- if and (eq .Values.launcher.from "volume") (not (include "megatron-dpo.launcher.image" .)) }}
- launcher.from: volume, and this chart names no image of the launcher; use the package of a release, or launcher.from: chart [chart-launcher]
{{- end }}
{{- if and (eq (include "megatron-dpo.launcher.from" .) "chart") (not (and (include "megatron-dpo.launcher.archive" (list . "launchers")) (include "megatron-dpo.launcher.archive" (list . "training")) (.Files.Get "launchers.digest"))) }}
- chart/charts/launcher-archive: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-launcher]
{{- end }}
{{- $table := printf "flags/ms-swift-%s.json" .Values.recipe.swiftVersion }}
{{- if not (.Subcharts.library.Files.Get $table) }}
- chart/charts/library/{{ $table }}: missing; run `make flags` with that ms-swift, or use a recipe.swiftVersion that has one [chart-flags]
{{- end }}
{{- end }}
