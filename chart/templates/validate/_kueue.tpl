{{/* Kueue's keys: none without a queue, and a consistent topology. */}}
{{- define "megatron-dpo.validate.kueue" -}}
{{- $kueue := .Values.kueue -}}
{{- $topology := $kueue.topology -}}
{{- if not $kueue.queue }}
{{- range $path, $given := dict
  "priorityClass" $kueue.priorityClass
  "maxExecTimeSeconds" $kueue.maxExecTimeSeconds
  "forceDeleteOnNodeFailure" $kueue.forceDeleteOnNodeFailure
  "topology.mode" (ternary "" $topology.mode (eq $topology.mode "none"))
  "topology.slice.size" $topology.slice.size }}
{{- if $given }}
- kueue.{{ $path }}: {{ $given }} requires Kueue, and kueue.queue is empty; set the LocalQueue or remove it [kueue-no-queue]
{{- end }}
{{- end }}
{{- end }}
{{- if and (has $topology.mode (list "required" "preferred")) (not $topology.key) }}
- kueue.topology.key: empty, and mode is {{ $topology.mode }}; set the node label of the level [topology-key-missing]
{{- end }}
{{- if and (has $topology.mode (list "none" "unconstrained")) $topology.key }}
- kueue.topology.key: "{{ $topology.key }}" has no effect with mode {{ $topology.mode }}; set mode: required or preferred, or remove the key [topology-key-unused]
{{- end }}
{{- $slice := int $topology.slice.size }}
{{- if ne (gt $slice 0) (ne $topology.slice.key "") }}
- kueue.topology.slice: size {{ $slice }} with key "{{ $topology.slice.key }}"; set both or neither [slice-half]
{{- end }}
{{- if $slice }}
{{- if mod (int .Values.nodes) $slice }}
- kueue.topology.slice.size: {{ $slice }} does not divide nodes {{ int .Values.nodes }}; use a divisor [slice-divides]
{{- end }}
{{- end }}
{{- end }}
