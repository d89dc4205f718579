{{/* Init containers and sidecars of the fabric: what the API server would refuse of them. */}}
{{- define "megatron-dpo.validate.containers" -}}
{{- $pod := include "megatron-dpo.securityContext.pod" . | fromYaml -}}
{{- $merged := dict -}}
{{- range (include "megatron-dpo.network" . | fromJson).initContainers }}{{ $_ := set $merged .name . }}{{ end -}}
{{- range $key, $given := dict "network.initContainers" .Values.network.initContainers "extraInitContainers" .Values.extraInitContainers -}}
{{- $names := list "launcher" "restart-agent" -}}
{{- range $position, $container := $given }}
{{- $path := printf "%s[%d]" $key $position }}
{{- if has $container.name $names }}
- {{ $path }}.name: {{ $container.name }} is in use; use another name [init-container-name]
{{- end }}
{{- $names = append $names $container.name }}
{{- $variables := list }}
{{- range $container.env }}
{{- if has .name $variables }}
- {{ $path }}.env: {{ .name }} is set twice; remove one of them [init-container-env]
{{- end }}
{{- $variables = append $variables .name }}
{{- end }}
{{- $ports := list }}
{{- range $number, $port := $container.ports }}
{{- if and .name (has .name $ports) }}
- {{ $path }}.ports[{{ $number }}].name: {{ .name }} is in use; use another name [init-container-port]
{{- end }}
{{- $ports = append $ports .name }}
{{- end }}
{{- include "megatron-dpo.validate.mounts" (dict "path" (printf "%s.volumeMounts" $path) "mounts" $container.volumeMounts) }}
{{- include "megatron-dpo.validate.container.resources" (dict "root" $ "path" (printf "%s.resources" $path) "resources" ($container.resources | default dict)) }}
{{- include "megatron-dpo.validate.container.references" (dict "path" $path "container" $container) }}
{{- $rendered := index $merged $container.name | default $container }}
{{- include "megatron-dpo.validate.container.user" (dict "path" $path "context" ($container.securityContext | default dict) "merged" $rendered.securityContext "pod" $pod) }}
{{- end }}
{{- end }}
{{- range (include "megatron-dpo.network" . | fromJson).initContainers }}
{{- if not .image }}
- extraInitContainers: {{ .name }} has no image, and profile {{ $.Values.network.profile }} has no such container; set its image [init-container-image-missing]
{{- end }}
{{- end }}
{{- end }}

{{/* Volume mounts of one container. Takes (path, mounts). */}}
{{- define "megatron-dpo.validate.mounts" -}}
{{- $paths := list -}}
{{- range $position, $mount := .mounts }}
{{- $path := printf "%s[%d]" $.path $position }}
{{- if has $mount.mountPath $paths }}
- {{ $path }}.mountPath: {{ $mount.mountPath }} is in use; use another path [mount-path-twice]
{{- end }}
{{- $paths = append $paths $mount.mountPath }}
{{- end }}
{{- end }}

{{/* One resource of a container without a derived amount. Takes (path, name, request, limit). */}}
{{- define "megatron-dpo.validate.resource" -}}
{{- $request := ternary "" (include "megatron-dpo.scalar" .request) (kindIs "invalid" .request) -}}
{{- $limit := ternary "" (include "megatron-dpo.scalar" .limit) (kindIs "invalid" .limit) -}}
{{- if not (include "megatron-dpo.isResource" .name) }}
- {{ .path }}: {{ .name | quote }} is not a resource; use cpu, memory or a name such as rdma/hca [resource-name]
{{- else if include "megatron-dpo.isExtended" .name }}
{{- if or (ne ($request | default $limit) $limit) (and (contains "/" .name) (not (regexMatch "^[0-9]+$" $limit))) (not (include "megatron-dpo.isMultiple" (dict "name" .name "amount" $limit))) }}
- {{ .path }}: {{ .name }} has request {{ $request | default "(none)" }} and limit {{ $limit | default "(none)" }}; set one whole number, under limits [resource-whole]
{{- end }}
{{- else if and $request $limit (gt (include "megatron-dpo.quantity" $request | float64) (include "megatron-dpo.quantity" $limit | float64)) }}
- {{ .path }}.requests.{{ .name }}: {{ $request }} is more than the limit {{ $limit }}; set a smaller request or a larger limit [resource-limit]
{{- end }}
{{- end }}

{{/* Non-empty unless an amount of huge pages is not a multiple of a page. Takes (name, amount). */}}
{{- define "megatron-dpo.isMultiple" -}}
{{- $page := trimPrefix "hugepages-" .name -}}
{{- if eq $page .name }}yes
{{- else if .amount }}
{{- $bytes := include "megatron-dpo.quantity" .amount | float64 }}
{{- if eq (mulf (divf $bytes (include "megatron-dpo.quantity" $page | float64) | floor) (include "megatron-dpo.quantity" $page | float64)) $bytes }}yes{{ end }}
{{- end }}
{{- end }}

{{/*
Non-empty for the name of a resource that a container can request. The name of its quota, requests.NAME, must be
valid too: 253 characters before the slash.
*/}}
{{- define "megatron-dpo.isResource" -}}
{{- if regexMatch "^(cpu|memory|ephemeral-storage|hugepages-[1-9][0-9]*[KMG]i)$" . }}yes
{{- else if and (contains "/" .) (include "megatron-dpo.isLabel" .) (not (regexMatch "^(requests[.]|([a-z0-9.-]*[.])?kubernetes[.]io/|[^/]{245})" .)) }}yes{{ end }}
{{- end }}
