{{/* Volumes of a pod. The test reads the workspace and Helm's record of the release only. Takes (root, role). */}}
{{- define "megatron-dpo.volumes" -}}
{{- $v := .root.Values -}}
{{- $isTest := eq .role "test" -}}
{{- $from := include "megatron-dpo.launcher.from" .root -}}
- name: launchers
{{- if $v.jobset.managedBy }}
  # The JobSet alone is copied to another cluster, without the ConfigMap.
  downwardAPI:
    items:
      - path: recipe.yaml
        fieldRef: {fieldPath: "metadata.annotations['megatron-dpo/recipe']"}
{{- else if eq $from "chart" }}
  projected:
    sources:
      - configMap:
          name: {{ include "megatron-dpo.configMap.name" .root }}
      - configMap:
          name: {{ include "megatron-dpo.configMap.training" .root }}
{{- else }}
  configMap:
    name: {{ include "megatron-dpo.configMap.name" .root }}
{{- end }}
{{- if eq $from "chart" }}
- name: package
  emptyDir: {}
{{- else if eq $from "volume" }}
- name: package
  image:
    reference: {{ include "megatron-dpo.launcher.image" .root | quote }}
    pullPolicy: IfNotPresent
{{- end }}
- name: workspace
  {{- include "megatron-dpo.workspace" .root | trim | nindent 2 }}
{{- if not $isTest }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ $v.sharedMemory.sizeLimit | quote }}
{{- end }}
{{- if and (eq .role "node") (include "megatron-dpo.local" .root) }}
- name: local-checkpoints
  {{- include "megatron-dpo.local" .root | nindent 2 }}
{{- end }}
{{- if eq .role "node" }}
{{- if $v.restarts.agentImage }}
- {{ include "megatron-dpo.token" "agent-token" | nindent 2 | trim }}
{{- end }}
{{- if $v.monitoring.events }}
- {{ include "megatron-dpo.token" "events-token" | nindent 2 | trim }}
{{- end }}
{{- end }}
- name: tmp
  emptyDir: {{ with $v.tmp.sizeLimit }}{sizeLimit: {{ quote . }}}{{ else }}{}{{ end }}
{{- if $isTest }}
- name: release
  secret:
    secretName: sh.helm.release.v1.{{ .root.Release.Name }}.v{{ .root.Release.Revision }}
    # Helm may store its records elsewhere (HELM_DRIVER).
    optional: true
    defaultMode: 288
{{- else if $v.code.existingSecret }}
- name: code-secret
  secret:
    secretName: {{ $v.code.existingSecret | quote }}
    # Octal 0440: readable by the owner and the pod's group only.
    defaultMode: 288
{{- end }}
{{- $network := ternary list (include "megatron-dpo.network" .root | fromJson).volumes $isTest }}
{{- with concat $network $v.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The files that a pod's token consists of, as the kubelet would mount them for all containers. Takes the volume's name. */}}
{{- define "megatron-dpo.token" -}}
name: {{ . }}
projected:
  # Octal 0440: readable by the owner and the pod's group only.
  defaultMode: 288
  sources:
    - serviceAccountToken: {path: token, expirationSeconds: 3607}
    - configMap:
        name: kube-root-ca.crt
        items: [{key: ca.crt, path: ca.crt}]
    - downwardAPI:
        items:
          - path: namespace
            fieldRef: {fieldPath: metadata.namespace}
{{- end }}

{{/* The volume source of the nodes' disks for checkpoints; empty without them. */}}
{{- define "megatron-dpo.local" -}}
{{- with .Values.localCheckpoints -}}
{{- if .hostPath -}}
hostPath:
  path: {{ .hostPath.path | quote }}
  type: Directory
{{- else if kindIs "map" .emptyDir -}}
emptyDir:
  {{- toYaml .emptyDir | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* The volume source of the workspace: the one kind that the values set. */}}
{{- define "megatron-dpo.workspace" -}}
{{- with .Values.workspace }}
{{- if .nfs }}
nfs:
  {{- toYaml .nfs | nindent 2 }}
{{- else if .hostPath }}
hostPath:
  path: {{ .hostPath.path | quote }}
  # It must exist: a folder created by the kubelet belongs to root.
  type: Directory
{{- else if .csi }}
csi:
  {{- toYaml .csi | nindent 2 }}
{{- else if kindIs "map" .emptyDir }}
emptyDir:
  {{- toYaml .emptyDir | nindent 2 }}
{{- else }}
persistentVolumeClaim:
  claimName: {{ include "megatron-dpo.claim.name" $ | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* A description of the workspace for NOTES. */}}
{{- define "megatron-dpo.workspace.description" -}}
{{- with .Values.workspace }}
{{- if .nfs }}NFS {{ .nfs.server }}:{{ .nfs.path }}
{{- else if .hostPath }}host folder {{ .hostPath.path }}
{{- else if .csi }}volume of {{ .csi.driver }}
{{- else if kindIs "map" .emptyDir }}emptyDir
{{- else }}claim {{ include "megatron-dpo.claim.name" $ }}
{{- end }}
{{- with .subPath }}, folder {{ . }}{{ end }}
{{- end }}
{{- end }}
