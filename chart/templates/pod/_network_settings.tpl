{{/*
What the launcher asserts of the fabric, as JSON of NAME -> string: the transport that NCCL must
name between nodes, and the GB/s below which it is broken; empty where nothing is known or there is
one node. The floor is 0.85 of what is expected with the profile's number of GPUs a node, in
proportion with fewer.
*/}}
{{- define "megatron-dpo.network.settings" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $floor := .Values.network.floorGBs -}}
{{- $expect := $network.expect -}}
{{- if and (kindIs "invalid" $floor) $expect }}
{{- $floor = round (divf (mulf 0.85 $expect.busbwGBs (min (int .Values.gpusPerNode) $expect.gpus)) $expect.gpus) 1 }}
{{- end }}
{{- $settings := dict "NETWORK_TRANSPORT" "" "NETWORK_FLOOR_GBS" "" }}
{{- if gt (int .Values.nodes) 1 }}
{{- $_ := set $settings "NETWORK_TRANSPORT" ($network.transport | default "") }}
{{- if $floor }}{{ $_ := set $settings "NETWORK_FLOOR_GBS" (include "megatron-dpo.scalar" $floor) }}{{ end }}
{{- end }}
{{- toJson $settings }}
{{- end }}
