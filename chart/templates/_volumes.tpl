{{/* Volumes of every pod. */}}
{{- define "megatron-dpo.volumes" -}}
- name: launchers
  configMap:
    name: {{ include "megatron-dpo.configMap.name" . }}
- name: workspace
  {{- include "megatron-dpo.workspace" . | trim | nindent 2 }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ .Values.sharedMemory.sizeLimit }}
- name: tmp
  emptyDir: {}
{{- with .Values.code.existingSecret }}
- name: code-secret
  secret:
    secretName: {{ . | quote }}
    # Octal 0440: the pod's group reads it, nobody else.
    defaultMode: 288
{{- end }}
{{- with concat (include "megatron-dpo.network" . | fromJson).volumes .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
