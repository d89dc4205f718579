{{/* Resources of the container: the user's merged over the derived ones; a null removes one. Takes (root, role). */}}
{{- define "megatron-dpo.resources" -}}
{{- $user := (include "megatron-dpo.role" . | fromJson).resources -}}
{{- $resources := include "megatron-dpo.resources.derived" . | fromJson -}}
{{- range $side, $other := dict "requests" "limits" "limits" "requests" }}
{{- $others := get $user $other | default dict }}
{{- range $name, $amount := get $user $side | default dict }}
{{- $gone := kindIs "invalid" $amount }}
{{- $isPaired := or (eq $name "memory") (ne (include "megatron-dpo.isExtended" $name) "") }}
{{- $follows := and $isPaired (not (hasKey $others $name)) }}
{{- /* Memory without a limit keeps its request, which the scheduler uses. */}}
{{- if and $gone (eq $side "limits") (eq $name "memory") }}{{ $follows = false }}{{ end }}
{{- range $changed := ternary (list $side $other) (list $side) $follows }}
{{- if $gone }}
{{- $_ := unset (get $resources $changed) $name }}
{{- else }}
{{- $_ := set (get $resources $changed) $name (include "megatron-dpo.scalar" $amount) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{/*
Derived requests and limits as JSON. A host with 8 A100 has 96 cores and at least 680 GB of memory (GKE
a2-highgpu; 900 GB and more elsewhere): 10 cores and 56Gi a GPU leave room for the system on the smallest one.
Memory includes /dev/shm, which is charged to the pod. Memory is limited, so that a leak kills this run and not the
host; CPU is not limited, since throttling stalls NCCL. Takes (root, role).
*/}}
{{- define "megatron-dpo.resources.derived" -}}
{{- $v := .root.Values -}}
{{- $gpus := ternary $v.gpusPerNode 0 (eq .role "node") | int -}}
{{- $shared := div (include "megatron-dpo.quantity" $v.sharedMemory.sizeLimit | float64 | int64) 1048576 -}}
{{- $requests := dict "cpu" "2" "memory" (printf "%dMi" (add 8192 $shared)) -}}
{{- $limits := dict -}}
{{- if $gpus }}
{{- $requests = dict "cpu" (toString (mul 10 $gpus)) "memory" (printf "%dMi" (add (mul 57344 $gpus) $shared)) }}
{{- $_ := set $limits $v.gpuResource (toString $gpus) }}
{{- end }}
{{- if eq .role "test" }}{{ $requests = dict "cpu" "100m" "memory" "256Mi" }}{{ end }}
{{- range $name, $count := ternary (include "megatron-dpo.network" .root | fromJson).resources dict (eq .role "node") }}
{{- $_ := set $limits $name (include "megatron-dpo.scalar" $count) }}
{{- end }}
{{- $_ := set $limits "memory" $requests.memory }}
{{- toJson (dict "requests" (merge $requests $limits) "limits" $limits) }}
{{- end }}

{{/* Non-empty for a resource that Kubernetes never overcommits: its request and limit must be equal. */}}
{{- define "megatron-dpo.isExtended" -}}
{{- if or (contains "/" .) (hasPrefix "hugepages-" .) }}yes{{ end }}
{{- end }}
