{{/* Paths: clean ones only, since the same folder under another spelling would be taken for another. */}}
{{- define "megatron-dpo.validate.paths" -}}
{{- $workspace := .Values.workspace -}}
{{- $given := dict "workspace.mountPath" $workspace.mountPath -}}
{{- with $workspace.hostPath }}{{ $_ := set $given "workspace.hostPath.path" .path }}{{ end -}}
{{- with $workspace.nfs }}{{ $_ := set $given "workspace.nfs.path" .path }}{{ end -}}
{{- range $position, $mount := .Values.extraVolumeMounts }}
{{- $_ := set $given (printf "extraVolumeMounts[%d].mountPath" $position) $mount.mountPath }}
{{- end }}
{{- range $path, $folder := $given }}
{{- if or (ne $folder (clean $folder)) (not (isAbs $folder)) }}
- {{ $path }}: {{ $folder | quote }} is not clean; write {{ printf "/%s" $folder | clean }}
{{- end }}
{{- end }}
{{- with $workspace.subPath }}
{{- if or (ne . (clean .)) (isAbs .) (regexMatch "^[.]{1,2}(/|$)" .) }}
- workspace.subPath: {{ . | quote }} is no clean path below the volume; write folders without a / at the ends, //, . and ..
{{- end }}
{{- end }}
{{- $folder := clean $workspace.mountPath }}
{{- if or (regexMatch "^/(bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|sbin|sys|usr|opt/launchers)(/|$)" $folder) (has $folder (list "/" "/home" "/opt" "/root" "/run" "/tmp" "/var")) }}
- workspace.mountPath: {{ $folder }} is the system's or the chart's; write another path, such as /workspace
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.volumes" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $taken := list "launchers" "workspace" "shm" "tmp" "release" }}
{{- $paths := list "/opt/launchers" "/dev/shm" "/tmp" "/etc/megatron-dpo/release" .Values.workspace.mountPath }}
{{- if .Values.code.existingSecret }}
{{- $taken = append $taken "code-secret" }}
{{- $paths = append $paths "/etc/megatron-dpo/code-secret" }}
{{- end }}
{{- range $network.volumes }}{{ $taken = append $taken .name }}{{ end }}
{{- range $network.volumeMounts }}{{ $paths = append $paths (clean .mountPath) }}{{ end }}
{{- range .Values.extraVolumes }}
{{- if has .name $taken }}
- extraVolumes: the name {{ .name }} is taken; write another one
{{- end }}
{{- $taken = append $taken .name }}
{{- end }}
{{- range .Values.extraVolumeMounts }}
{{- $folder := clean .mountPath }}
{{- if or (has $folder $paths) (hasPrefix "/opt/launchers/" $folder) }}
- extraVolumeMounts: {{ $folder }} is taken; write another path
{{- end }}
{{- $paths = append $paths $folder }}
{{- if not (has .name $taken) }}
- extraVolumeMounts: no volume is called {{ .name }}; add it to extraVolumes
{{- end }}
{{- end }}
{{- end }}
