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
  claimName: {{ include "megatron-dpo.claim.name" $ | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The same in words, for NOTES. */}}
{{- define "megatron-dpo.workspace.words" -}}
{{- with .Values.workspace }}
{{- if .nfs }}NFS {{ .nfs.server }}:{{ .nfs.path }}
{{- else if .hostPath }}host folder {{ .hostPath.path }}
{{- else if kindIs "map" .emptyDir }}emptyDir
{{- else }}claim {{ include "megatron-dpo.claim.name" $ }}
{{- end }}
{{- with .subPath }}, folder {{ . }}{{ end }}
{{- end }}
{{- end }}
