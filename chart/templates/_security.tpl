{{/*
Pod security context: the restricted level, then the network profile, then the user's.
User 1000 may be unknown to the image: HOME and USER in the environment stand for its entry.
*/}}
{{- define "megatron-dpo.security.pod" -}}
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
{{- end }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* Container security context; capabilities are the union of the user's, the network's, debug's. */}}
{{- define "megatron-dpo.security.container" -}}
{{- $user := .Values.securityContext -}}
{{- $asked := $user.capabilities | default dict -}}
{{- $add := concat ($asked.add | default list) (include "megatron-dpo.network" . | fromJson).capabilities -}}
{{- if .Values.debug.ptrace }}
{{- $add = append $add "SYS_PTRACE" }}
{{- end }}
{{- $capabilities := dict "drop" ($asked.drop | default (list "ALL")) }}
{{- if $add }}
{{- $_ := set $capabilities "add" (uniq $add | sortAlpha) }}
{{- end }}
{{- $context := dict "allowPrivilegeEscalation" false }}
{{- range $field, $value := $user }}
{{- $_ := set $context $field $value }}
{{- end }}
{{- $_ := set $context "capabilities" $capabilities }}
{{- toYaml $context }}
{{- end }}
