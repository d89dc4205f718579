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

{{/* GPUs, ports and image of the pods. */}}
{{- define "megatron-dpo.validate.nodes" -}}
{{- if and (eq .Values.recipe.backend "megatron") (not .Values.gpusPerNode) }}
- gpusPerNode: 0, and Megatron requires GPUs; set the GPUs of a node or recipe.backend: transformers [gpus-missing]
{{- end }}
{{- if eq (int .Values.rendezvous.masterPort) (int .Values.rendezvous.gangPort) }}
- rendezvous.gangPort: {{ int .Values.rendezvous.gangPort }} is rendezvous.masterPort too; use another port [rendezvous-ports]
{{- end }}
{{- if and .Values.restarts.agentImage .Values.monitoring.events }}
- monitoring.events: the launcher's token would have the rights of restarts.agentImage, and training code could patch every pod of the namespace; set one of them, or monitoring.webhook for messages [agent-events]
{{- end }}
{{- if and .Values.monitoring.podMonitor (not .Values.monitoring.port) }}
- monitoring.podMonitor: true, and nothing serves metrics; set monitoring.port, e.g. 9400 [monitoring-no-port]
{{- end }}
{{- if and .Values.monitoring.podMonitorLabels (not .Values.monitoring.podMonitor) }}
- monitoring.podMonitorLabels: set, and no PodMonitor is created; set monitoring.podMonitor: true or remove them [monitoring-labels]
{{- end }}
{{- if has (int .Values.monitoring.port) (list (int .Values.rendezvous.masterPort) (int .Values.rendezvous.gangPort)) }}
- monitoring.port: {{ int .Values.monitoring.port }} is a port of rendezvous too; use another port [monitoring-port]
{{- end }}
{{- range $path, $image := dict "image" .Values.image "stages.image" .Values.stages.image "test.image" .Values.test.image }}
{{- if and $image (not $image.repository) }}
- {{ $path }}.repository: empty; set the repository of the image [image-repository]
{{- else if and $image (not (or $image.tag $image.digest)) }}
- {{ $path }}.tag: empty, as is {{ $path }}.digest, which means latest; set one of them [image-missing]
{{- end }}
{{- end }}
{{- include "megatron-dpo.validate.tags" . }}
{{- $swift := regexFind "swift[0-9]+[.][0-9]+[.][0-9]+" .Values.image.tag | trimPrefix "swift" }}
{{- if and .Values.recipe.checkFlags (not .Values.image.digest) $swift (ne $swift .Values.recipe.swiftVersion) }}
- image.tag: names ms-swift {{ $swift }}, and recipe.swiftVersion is {{ .Values.recipe.swiftVersion }}; set recipe.swiftVersion: {{ $swift | quote }}, or recipe.checkFlags: false if the chart does not know that release [image-swift]
{{- end }}
{{- end }}

{{/* Stages in pods of their own. */}}
{{- define "megatron-dpo.validate.stages" -}}
{{- if eq .Values.stages.placement "jobs" }}
{{- if and (eq .Values.recipe.backend "megatron") (not .Values.stages.convert.skip) }}
- stages.placement: jobs runs stages without a GPU, and convert requires one; set stages.convert.skip: true or placement: inline [stages-convert]
{{- end }}
{{- if .Values.restarts.agentImage }}
- restarts.agentImage: JobSet waits for an agent in every pod, and stages.placement: jobs adds pods without one; use placement: inline [agent-stages]
{{- end }}
{{- if kindIs "map" .Values.workspace.emptyDir }}
- stages.placement: jobs passes the data to other pods, and workspace.emptyDir ends with its pod; use another workspace or placement: inline [stages-empty-dir]
{{- end }}
{{- end }}
{{- if ne .Values.stages.placement "jobs" }}
{{- range $key, $given := pick .Values.stages "affinity" "nodeSelector" }}
{{- if $given }}
- stages.{{ $key }}: set, and with stages.placement inline there are no stage pods; use {{ $key }} for the gang's, or set placement: jobs [stages-inline]
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.preflight }}
{{- if and .only (not $.Values.stages.train.skip) }}
- preflight.only: runs nothing but the checks, and stages.train.skip is false; set stages.train.skip: true [preflight-only-train]
{{- end }}
{{- if and .only .skip }}
- preflight.only: runs nothing but the checks, and preflight.skip skips them; remove one of the two [preflight-only-skip]
{{- end }}
{{- if and .only (eq $.Values.stages.placement "jobs") }}
- preflight.only: runs no other stage, and stages.placement: jobs runs them in pods before the gang; use placement: inline [preflight-only-jobs]
{{- end }}
{{- end }}
{{- end }}

{{/* A rehearsal trains, restarts, and resumes from its workspace. */}}
{{- define "megatron-dpo.validate.rehearsal" -}}
{{- if .Values.rehearse }}
{{- if .Values.stages.train.skip }}
- rehearse: trains a few steps, and stages.train.skip trains none; remove one of the two [rehearse-train]
{{- end }}
{{- if not .Values.restarts.max }}
- rehearse: kills a training process to see the run resume, and restarts.max is 0; set restarts.max: 1 or more [rehearse-restarts]
{{- end }}
{{- if kindIs "map" .Values.workspace.emptyDir }}
- rehearse: resumes in new pods, and workspace.emptyDir ends with its pod; use another workspace [rehearse-empty-dir]
{{- end }}
{{- end }}
{{- end }}
