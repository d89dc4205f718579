{{/* podSpec and jobset.spec: what follows from other values. */}}
{{- define "megatron-dpo.validate.podSpec" -}}
{{- $grace := int .Values.terminationGracePeriodSeconds }}
{{- range $hook := list "postStart" "preStop" }}
{{- $seconds := dig "lifecycle" $hook "sleep" "seconds" 0 (first ($.Values.podSpec.containers | default list) | default dict) | int }}
{{- if gt $seconds $grace }}
- podSpec.containers[0].lifecycle.{{ $hook }}.sleep.seconds: {{ $seconds }}, and terminationGracePeriodSeconds is {{ $grace }}; use a smaller number [pod-spec-sleep]
{{- end }}
{{- end }}
{{- if and (eq (toString .Values.podSpec.dnsPolicy) "ClusterFirst") (include "megatron-dpo.network" . | fromJson).hostNetwork }}
- podSpec.dnsPolicy: ClusterFirst uses the host's servers on the host network (profile {{ .Values.network.profile }}), which do not know the ranks; use ClusterFirstWithHostNet or remove it [pod-spec-dns-host]
{{- end }}
{{- with get (.Values.jobset.spec | default dict) "coordinator" }}
{{- $address := printf "%s-node-0-%d.%s" $.Release.Name (int .podIndex) $.Release.Name }}
{{- if ge (int .podIndex) (int $.Values.nodes) }}
- jobset.spec.coordinator.podIndex: {{ int .podIndex }}, and nodes is {{ int $.Values.nodes }}; use a rank of the gang, such as 0 [coordinator-rank]
{{- else if gt (len $address) 63 }}
- jobset.spec.coordinator: {{ $address }} has {{ len $address }} characters, and a label's value may have 63; use a shorter release name [release-name-coordinator]
{{- end }}
{{- end }}
{{- end }}
