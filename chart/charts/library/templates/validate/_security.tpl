{{/* Security contexts that the kubelet or the API server would refuse, or that have no effect. */}}
{{- define "megatron-dpo.validate.security" -}}
{{- $pod := include "megatron-dpo.securityContext.pod" . | fromYaml -}}
{{- $own := include "megatron-dpo.securityContext.user" . | fromJson -}}
{{- $container := include "megatron-dpo.securityContext.container" (dict "root" . "role" "node") | fromYaml -}}
{{- $asked := (.Values.securityContext.capabilities | default dict).add -}}
{{- /* Each with the user that it runs as, and capabilities by their path. */}}
{{- $contexts := list (dict "path" "podSecurityContext" "user" $own "isNew" true "add" (dict "securityContext.capabilities.add" $asked "network.capabilities" .Values.network.capabilities "debug.ptrace" (ternary (list "true") list .Values.debug.ptrace)) "use" "podSecurityContext: {runAsNonRoot: false, runAsUser: 0, runAsGroup: 0}, or remove it") -}}
{{- $merged := dict -}}
{{- range (include "megatron-dpo.network" . | fromJson).initContainers }}{{ $_ := set $merged .name (.securityContext | default dict) }}{{ end -}}
{{- range $key, $given := dict "network.initContainers" .Values.network.initContainers "extraInitContainers" .Values.extraInitContainers }}
{{- range $position, $container := $given }}
{{- $path := printf "%s[%d].securityContext" $key $position }}
{{- $context := .securityContext | default dict }}
{{- $user := pick $pod "runAsUser" "runAsNonRoot" }}
{{- range $field, $value := get $merged .name }}{{ $_ := set $user $field $value }}{{ end }}
{{- $add := ternary list ($context.capabilities | default dict).add (or $user.privileged (eq (toString $user.allowPrivilegeEscalation) "true") (not (hasKey $user "runAsUser"))) }}
{{- $contexts = append $contexts (dict "path" $path "user" $user "isNew" (or (hasKey $context "runAsUser") (hasKey $context "runAsNonRoot")) "add" (dict (printf "%s.capabilities.add" $path) $add) "use" "runAsUser: 0 and runAsNonRoot: false, or allowPrivilegeEscalation: true if a program of the image has them as file capabilities") }}
{{- end }}
{{- end }}
{{- range $contexts }}
{{- $one := . }}
{{- $isRoot := eq (toString .user.runAsUser) "0" }}
{{- if and $isRoot .user.runAsNonRoot .isNew }}
- {{ .path }}: runAsUser 0 with runAsNonRoot true, which the kubelet refuses; set runAsNonRoot: false for root, or another runAsUser [root-non-root]
{{- end }}
{{- range $path, $add := .add }}
{{- $id := ternary "ptrace-not-root" "capability-not-root" (eq $path "debug.ptrace") }}
{{- if and $add (not $isRoot) }}
- {{ $path }}: {{ join ", " $add }} has no effect as user {{ include "megatron-dpo.scalar" ($one.user.runAsUser | default "(the image's)") }}, since only root gets the capabilities; set {{ $one.use }} [{{ $id }}]
{{- end }}
{{- end }}
{{- end }}
{{- $mighty := or $container.privileged (has "SYS_ADMIN" ($container.capabilities.add | default list)) }}
{{- if and $mighty (eq (toString $container.allowPrivilegeEscalation) "false") }}
- securityContext.allowPrivilegeEscalation: false with privileged or SYS_ADMIN, which Kubernetes refuses; remove one of them [privilege-escalation]
{{- end }}
{{- range .Values.podSecurityContext.sysctls }}
{{- $name := replace "/" "." .name }}
{{- if and (hasPrefix "net." $name) (include "megatron-dpo.network" $ | fromJson).hostNetwork }}
- podSecurityContext.sysctls: {{ $name }} would change the host, whose network the pods share (profile {{ $.Values.network.profile }}), and Kubernetes refuses that; remove it [sysctl-host-network]
{{- end }}
{{- end }}
{{- end }}
