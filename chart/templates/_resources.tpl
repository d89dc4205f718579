{{/*
Derived requests and limits, as JSON; takes (root, role). A host of 8 A100 has 96 cores and at
least 680 GB (GKE a2-highgpu; other clouds 900 GB and more): 10 cores and 56Gi a GPU leave room
for the system on the smallest. Memory holds /dev/shm, which is charged to the pod. It is
limited, so that a leak ends this run and not the host; CPU is not, since throttling stalls NCCL.
*/}}
{{- define "megatron-dpo.resources.derived" -}}
{{- $v := .root.Values -}}
{{- $gpus := ternary $v.gpusPerNode 0 (eq .role "node") | int -}}
{{- $shared := include "megatron-dpo.mebibytes" $v.sharedMemory.sizeLimit | int -}}
{{- $requests := dict "cpu" "2" "memory" (printf "%dMi" (add 8192 $shared)) -}}
{{- $limits := dict -}}
{{- if $gpus }}
{{- $requests = dict "cpu" (toString (mul 10 $gpus)) "memory" (printf "%dMi" (add (mul 57344 $gpus) $shared)) }}
{{- $_ := set $limits $v.gpuResource (toString $gpus) }}
{{- end }}
{{- $device := (include "megatron-dpo.network" .root | fromJson).resource }}
{{- if and (eq .role "node") $device.name }}
{{- $_ := set $limits $device.name (toString (int $device.count)) }}
{{- end }}
{{- $_ := set $limits "memory" $requests.memory }}
{{- toJson (dict "requests" (merge $requests $limits) "limits" $limits) }}
{{- end }}

{{/* The derived resources under the user's; a null of the user's removes one. */}}
{{- define "megatron-dpo.resources" -}}
{{- $user := ternary .root.Values.resources .root.Values.stages.resources (eq .role "node") -}}
{{- $resources := include "megatron-dpo.resources.derived" . | fromJson -}}
{{- range $kind := list "requests" "limits" }}
{{- $amounts := get $resources $kind }}
{{- range $name, $amount := get $user $kind | default dict }}
{{- if kindIs "invalid" $amount }}
{{- $_ := unset $amounts $name }}
{{- else }}
{{- $_ := set $amounts $name (include "megatron-dpo.scalar" $amount) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{/* A quantity in whole mebibytes; the schema admits Mi, Gi and Ti here. */}}
{{- define "megatron-dpo.mebibytes" -}}
{{- $factor := dict "Mi" 1 "Gi" 1024 "Ti" 1048576 -}}
{{- mul (regexFind "^[0-9]+" .) (get $factor (regexFind "[MGT]i$" .)) -}}
{{- end }}
