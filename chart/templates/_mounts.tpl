{{/* Mounts of the launcher's container. */}}
{{- define "megatron-dpo.volumeMounts" -}}
- name: launchers
  mountPath: /opt/launchers
  readOnly: true
- name: workspace
  mountPath: {{ .Values.workspace.mountPath | quote }}
  {{- with .Values.workspace.subPath }}
  subPath: {{ . | quote }}
  {{- end }}
- name: shm
  mountPath: /dev/shm
- name: tmp
  mountPath: /tmp
{{- if .Values.code.existingSecret }}
- name: code-secret
  mountPath: /etc/megatron-dpo/code-secret
  readOnly: true
{{- end }}
{{- with concat (include "megatron-dpo.network" . | fromJson).volumeMounts .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
