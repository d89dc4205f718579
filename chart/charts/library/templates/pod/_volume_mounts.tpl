{{/* Volume mounts of the launcher's container. Takes (root, role). */}}
{{- define "megatron-dpo.volumeMounts" -}}
{{- $v := .root.Values -}}
{{- $isTest := eq .role "test" -}}
- name: launchers
  mountPath: {{ include "megatron-dpo.configMap.path" .root }}
  readOnly: true
{{- $from := include "megatron-dpo.launcher.from" .root }}
{{- if ne $from "image" }}
- name: package
  mountPath: /opt/launchers
  {{- if eq $from "volume" }}
  readOnly: true
  {{- end }}
{{- end }}
- name: workspace
  mountPath: {{ $v.workspace.mountPath | quote }}
  {{- with $v.workspace.subPath }}
  subPath: {{ . | quote }}
  {{- end }}
{{- if not $isTest }}
- name: shm
  mountPath: /dev/shm
{{- end }}
{{- if and (eq .role "node") (include "megatron-dpo.local" .root) }}
- name: local-checkpoints
  mountPath: /local-checkpoints
{{- end }}
{{- if and (eq .role "node") $v.monitoring.events }}
- name: events-token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end }}
- name: tmp
  mountPath: /tmp
{{- if $isTest }}
- name: release
  mountPath: /etc/megatron-dpo/release
  readOnly: true
{{- else if $v.code.existingSecret }}
- name: code-secret
  mountPath: /etc/megatron-dpo/code-secret
  readOnly: true
{{- end }}
{{- $network := ternary list (include "megatron-dpo.network" .root | fromJson).volumeMounts $isTest }}
{{- with concat $network $v.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
