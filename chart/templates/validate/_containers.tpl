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
{{- $image := $container.image | default "" }}
{{- if ne $image (trim $image) }}
- {{ $path }}.image: {{ $container.image | quote }} begins or ends with a blank; remove it [init-container-image]
{{- end }}
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
{{- $context := $container.securityContext | default dict }}
{{- $mighty := or $context.privileged (has "SYS_ADMIN" (($context.capabilities | default dict).add | default list)) }}
{{- if and $mighty (eq (toString $context.allowPrivilegeEscalation) "false") }}
- {{ $path }}.securityContext.allowPrivilegeEscalation: false with privileged or SYS_ADMIN, which Kubernetes refuses; remove one of them [privilege-escalation]
{{- end }}
{{- $privileged := dig "securityContext" "privileged" false $container }}
{{- include "megatron-dpo.validate.mounts" (dict "path" (printf "%s.volumeMounts" $path) "mounts" $container.volumeMounts "privileged" $privileged) }}
{{- include "megatron-dpo.validate.container.resources" (dict "root" $ "path" (printf "%s.resources" $path) "resources" ($container.resources | default dict)) }}
{{- include "megatron-dpo.validate.container.references" (dict "path" $path "container" $container) }}
{{- $rendered := index $merged $container.name | default $container }}
{{- include "megatron-dpo.validate.container.user" (dict "path" $path "context" $context "merged" $rendered.securityContext "pod" $pod) }}
{{- if ne ($rendered.restartPolicy | default "") "Always" }}
{{- range $field, $_ := pick $container "lifecycle" "livenessProbe" "readinessProbe" "startupProbe" }}
- {{ $path }}.{{ $field }}: Kubernetes accepts it of a sidecar only; set restartPolicy: Always or remove it [init-container-sidecar]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range (include "megatron-dpo.network" . | fromJson).initContainers }}
{{- if not .image }}
- extraInitContainers: {{ .name }} has no image, and profile {{ $.Values.network.profile }} has no such container; set its image [init-container-image-missing]
{{- end }}
{{- end }}
{{- end }}

{{/* Volume mounts of one container. Takes (path, mounts, privileged). */}}
{{- define "megatron-dpo.validate.mounts" -}}
{{- $paths := list -}}
{{- range $position, $mount := .mounts }}
{{- $path := printf "%s[%d]" $.path $position }}
{{- if has $mount.mountPath $paths }}
- {{ $path }}.mountPath: {{ $mount.mountPath }} is in use; use another path [mount-path-twice]
{{- end }}
{{- if ne (clean $mount.mountPath) $mount.mountPath }}
- {{ $path }}.mountPath: {{ $mount.mountPath | quote }} is not a clean path; use {{ clean $mount.mountPath }} [path-unclean]
{{- end }}
{{- $paths = append $paths $mount.mountPath }}
{{- range $key, $folder := pick $mount "subPath" "subPathExpr" }}
{{- if or (isAbs $folder) (regexMatch "(^|/)[.][.](/|$)" $folder) }}
- {{ $path }}.{{ $key }}: {{ $folder | quote }} is not a path below the volume; use folders without leading /, and without .. [sub-path-unclean]
{{- end }}
{{- end }}
{{- if and $mount.subPath $mount.subPathExpr }}
- {{ $path }}.subPathExpr: set with subPath, and Kubernetes accepts one of them; remove one [sub-path-both]
{{- end }}
{{- if and (eq ($mount.mountPropagation | default "") "Bidirectional") (not $.privileged) }}
- {{ $path }}.mountPropagation: Bidirectional requires a privileged container; use HostToContainer, or securityContext: {privileged: true} [mount-propagation]
{{- end }}
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
