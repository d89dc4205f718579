{{/* Amounts, claims and huge pages of an init container. Takes (root, path, resources). */}}
{{- define "megatron-dpo.validate.container.resources" -}}
{{- $path := .path -}}
{{- $requests := .resources.requests | default dict -}}
{{- $limits := .resources.limits | default dict -}}
{{- $names := concat (keys $requests) (keys $limits) | uniq | sortAlpha -}}
{{- range $name := $names }}
{{- include "megatron-dpo.validate.resource" (dict "path" $path "name" $name "request" (get $requests $name) "limit" (get $limits $name)) }}
{{- if and (hasPrefix "hugepages-" $name) (not (or (has "cpu" $names) (has "memory" $names))) }}
- {{ $path }}: {{ $name }} requires cpu or memory, and none is set; set limits.memory too [resource-huge-alone]
{{- end }}
{{- end }}
{{- $known := list -}}
{{- range .root.Values.resourceClaims }}{{ $known = append $known .name }}{{ end }}
{{- $used := list }}
{{- range $position, $claim := .resources.claims }}
{{- if not (has .name $known) }}
- {{ $path }}.claims[{{ $position }}].name: {{ .name | quote }} is not in resourceClaims; add it there [claim-unknown]
{{- end }}
{{- $id := printf "%s/%s" .name (.request | default "") }}
{{- if or (has $id $used) (has (printf "%s/" .name) $used) }}
- {{ $path }}.claims[{{ $position }}].name: {{ .name }} is in use; remove it [claim-name]
{{- end }}
{{- $used = append $used $id }}
{{- end }}
{{- end }}

{{/*
The user that a container runs as, and its capabilities. Takes (path, context: as given, merged: over the profile's, pod: the
pod's security context).
*/}}
{{- define "megatron-dpo.validate.container.user" -}}
{{- $merged := .merged | default dict -}}
{{- $user := ternary $merged.runAsUser .pod.runAsUser (hasKey $merged "runAsUser") -}}
{{- $nonRoot := ternary $merged.runAsNonRoot .pod.runAsNonRoot (hasKey $merged "runAsNonRoot") -}}
{{- $isRoot := eq (toString $user) "0" -}}
{{- if and $isRoot $nonRoot (or (hasKey .context "runAsUser") (hasKey .context "runAsNonRoot")) }}
- {{ .path }}.securityContext: runAsUser 0 with runAsNonRoot true{{ if not (hasKey .context "runAsNonRoot") }} of the pod{{ end }}, which the kubelet refuses; set runAsNonRoot: false for root, or another runAsUser [root-non-root]
{{- end }}
{{- $add := (.context.capabilities | default dict).add }}
{{- if and $add (not $isRoot) (not (kindIs "invalid" $user)) (not $merged.privileged) (ne (toString $merged.allowPrivilegeEscalation) "true") }}
- {{ .path }}.securityContext.capabilities.add: {{ join ", " $add }} has no effect as user {{ include "megatron-dpo.scalar" $user }}, since only root gets the capabilities; set runAsUser: 0 and runAsNonRoot: false, or allowPrivilegeEscalation: true if a program of the image has them as file capabilities [capability-not-root]
{{- end }}
{{- end }}

{{/*
$(NAME) in variables, arguments and subPathExpr of an init container: Kubernetes leaves it as text unless a variable above
has the name. In an argument, where a shell would run a command of that name, capitals only. Takes (path, container).
*/}}
{{- define "megatron-dpo.validate.container.references" -}}
{{- $path := .path -}}
{{- if and (contains "$(" (toJson .container)) (not .container.envFrom) }}
{{- $known := list -}}
{{- range $variable := .container.env }}
{{- range $name := include "megatron-dpo.env.references" .value | fromJsonArray }}
{{- if not (or (has $name $known) (hasPrefix "KUBERNETES_" $name)) }}
- {{ $path }}.env.{{ $variable.name }}: $({{ $name }}) is not a variable above it; set {{ $name }} before {{ $variable.name }}, or write $$({{ $name }}) for this text [init-container-reference]
{{- end }}
{{- end }}
{{- $known = append $known .name }}
{{- end }}
{{- range $field := list "command" "args" }}
{{- range $position, $word := get $.container $field | default list }}
{{- range $name := include "megatron-dpo.env.references" $word | fromJsonArray }}
{{- if and (regexMatch "^[A-Z_][A-Z0-9_]*$" $name) (not (or (has $name $known) (hasPrefix "KUBERNETES_" $name))) }}
- {{ $path }}.{{ $field }}[{{ $position }}]: $({{ $name }}) is not a variable of the container; set it in env, or write $$({{ $name }}) for this text [init-container-reference]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- include "megatron-dpo.validate.subPathExpr" (dict "path" (printf "%s.volumeMounts" $path) "mounts" .container.volumeMounts "known" $known) }}
{{- end }}
{{- end }}

{{/* $(NAME) of a subPathExpr: the kubelet refuses to start a container without the variable. Takes (path, mounts, known). */}}
{{- define "megatron-dpo.validate.subPathExpr" -}}
{{- range $position, $mount := .mounts }}
{{- range $name := include "megatron-dpo.env.references" .subPathExpr | fromJsonArray }}
{{- if not (has $name $.known) }}
- {{ $.path }}[{{ $position }}].subPathExpr: $({{ $name }}) is not a variable of the container, which could not start; set it, e.g. from metadata.name [sub-path-variable]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
