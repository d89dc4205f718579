{{/* Where pods run, and as whom. */}}
{{- define "megatron-dpo.pod.placement" -}}
{{- $v := .root.Values -}}
{{- with $v.serviceAccountName }}
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
{{- /* These choose hosts with GPUs; a stage pod of placement jobs has none and runs anywhere. */}}
{{- if eq .role "node" }}
{{- with include "megatron-dpo.given" $v.nodeSelector }}
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
