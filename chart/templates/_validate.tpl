{{/*
Relations that the schema cannot say. Every check prints one line a mistake: the values path,
what was given, and what to write. All of them are reported at once.
To add a check: print `- <path>: <what is wrong>; <what to write>` in the file of its subject.
*/}}
{{- define "megatron-dpo.validate" -}}
{{- $messages := "" -}}
{{- $subjects := list "launchers" "name" "nodes" "workspace" "paths" "stages" "resources" "code" "recipe" "kueue" "network" "env" "security" "pod" "volumes" -}}
{{- /* No other check bears such characters. */}}
{{- if include "megatron-dpo.validate.characters" . }}{{ $subjects = list "characters" }}{{ end }}
{{- range $subject := $subjects }}
{{- $found := include (printf "megatron-dpo.validate.%s" $subject) $ | trim }}
{{- if $found }}
{{- $messages = printf "%s\n%s" $messages (regexReplaceAll "\n\\s*\n*" $found "\n") }}
{{- end }}
{{- end }}
{{- /* The flags are judged last: their rules count on valid nodes. */}}
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

{{- define "megatron-dpo.validate.launchers" -}}
{{- if and (eq .Values.launcher.from "chart") (not (and (.Files.Get "launchers.tar.xz") (.Files.Get "launchers.digest"))) }}
- chart/launchers.tar.xz: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-launcher]
{{- end }}
{{- $table := printf "flags/ms-swift-%s.yaml" .Chart.AppVersion }}
{{- if not (.Files.Get $table) }}
- chart/{{ $table }}: missing; run `make flags` with that ms-swift, or undo the change of appVersion [chart-flags]
{{- end }}
{{- end }}

{{/* The webhook's longest name: <jobset>-<replicated job>-<job>-<pod>-abcde, 63 characters at most. */}}
{{- define "megatron-dpo.validate.name" -}}
{{- $name := .Release.Name -}}
{{- $longest := printf "-node-0-%d-abcde" (sub (int .Values.nodes) 1) -}}
{{- if eq .Values.stages.placement "jobs" }}
{{- $stage := "-download-0-0-abcde" }}
{{- $longest = ternary $stage $longest (gt (len $stage) (len $longest)) }}
{{- end }}
{{- $budget := sub 63 (len $longest) | int -}}
{{- if gt (len $name) $budget }}
- release name: "{{ $name }}" has {{ len $name }} characters, and pods are called <name>{{ $longest }}; choose a name of at most {{ $budget }} [release-name-length]
{{- end }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
- release name: "{{ $name }}" is not a valid host name; begin with a letter and use a-z, 0-9 and - only [release-name-form]
{{- end }}
{{- end }}
