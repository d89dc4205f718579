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

{{/* Mounts of the launcher's container: none over files that it needs, none twice. Takes (root, taken: names of volumes). */}}
{{- define "megatron-dpo.validate.mountPaths" -}}
{{- $v := .root.Values -}}
{{- $taken := .taken -}}
{{- $paths := list "/opt/launchers" (include "megatron-dpo.configMap.path" .root) "/dev/shm" "/tmp" "/etc/megatron-dpo/release" "/local-checkpoints" $v.workspace.mountPath }}
{{- if $v.monitoring.events }}{{ $paths = append $paths "/var/run/secrets/kubernetes.io/serviceaccount" }}{{ end }}
{{- if $v.code.existingSecret }}{{ $paths = append $paths "/etc/megatron-dpo/code-secret" }}{{ end }}
{{- range (include "megatron-dpo.network" .root | fromJson).volumeMounts }}{{ $paths = append $paths (clean .mountPath) }}{{ end }}
{{- $volumes := dict -}}
{{- range $v.extraVolumes }}{{ $_ := set $volumes .name . }}{{ end }}
{{- if and (contains "subPathExpr" (toJson $v.extraVolumeMounts)) (not $v.envFrom) }}
{{- $known := include "megatron-dpo.env.map" (dict "root" .root "role" "node") | fromJson | keys }}
{{- include "megatron-dpo.validate.subPathExpr" (dict "path" "extraVolumeMounts" "mounts" $v.extraVolumeMounts "known" $known) }}
{{- end }}
{{- $workspace := clean $v.workspace.mountPath | regexQuoteMeta }}
{{- range $v.extraVolumeMounts }}
{{- $folder := clean .mountPath }}
{{- if include "megatron-dpo.isSystemFolder" (dict "folder" $folder "mount" . "volume" (get $volumes .name | default dict)) }}
- extraVolumeMounts: {{ $folder }} would hide the system's or the chart's files; use a folder of its own [mount-path-system]
{{- else if regexMatch (printf "^%s/runs(/|$)" $workspace) $folder }}
- extraVolumeMounts: {{ $folder }} would hide files of the runs on the workspace; use another path [mount-path-runs]
{{- else if and .readOnly (regexMatch (printf "^%s/cache$" $workspace) $folder) }}
- extraVolumeMounts: {{ $folder }} is where the run writes downloads and kernels, and the mount is read-only; use another path, such as {{ $folder }}/huggingface/hub/NAME [mount-path-cache]
{{- else if or (has $folder $paths) (regexMatch "^(/opt|/etc/megatron-dpo)/launchers/" $folder) }}
- extraVolumeMounts: {{ $folder }} is in use; use another path [mount-path]
{{- end }}
{{- $paths = append $paths $folder }}
{{- if not (has .name $taken) }}
- extraVolumeMounts: there is no volume {{ .name }}; add it to extraVolumes [volume-mount]
{{- end }}
{{- end }}
{{- end }}

{{/* An emptyDir of huge pages requires them in each pod that has the volume: the kubelet could not mount it. */}}
{{- define "megatron-dpo.validate.hugePages" -}}
{{- if contains "\"HugePages" (toJson .Values.extraVolumes) }}
{{- $roles := dict "resources" "node" "test.resources" "test" -}}
{{- if eq .Values.stages.placement "jobs" }}{{ $_ := set $roles "stages.resources" "clone" }}{{ end }}
{{- if kindIs "map" .Values.workspace.emptyDir }}{{ $_ := unset $roles "test.resources" }}{{ end }}
{{- range $path, $role := $roles }}
{{- $limits := (include "megatron-dpo.resources" (dict "root" $ "role" $role) | fromYaml).limits }}
{{- range $position, $volume := $.Values.extraVolumes }}
{{- $medium := (.emptyDir | default dict).medium | default "" }}
{{- $size := trimPrefix "HugePages" $medium | trimPrefix "-" }}
{{- $given := list }}
{{- range $name, $_ := $limits }}{{ if hasPrefix "hugepages-" $name }}{{ $given = append $given (trimPrefix "hugepages-" $name) }}{{ end }}{{ end }}
{{- if and (hasPrefix "HugePages" $medium) (not (ternary (has $size $given) (eq (len $given) 1) (ne $size ""))) }}
- extraVolumes[{{ $position }}].emptyDir.medium: {{ $medium }} requires huge pages{{ with $size }} of {{ . }}{{ else }} of one size{{ end }}, and {{ $path }} has {{ join " and " $given | default "none" }}; set {{ $path }}.limits.hugepages-{{ $size | default "2Mi" }}, or another medium [volume-huge-pages]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
