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

{{/* The source of the shared volume: the one kind that the values give. */}}
{{- define "megatron-dpo.workspace" -}}
{{- with .Values.workspace }}
{{- if .nfs }}
nfs:
  {{- toYaml .nfs | nindent 2 }}
{{- else if .hostPath }}
hostPath:
  path: {{ .hostPath.path | quote }}
  # It must exist: a folder that kubelet makes belongs to root.
  type: Directory
{{- else if kindIs "map" .emptyDir }}
emptyDir:
  {{- toYaml .emptyDir | nindent 2 }}
{{- else }}
persistentVolumeClaim:
  claimName: {{ include "megatron-dpo.claim.name" $ }}
{{- end }}
{{- end }}
{{- end }}
