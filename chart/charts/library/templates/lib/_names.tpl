{{/* The release name, unchanged: one release is one run. A name that is too long is refused, not truncated (validate.name). */}}
{{- define "megatron-dpo.name" -}}
{{ .Release.Name }}
{{- end }}

{{- define "megatron-dpo.configMap.name" -}}
{{ .Release.Name }}-launchers
{{- end }}

{{/* The ConfigMap with the second archive, whose packages scripts/archive.py names. */}}
{{- define "megatron-dpo.configMap.training" -}}
{{ .Release.Name }}-training
{{- end }}

{{/* Folder of both ConfigMaps in the pods: recipe.yaml, launchers.tar.bz2 and training.tar.bz2. */}}
{{- define "megatron-dpo.configMap.path" -}}
/etc/megatron-dpo/launchers
{{- end }}

{{/* One of the launcher's archives, a file of the subchart; empty if it is not built. Takes (root, name). */}}
{{- define "megatron-dpo.launcher.archive" -}}
{{ (index (first .).Subcharts "launcher-archive").Files.Get (printf "%s.tar.bz2" (last .)) }}
{{- end }}

{{/*
Where the pods get the launcher: chart, image or volume. auto is volume if the package names a published image, which those of
releases do, and if the cluster is known and mounts images as volumes by default (Kubernetes 1.35); chart otherwise. A run keeps
the ConfigMaps that it began with, also when its cluster is updated.
*/}}
{{- define "megatron-dpo.launcher.from" -}}
{{- if eq .Values.launcher.from "auto" }}
{{- $from := "chart" }}
{{- if and (include "megatron-dpo.launcher.image" .) (semverCompare ">=1.35.0-0" .Capabilities.KubeVersion.Version) (.Capabilities.APIVersions.Has "jobset.x-k8s.io/v1alpha2") }}
{{- $live := ternary (include "megatron-dpo.clusterState" . | fromJson) dict .Release.IsUpgrade }}
{{- $from = ternary "volume" "chart" (dig "ConfigMap" "binaryData" "" $live | empty) }}
{{- end }}
{{- /* All templates share the values: the cluster is asked once. */}}
{{- $_ := set .Values.launcher "from" $from }}
{{- end }}
{{- .Values.launcher.from }}
{{- end }}

{{/* The launcher's image by digest, which `make release` writes into the package; empty without one. */}}
{{- define "megatron-dpo.launcher.image" -}}
{{- with .Files.Get "launchers.image" | trim }}{{ $.Values.launcher.repository | default (index $.Chart.Annotations "megatron-dpo/launcher-repository") }}@{{ . }}{{ end }}
{{- end }}

{{/* The SHA-256 of the launcher's sources (`make chart`); empty if the pods' image provides them. */}}
{{- define "megatron-dpo.launcher.digest" -}}
{{- if ne .Values.launcher.from "image" }}{{ .Files.Get "launchers.digest" | trim }}{{ end }}
{{- end }}

{{- define "megatron-dpo.claim.name" -}}
{{ .Values.workspace.existingClaim | default (printf "%s-workspace" .Release.Name) }}
{{- end }}

{{/* Labels that never change during a run: the pod template is immutable, so they hold no versions. */}}
{{- define "megatron-dpo.labels.stable" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
{{- end }}

{{/* Labels of the objects that Helm owns. */}}
{{- define "megatron-dpo.labels" -}}
{{ include "megatron-dpo.labels.stable" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (replace "+" "_" .Chart.Version) }}
{{- end }}

{{/* repository:tag@digest, each part as given. Takes an image. */}}
{{- define "megatron-dpo.image" -}}
{{- .repository }}
{{- with .tag }}:{{ . }}{{ end }}
{{- with .digest }}@{{ . }}{{ end }}
{{- end }}

{{/*
The values of a role as JSON: image, resources, nodeSelector, tolerations, affinity. A role's own image replaces
the gang's as a whole, since a tag and a digest belong to one repository. Takes (root, role).
*/}}
{{- define "megatron-dpo.role" -}}
{{- $v := .root.Values -}}
{{- $own := dict "node" $v "test" $v.test | dig .role $v.stages -}}
{{- $image := dig "repository" "" $own.image | empty | ternary $v.image $own.image -}}
{{- pick $own "resources" "nodeSelector" "tolerations" "affinity" | merge (dict "image" $image) | toJson }}
{{- end }}

{{/* "true" if the chart creates the pods' service account: where it is asked to, or for events or JobSet's agent without an account given. */}}
{{- define "megatron-dpo.serviceAccount.isCreated" -}}
{{- if or .Values.serviceAccount.create (and (or .Values.monitoring.events .Values.restarts.agentImage) (not .Values.serviceAccountName)) }}true{{ end }}
{{- end }}

{{/* Service account of the pods, by default the release's own if it is created; empty for the namespace's default. */}}
{{- define "megatron-dpo.serviceAccount.name" -}}
{{- .Values.serviceAccountName | default (ternary .Release.Name "" (eq (include "megatron-dpo.serviceAccount.isCreated" .) "true")) }}
{{- end }}

{{/* The stages that can be skipped, which have that key in the values; a JSON list. */}}
{{- define "megatron-dpo.stages" -}}
{{- $found := list }}
{{- range $stage, $own := .Values.stages }}
{{- if and (kindIs "map" $own) (hasKey $own "skip") }}{{ $found = append $found $stage }}{{ end }}
{{- end }}
{{- $found | toJson }}
{{- end }}
