{{/* Fields of the pod spec that decide where the pod runs and under which account. Takes (root, role). */}}
{{- define "megatron-dpo.pod.placement" -}}
{{- $v := .root.Values -}}
{{- $gang := eq .role "node" -}}
{{- $role := include "megatron-dpo.role" . | fromJson -}}
{{- with include "megatron-dpo.serviceAccount.name" .root }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $v.schedulerName }}
schedulerName: {{ . | quote }}
{{- end }}
{{- if and $gang (include "megatron-dpo.network" .root | fromJson).hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with include "megatron-dpo.withoutNulls" $role.nodeSelector }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- with $role.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "megatron-dpo.tolerations" . | fromJsonArray }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $field := list "dnsConfig" "hostAliases" }}
{{- with get $v $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if not (kindIs "invalid" $v.hostUsers) }}
hostUsers: {{ $v.hostUsers }}
{{- end }}
{{- if $gang }}
{{- with $v.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with $v.resourceClaims }}
resourceClaims:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $selector := include "megatron-dpo.gang.labels" $.root | fromYaml | dict "matchLabels" }}
  - {{- omit . "labelSelector" | merge (dict "labelSelector" (.labelSelector | default $selector)) | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels that JobSet gives to the gang's pods only. */}}
{{- define "megatron-dpo.gang.labels" -}}
jobset.sigs.k8s.io/jobset-name: {{ include "megatron-dpo.name" . }}
jobset.sigs.k8s.io/replicatedjob-name: node
{{- end }}

{{/*
Tolerations as JSON: the role's, then those that bind a pod to a lost node for
restarts.nodeLostSeconds, unless a toleration of the user covers the same taint. Without one Kubernetes adds
its own 300 s (DefaultTolerationSeconds). A toleration without a key covers every taint. Takes (root, role).
*/}}
{{- define "megatron-dpo.tolerations" -}}
{{- $given := (include "megatron-dpo.role" . | fromJson).tolerations -}}
{{- $tolerations := $given -}}
{{- $seconds := .root.Values.restarts.nodeLostSeconds -}}
{{- if not (kindIs "invalid" $seconds) }}
{{- range $taint := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- $isGiven := false }}
{{- range $given }}
{{- if and (has (.key | default "") (list "" $taint)) (has (.effect | default "") (list "" "NoExecute")) }}{{ $isGiven = true }}{{ end }}
{{- end }}
{{- if not $isGiven }}
{{- $tolerations = append $tolerations (dict "key" $taint "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" (int $seconds)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $tolerations }}
{{- end }}
