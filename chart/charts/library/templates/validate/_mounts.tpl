{{/*
Non-empty for a folder of the launcher's container over which a mount would hide files that it runs with. Below folders of
programs and libraries a single file (subPath) may be mounted. Takes (folder, mount, volume).
*/}}
{{- define "megatron-dpo.isSystemFolder" -}}
{{- $folder := .folder -}}
{{- $isFile := and (or .mount.subPath .mount.subPathExpr) (regexMatch "/[^/]*[.][^/]*$" $folder) -}}
{{- $host := dig "hostPath" "path" "" .volume -}}
{{- if has $folder (list "/" "/dev" "/etc" "/opt" "/run" "/usr" "/usr/local" "/usr/local/lib" "/usr/share" "/var") }}yes
{{- else if has $folder (list "/dev/fd" "/dev/full" "/dev/mqueue" "/dev/null" "/dev/ptmx" "/dev/pts" "/dev/random" "/dev/stderr" "/dev/stdin" "/dev/stdout" "/dev/termination-log" "/dev/tty" "/dev/urandom" "/dev/zero" "/etc/hostname" "/etc/hosts" "/etc/megatron-dpo" "/etc/resolv.conf") }}yes
{{- else if regexMatch "^/(bin|boot|lib|lib32|lib64|libx32|sbin|usr/bin|usr/lib|usr/lib32|usr/lib64|usr/libexec|usr/libx32|usr/sbin|usr/local/bin|usr/local/lib/python[^/]*|usr/local/sbin)(/|$)" $folder }}{{ if not $isFile }}yes{{ end }}
{{- else if regexMatch "^/proc(/|$)" $folder }}yes
{{- else if regexMatch "^/sys(/|$)" $folder }}{{ if or (eq $folder "/sys") (not (hasPrefix "/sys/" (clean $host))) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* Mounts of the launcher's container: none over files that it needs. */}}
{{- define "megatron-dpo.validate.mounts" -}}
{{- $volumes := dict -}}
{{- range .Values.extraVolumes }}{{ $_ := set $volumes .name . }}{{ end }}
{{- $workspace := clean .Values.workspace.mountPath | regexQuoteMeta }}
{{- range .Values.extraVolumeMounts }}
{{- $folder := clean .mountPath }}
{{- if include "megatron-dpo.isSystemFolder" (dict "folder" $folder "mount" . "volume" (get $volumes .name | default dict)) }}
- extraVolumeMounts: {{ $folder }} would hide the system's or the chart's files; use a folder of its own [mount-path-system]
{{- else if regexMatch (printf "^%s/runs(/|$)" $workspace) $folder }}
- extraVolumeMounts: {{ $folder }} would hide files of the runs on the workspace; use another path [mount-path-runs]
{{- else if and .readOnly (regexMatch (printf "^%s/cache$" $workspace) $folder) }}
- extraVolumeMounts: {{ $folder }} is where the run writes downloads and kernels, and the mount is read-only; use another path, such as {{ $folder }}/huggingface/hub/NAME [mount-path-cache]
{{- end }}
{{- end }}
{{- end }}
