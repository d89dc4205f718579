{{/* Paths: clean ones only, since the same folder under another spelling would be taken for another. */}}
{{- define "megatron-dpo.validate.paths" -}}
{{- $workspace := .Values.workspace -}}
{{- $given := dict "workspace.mountPath" $workspace.mountPath -}}
{{- with $workspace.hostPath }}{{ $_ := set $given "workspace.hostPath.path" .path }}{{ end -}}
{{- with $workspace.nfs }}{{ $_ := set $given "workspace.nfs.path" .path }}{{ end -}}
{{- $below := dict "workspace.subPath" $workspace.subPath -}}
{{- range $position, $mount := .Values.extraVolumeMounts }}
{{- $path := printf "extraVolumeMounts[%d]" $position }}
{{- $_ := set $given (printf "%s.mountPath" $path) $mount.mountPath }}
{{- $_ := set $below (printf "%s.subPath" $path) ($mount.subPath | default "") }}
{{- if and $mount.subPath $mount.subPathExpr }}
- {{ $path }}.subPathExpr: set with subPath, and Kubernetes accepts one of them; remove one [sub-path-both]
{{- end }}
{{- end }}
{{- range $path, $folder := $given }}
{{- if or (ne $folder (clean $folder)) (not (isAbs $folder)) }}
- {{ $path }}: {{ $folder | quote }} is not a clean path; use {{ printf "/%s" $folder | clean }} [path-unclean]
{{- end }}
{{- end }}
{{- range $path, $folder := $below }}
{{- if and $folder (or (ne $folder (clean $folder)) (isAbs $folder) (regexMatch "^[.]{1,2}(/|$)" $folder)) }}
- {{ $path }}: {{ $folder | quote }} is not a clean path below the volume; use folders without leading or trailing /, and without //, . and .. [sub-path-unclean]
{{- end }}
{{- end }}
{{- $folder := clean $workspace.mountPath }}
{{- if or (regexMatch "^/(bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|sbin|sys|usr|opt/launchers)(/|$)" $folder) (has $folder (list "/" "/home" "/opt" "/root" "/run" "/tmp" "/var")) }}
- workspace.mountPath: {{ $folder }} is reserved by the system or the chart; use another path, e.g. /workspace [mount-path-taken]
{{- end }}
{{- end }}
