{{/* The fabric's resources; takes (root, network). */}}
{{- define "megatron-dpo.validate.network.devices" -}}
{{- $user := .root.Values.network -}}
{{- $devices := .network.devices -}}
{{- range $key := list "resourceName" "resourceCount" }}
{{- $given := get $user $key }}
{{- if and (gt (len $devices) 1) (ne (toString ($given | default "")) "") }}
- network.{{ $key }}: {{ include "megatron-dpo.scalar" $given }} is ambiguous: the devices are {{ join ", " $devices }}; use network.resources: {NAME: COUNT} [network-device-ambiguous]
{{- end }}
{{- end }}
{{- if and (gt (len $devices) 1) .network.attachment }}
- network.attachment: {{ .network.attachment }} is ambiguous: the devices are {{ join ", " $devices }}; use network.annotations: {k8s.v1.cni.cncf.io/networks: ...} [network-attachment-ambiguous]
{{- else if and (not $devices) .network.attachment }}
- network.attachment: {{ .network.attachment }} requires a device, and none is set; set network.resourceName and resourceCount, or network.annotations [network-attachment-no-device]
{{- end }}
{{- if and $user.resourceCount (not $devices) }}
- network.resourceCount: {{ int $user.resourceCount }} without a resource; set network.resourceName or network.resourceCount: null [network-count-no-device]
{{- end }}
{{- range $name, $count := .network.resources }}
{{- if eq $name $.root.Values.gpuResource }}
- network.resourceName: {{ $name }} is gpuResource, whose count is gpusPerNode; use the fabric's device or network.resourceName: "" [network-device-is-gpu]
{{- else if not (include "megatron-dpo.isExtended" $name) }}
- network.resources: {{ $name }} is not a device; use resources.limits.{{ $name }} [network-resource-no-device]
{{- else if eq (toString $count) "0" }}
- network.resourceName: {{ $name }} has no count with profile {{ $user.profile }}; set network.resourceName: "" if the fabric needs no device, or network.resourceCount: 1 [network-device-no-count]
{{- end }}
{{- end }}
{{- end }}
