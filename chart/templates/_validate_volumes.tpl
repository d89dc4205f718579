{{/* Volumes and mounts of the user's: no name or path twice, and no source that the API server refuses. */}}
{{- define "megatron-dpo.validate.volumes" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $taken := list "launchers" "package" "workspace" "shm" "tmp" "release" }}
{{- $paths := list "/opt/launchers" (include "megatron-dpo.configMap.path" .) "/dev/shm" "/tmp" "/etc/megatron-dpo/release" .Values.workspace.mountPath }}
{{- if .Values.code.existingSecret }}
{{- $taken = append $taken "code-secret" }}
{{- $paths = append $paths "/etc/megatron-dpo/code-secret" }}
{{- end }}
{{- range $network.volumes }}{{ $taken = append $taken .name }}{{ end }}
{{- range $network.volumeMounts }}{{ $paths = append $paths (clean .mountPath) }}{{ end }}
{{- range $position, $volume := .Values.extraVolumes }}
{{- if has .name $taken }}
- extraVolumes: the name {{ .name }} is in use; use another one [volume-name]
{{- end }}
{{- range $kind, $key := dict "configMap" "name" "ephemeral" "volumeClaimTemplate" "secret" "secretName" }}
{{- $source := get $volume $kind }}
{{- if and (kindIs "map" $source) (not (get $source $key)) }}
- extraVolumes[{{ $position }}].{{ $kind }}.{{ $key }}: missing; name the source of volume {{ $volume.name }} [volume-source]
{{- end }}
{{- end }}
{{- $taken = append $taken .name }}
{{- end }}
{{- range .Values.extraVolumeMounts }}
{{- $folder := clean .mountPath }}
{{- if or (has $folder $paths) (regexMatch "^(/opt|/etc/megatron-dpo)/launchers/" $folder) }}
- extraVolumeMounts: {{ $folder }} is in use; use another path [mount-path]
{{- end }}
{{- $paths = append $paths $folder }}
{{- if not (has .name $taken) }}
- extraVolumeMounts: there is no volume {{ .name }}; add it to extraVolumes [volume-mount]
{{- end }}
{{- end }}
{{- end }}
