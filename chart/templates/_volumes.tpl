{{/* Volumes of a pod; takes (root, role). The test looks at the workspace only, and at Helm's record of the release. */}}
{{- define "megatron-dpo.volumes" -}}
{{- $v := .root.Values -}}
{{- $isTest := eq .role "test" -}}
- name: launchers
  configMap:
    name: {{ include "megatron-dpo.configMap.name" .root }}
{{- if eq $v.launcher.from "chart" }}
- name: package
  emptyDir: {}
{{- end }}
- name: workspace
  {{- include "megatron-dpo.workspace" .root | trim | nindent 2 }}
{{- if not $isTest }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ $v.sharedMemory.sizeLimit }}
{{- end }}
- name: tmp
  emptyDir: {}
{{- if $isTest }}
- name: release
  secret:
    secretName: sh.helm.release.v1.{{ .root.Release.Name }}.v{{ .root.Release.Revision }}
    # Helm may keep its records elsewhere (HELM_DRIVER).
    optional: true
    defaultMode: 288
{{- else if $v.code.existingSecret }}
- name: code-secret
  secret:
    secretName: {{ $v.code.existingSecret | quote }}
    # Octal 0440: the pod's group reads it, nobody else.
    defaultMode: 288
{{- end }}
{{- $network := ternary list (include "megatron-dpo.network" .root | fromJson).volumes $isTest }}
{{- with concat $network $v.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
