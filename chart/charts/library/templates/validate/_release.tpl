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

{{/* Keys without a default: a values file may be one of several, so that the schema cannot require them. */}}
{{- define "megatron-dpo.validate.required" -}}
{{- if not .Values.recipe.model }}
- recipe.model: empty; use hf://org/name@revision, ms://org/name@revision or file:///path [model-source]
{{- end }}
{{- if not .Values.recipe.dataset }}
- recipe.dataset: empty; set a list of sources, each hf://org/name@revision, ms://org/name@revision, file:///path or a path in the cloned code [dataset-missing]
{{- end }}
{{- $workspace := .Values.workspace -}}
{{- if not (or $workspace.existingClaim $workspace.pvc $workspace.nfs $workspace.hostPath $workspace.csi (kindIs "map" $workspace.emptyDir)) }}
- workspace: no volume set; set exactly one of existingClaim, pvc, nfs, hostPath, csi, emptyDir [workspace-kind]
{{- end }}
{{- /* The value is never printed. */}}
{{- if regexMatch "^(https?://[^/]*@|\\w+://[^/@]*:[^/]*@)" .Values.code.url }}
- code.url: holds a name or password, which everybody who can see the run could read; remove it from the URL and put a token into a Secret named by code.existingSecret [code-url-secret]
{{- end }}
{{- end }}

{{/* What follows from files of the chart: the fabric's profile, and the source of the launcher. */}}
{{- define "megatron-dpo.validate.files" -}}
{{- if not (.Files.Get (printf "networks/%s.yaml" .Values.network.profile)) }}
{{- $known := list }}
{{- range $path, $_ := .Files.Glob "networks/*.yaml" }}
{{- $known = append $known (base $path | trimSuffix ".yaml") }}
{{- end }}
- network.profile: "{{ .Values.network.profile }}" is unknown; use one of {{ join ", " $known }} [network-profile]
{{- else }}
{{- $network := include "megatron-dpo.network" . | fromJson }}
{{- range $name, $words := $network.required }}
{{- if not (or (get $network.env $name) (get $.Values.extraEnv $name)) }}
- network.env.{{ $name }}: empty, and profile {{ $.Values.network.profile }} has no default; set it to {{ $words }} [network-env-missing]
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.jobset.managedBy }}
{{- if eq (include "megatron-dpo.launcher.from" $) "chart" }}
- jobset.managedBy: {{ . }} copies the JobSet to another cluster, without the launcher's ConfigMap; set launcher.from: image, or volume with a release's package [managed-launcher]
{{- end }}
{{- end }}
{{- $slice := int .Values.kueue.topology.slice.size }}
{{- if and $slice (mod (int .Values.nodes) (max $slice 1)) }}
- kueue.topology.slice.size: {{ $slice }} does not divide nodes {{ int .Values.nodes }}; use a divisor [slice-divides]
{{- end }}
{{- end }}
