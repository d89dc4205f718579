{{/* A workspace; that it is one only, and all else of it, is in the schema. */}}
{{- define "megatron-dpo.validate.workspace" -}}
{{- $workspace := .Values.workspace -}}
{{- if not (or $workspace.existingClaim $workspace.pvc $workspace.nfs $workspace.hostPath $workspace.csi (kindIs "map" $workspace.emptyDir)) }}
- workspace: no volume set; set exactly one of existingClaim, pvc, nfs, hostPath, csi, emptyDir [workspace-kind]
{{- end }}
{{- $volumes := dict "workspace" $workspace }}
{{- range $position, $volume := .Values.extraVolumes }}{{ $_ := set $volumes (printf "extraVolumes[%d]" $position) $volume }}{{ end }}
{{- range $path, $volume := $volumes }}
{{- if and (eq (dig "csi" "driver" "" $volume) "gcsfuse.csi.storage.gke.io") (ne (dig "gke-gcsfuse/volumes" "" $.Values.podAnnotations | toString) "true") }}
- {{ $path }}.csi: a bucket, which GKE mounts only in annotated pods: they would wait for the volume; set podAnnotations: {gke-gcsfuse/volumes: "true"} [gcsfuse-annotation]
{{- end }}
{{- end }}
{{- end }}

{{/* The user's volumes and mounts: no duplicate name or path, and no source that the API server refuses. */}}
{{- define "megatron-dpo.validate.volumes" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $taken := list "launchers" "package" "workspace" "shm" "tmp" "release" "local-checkpoints" "agent-token" "events-token" }}
{{- if .Values.code.existingSecret }}
{{- $taken = append $taken "code-secret" }}
{{- end }}
{{- range $network.volumes }}{{ $taken = append $taken .name }}{{ end }}
{{- range $position, $volume := .Values.extraVolumes }}
{{- if has .name $taken }}
- extraVolumes: the name {{ .name }} is in use; use another one [volume-name]
{{- end }}
{{- $claim := dig "volumeClaimTemplate" "spec" dict (.ephemeral | default dict) }}
{{- $spec := printf "extraVolumes[%d].ephemeral.volumeClaimTemplate.spec" $position }}
{{- if and $claim.dataSource $claim.dataSourceRef (ne (toJson $claim.dataSource) (toJson $claim.dataSourceRef)) }}
- {{ $spec }}.dataSource: differs from dataSourceRef, and Kubernetes requires one source; remove one of them [volume-data-source]
{{- end }}
{{- $files := list }}
{{- range $source := (.projected | default dict).sources }}
{{- range $kind, $projection := $source }}
{{- range $item := $projection.items | default (list $projection) }}
{{- if and .path (has .path $files) }}
- extraVolumes[{{ $position }}].projected: the path {{ .path }} is in use; use another path [projected-path]
{{- end }}
{{- $files = append $files .path }}
{{- end }}
{{- end }}
{{- end }}
{{- $taken = append $taken .name }}
{{- end }}
{{- include "megatron-dpo.validate.mountPaths" (dict "root" . "taken" $taken) }}
{{- include "megatron-dpo.validate.hugePages" . }}
{{- end }}
