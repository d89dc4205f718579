{{/* Fields of the pod spec that decide where the pod runs and under which account. Takes (root, role). */}}
{{- define "megatron-dpo.pod.placement" -}}
{{- $v := .root.Values -}}
{{- with include "megatron-dpo.serviceAccountName" . }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $v.schedulerName }}
schedulerName: {{ . | quote }}
{{- end }}
{{- if and (eq .role "node") (include "megatron-dpo.network" .root | fromJson).hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- /* These select hosts with GPUs; a stage pod of placement jobs needs none and runs anywhere. */}}
{{- if eq .role "node" }}
{{- with include "megatron-dpo.withoutNulls" $v.nodeSelector }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- with $v.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with include "megatron-dpo.tolerations" . | fromJsonArray }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Name of the pods' service account: the user's, or for the gang the one that may write events. Takes (root, role). */}}
{{- define "megatron-dpo.serviceAccountName" -}}
{{- $own := and .root.Values.monitoring.events (eq .role "node") -}}
{{- .root.Values.serviceAccountName | default (ternary (include "megatron-dpo.name" .root) "" $own) -}}
{{- end }}

{{/*
Tolerations as JSON: the user's (gang only), then those that bind a pod to a lost node for
restarts.nodeLostSeconds, unless a toleration of the user covers the same taint. Without one Kubernetes adds
its own 300 s (DefaultTolerationSeconds). A toleration without a key covers every taint. Takes (root, role).
*/}}
{{- define "megatron-dpo.tolerations" -}}
{{- $given := ternary .root.Values.tolerations list (eq .role "node") -}}
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
