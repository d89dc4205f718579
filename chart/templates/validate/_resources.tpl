{{/* Merged requests and limits that the API server would refuse. */}}
{{- define "megatron-dpo.validate.resources" -}}
{{- if not (include "megatron-dpo.isResource" .Values.gpuResource) }}
- gpuResource: {{ .Values.gpuResource }} is not a resource; use the name of a device plugin, such as nvidia.com/gpu [resource-name]
{{- end }}
{{- range $path, $role := dict "resources" "node" "stages.resources" "clone" "test.resources" "test" }}
{{- $user := (include "megatron-dpo.role" (dict "root" $ "role" $role) | fromJson).resources }}
{{- $names := concat (keys ($user.requests | default dict)) (keys ($user.limits | default dict)) | uniq | sortAlpha }}
{{- range $name := $names }}
{{- if eq $name $.Values.gpuResource }}
- {{ $path }}: {{ $name }} is set by {{ ternary "gpusPerNode; use gpusPerNode" "the stage, and a stage pod has no GPU; remove it" (eq $role "node") }} [resource-gpu]
{{- else if not (include "megatron-dpo.isResource" $name) }}
- {{ $path }}: {{ $name | quote }} is not a resource; use cpu, memory or a name such as rdma/hca [resource-name]
{{- end }}
{{- end }}
{{- $found := include "megatron-dpo.resources" (dict "root" $ "role" $role) | fromYaml }}
{{- range $name := concat (keys $found.requests) (keys $found.limits) | uniq | sortAlpha }}
{{- $request := get $found.requests $name }}
{{- $limit := get $found.limits $name }}
{{- if and (include "megatron-dpo.isExtended" $name) (not (has $name (list $.Values.gpuResource))) }}
{{- if or (ne $request $limit) (and (contains "/" $name) (not (regexMatch "^[0-9]+$" $limit))) (not (include "megatron-dpo.isMultiple" (dict "name" $name "amount" $limit))) }}
- {{ $path }}: {{ $name }} has request {{ $request | default "(none)" }} and limit {{ $limit | default "(none)" }}; set one whole number, under limits [resource-whole]
{{- end }}
{{- else if and $request $limit }}
{{- if gt (include "megatron-dpo.quantity" $request | float64) (include "megatron-dpo.quantity" $limit | float64) }}
- {{ $path }}.requests.{{ $name }}: {{ $request }} is more than the limit {{ $limit }}; set a smaller request or a larger limit [resource-limit]
{{- end }}
{{- end }}
{{- end }}
{{- with ternary "" ($found.limits.memory | default $found.requests.memory) (eq $role "test") }}
{{- if le (include "megatron-dpo.quantity" . | float64) (include "megatron-dpo.quantity" $.Values.sharedMemory.sizeLimit | float64) }}
- {{ $path }}: memory {{ . }} is not more than sharedMemory.sizeLimit {{ $.Values.sharedMemory.sizeLimit }}, which counts as memory; set more memory or a smaller sizeLimit [memory-shared]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
