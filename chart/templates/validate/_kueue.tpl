{{/* Slices of the gang. */}}
{{- define "megatron-dpo.validate.kueue" -}}
{{- $slice := int .Values.kueue.topology.slice.size }}
{{- if $slice }}
{{- if mod (int .Values.nodes) $slice }}
- kueue.topology.slice.size: {{ $slice }} does not divide nodes {{ int .Values.nodes }}; use a divisor [slice-divides]
{{- end }}
{{- end }}
{{- end }}
