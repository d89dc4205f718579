{{/* What the fabric expects of image, hosts and queue. */}}
{{- define "megatron-dpo.notes.network" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $settings := include "megatron-dpo.network.settings" . | fromJson }}

Fabric: network.profile {{ .Values.network.profile }}, {{ $network.tried }}.
{{- if and $settings.NETWORK_TRANSPORT .Values.gpusPerNode }} NCCL must use {{ $settings.NETWORK_TRANSPORT }}
{{- with $settings.NETWORK_FLOOR_GBS }}, at {{ . }} GB/s and more between two nodes{{ end }}.
{{- end }}
{{- with $network.image }}
   The image must hold {{ . }}.
{{- end }}
{{- if $network.hostNetwork }}
   The pods share their hosts' ports: another run there needs other rendezvous.masterPort and gangPort.
{{- end }}
{{- with .Values.kueue.queue }}
   The ClusterQueue of {{ . }} must cover {{ include "megatron-dpo.covered" $ | fromJsonArray | join ", " }}.
{{- end }}
{{- end }}

{{/* What a ClusterQueue must have quota for, as a JSON list: all that pods of the run request. */}}
{{- define "megatron-dpo.covered" -}}
{{- $names := list -}}
{{- range $role := ternary (list "node" "clone" "download") (list "node") (eq .Values.stages.placement "jobs") }}
{{- $resources := include "megatron-dpo.resources" (dict "root" $ "role" $role) | fromYaml }}
{{- $names = concat $names (keys $resources.requests) (keys $resources.limits) }}
{{- end }}
{{- range $container := (include "megatron-dpo.network" . | fromJson).initContainers }}
{{- range $side := list "requests" "limits" }}
{{- $names = concat $names (dig "resources" $side dict $container | keys) }}
{{- end }}
{{- end }}
{{- uniq $names | sortAlpha | toJson }}
{{- end }}
