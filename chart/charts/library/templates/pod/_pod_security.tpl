{{/*
Reasons for which the gang's pods exceed the restricted level of Pod Security, as JSON of reason -> level:
https://kubernetes.io/docs/concepts/security/pod-security-standards/
*/}}
{{- define "megatron-dpo.podSecurity.reasons" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $user := include "megatron-dpo.securityContext.user" . | fromJson -}}
{{- $container := include "megatron-dpo.securityContext.container" (dict "root" . "role" "node") | fromYaml -}}
{{- $reasons := dict -}}
{{- if ne $network.podSecurity "restricted" }}
{{- $_ := set $reasons (printf "network.profile %s" .Values.network.profile) $network.podSecurity }}
{{- end }}
{{- range $volume := include "megatron-dpo.volumes" (dict "root" . "role" "node") | fromYamlArray }}
{{- $kind := omit $volume "name" | keys | first }}
{{- if not (has $kind (list "configMap" "csi" "downwardAPI" "emptyDir" "ephemeral" "persistentVolumeClaim" "projected" "secret")) }}
{{- $_ := set $reasons (printf "volume %s (%s)" $volume.name $kind) (ternary "privileged" "baseline" (eq $kind "hostPath")) }}
{{- end }}
{{- end }}
{{- $reasons = merge $reasons (include "megatron-dpo.podSecurity.container" (dict "context" $container "user" $user "of" "") | fromJson) }}
{{- range $sidecar := $network.initContainers }}
{{- $given := dict "context" ($sidecar.securityContext | default dict) "user" $user "of" (printf " of %s" $sidecar.name) }}
{{- $reasons = merge $reasons (include "megatron-dpo.podSecurity.container" $given | fromJson) }}
{{- end }}
{{- if $network.hostNetwork }}{{ $_ := set $reasons "hostNetwork" "privileged" }}{{ end }}
{{- $seccomp := ($user.seccompProfile | default dict).type | default "none" }}
{{- if not (has $seccomp (list "RuntimeDefault" "Localhost")) }}
{{- $_ := set $reasons (printf "seccomp %s" $seccomp) (ternary "privileged" "baseline" (eq $seccomp "Unconfined")) }}
{{- end }}
{{- toJson $reasons }}
{{- end }}

{{/*
The reasons of one container, as JSON. Takes its security context, the pod's user settings (user), and a suffix
that names the container (of; empty for the launcher).
*/}}
{{- define "megatron-dpo.podSecurity.container" -}}
{{- $reasons := dict -}}
{{- $capabilities := .context.capabilities | default dict }}
{{- range $name := $capabilities.add }}
{{- if ne $name "NET_BIND_SERVICE" }}
{{- $mild := has $name (list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT") }}
{{- $_ := set $reasons (printf "capability %s%s" $name $.of) (ternary "baseline" "privileged" $mild) }}
{{- end }}
{{- end }}
{{- if not (has "ALL" ($capabilities.drop | default list)) }}{{ $_ := set $reasons (printf "capabilities kept%s" .of) "baseline" }}{{ end }}
{{- if not (ternary .context .user (hasKey .context "runAsNonRoot")).runAsNonRoot }}{{ $_ := set $reasons (printf "root allowed%s" .of) "baseline" }}{{ end }}
{{- if .context.privileged }}{{ $_ := set $reasons (printf "privileged%s" .of) "privileged" }}
{{- else if ne (toString .context.allowPrivilegeEscalation) "false" }}{{ $_ := set $reasons (printf "allowPrivilegeEscalation%s" .of) "baseline" }}{{ end }}
{{- toJson $reasons }}
{{- end }}
