{{/*
Pod security context: the restricted level, then the network profile's, then the user's; a null removes a field.
All pods run as one user, since they write to one workspace. User 1000 may be unknown to the image: HOME and
USER in the environment replace its entry in /etc/passwd.
*/}}
{{- define "megatron-dpo.securityContext.pod" -}}
{{- $context := dict
  "runAsNonRoot" true
  "runAsUser" 1000
  "runAsGroup" 1000
  "fsGroup" 1000
  "fsGroupChangePolicy" "OnRootMismatch"
  "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- range $layer := list (include "megatron-dpo.network" . | fromJson).podSecurityContext .Values.podSecurityContext }}
{{- range $field, $value := $layer }}
{{- $_ := set $context $field $value }}
{{- if kindIs "invalid" $value }}{{ $_ = unset $context $field }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* User and seccomp settings of the gang's containers as JSON: the container's own fields win over the pod's. */}}
{{- define "megatron-dpo.securityContext.user" -}}
{{- $context := include "megatron-dpo.securityContext.pod" . | fromYaml -}}
{{- range $field, $value := omit .Values.securityContext "capabilities" }}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $context $field $value }}{{ end }}
{{- end }}
{{- toJson $context }}
{{- end }}

{{/*
Container security context. The gang gets the network's and debug's capabilities too; stage pods, which have no
fabric, get the user's only. Takes (root, role).
*/}}
{{- define "megatron-dpo.securityContext.container" -}}
{{- $user := .root.Values.securityContext -}}
{{- $asked := $user.capabilities | default dict -}}
{{- $add := $asked.add | default list -}}
{{- $context := dict -}}
{{- if eq .role "node" }}
{{- $network := include "megatron-dpo.network" .root | fromJson }}
{{- if $network.privileged }}{{ $_ := set $context "privileged" true }}{{ end }}
{{- $add = concat $add $network.capabilities }}
{{- if .root.Values.debug.ptrace }}{{ $add = append $add "SYS_PTRACE" }}{{ end }}
{{- end }}
{{- $capabilities := dict "drop" ($asked.drop | default (list "ALL")) }}
{{- if $add }}{{ $_ := set $capabilities "add" (uniq $add | sortAlpha) }}{{ end }}
{{- range $field, $value := $user }}
{{- $_ := set $context $field $value }}
{{- if kindIs "invalid" $value }}{{ $_ = unset $context $field }}{{ end }}
{{- end }}
{{- /* With these two Kubernetes refuses a false here. */}}
{{- if not (or $context.privileged (has "SYS_ADMIN" $add) (hasKey $user "allowPrivilegeEscalation")) }}
{{- $_ := set $context "allowPrivilegeEscalation" false }}
{{- end }}
{{- $_ := set $context "capabilities" $capabilities }}
{{- toYaml $context }}
{{- end }}
