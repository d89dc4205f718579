{{/*
The longest name that the JobSet webhook checks is <jobset>-<replicated job>-<job>-<pod>-abcde, of at most 63
characters.
*/}}
{{- define "megatron-dpo.validate.name" -}}
{{- $name := .Release.Name -}}
{{- /* Helm gives all charts of an umbrella the same map. */}}
{{- $other := get .Release "megatronDPO" | default .Template.BasePath }}
{{- $_ := set .Release "megatronDPO" .Template.BasePath }}
{{- if ne $other .Template.BasePath }}
- release name: "{{ $name }}" would be the name of two runs, {{ dir $other }} and {{ dir .Template.BasePath }}; install each as a release of its own, or disable one [release-name-twice]
{{- end }}
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

{{/* Ports and image of the pods. */}}
{{- define "megatron-dpo.validate.nodes" -}}
{{- if eq (int .Values.rendezvous.masterPort) (int .Values.rendezvous.gangPort) }}
- rendezvous.gangPort: {{ int .Values.rendezvous.gangPort }} is rendezvous.masterPort too; use another port [rendezvous-ports]
{{- end }}
{{- if has (int .Values.monitoring.port) (list (int .Values.rendezvous.masterPort) (int .Values.rendezvous.gangPort)) }}
- monitoring.port: {{ int .Values.monitoring.port }} is a port of rendezvous too; use another port [monitoring-port]
{{- end }}
{{- $swift := regexFind "swift[0-9]+[.][0-9]+[.][0-9]+" .Values.image.tag | trimPrefix "swift" }}
{{- if and .Values.recipe.checkFlags (not .Values.image.digest) $swift (ne $swift .Values.recipe.swiftVersion) }}
- image.tag: names ms-swift {{ $swift }}, and recipe.swiftVersion is {{ .Values.recipe.swiftVersion }}; set recipe.swiftVersion: {{ $swift | quote }}, or recipe.checkFlags: false if the chart does not know that release [image-swift]
{{- end }}
{{- end }}
