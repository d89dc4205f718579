{{/*
The same of one container, as JSON; takes its context, whom the pod's containers run as (user), and
words that tell it from the launcher (of).
*/}}
{{- define "megatron-dpo.level.container" -}}
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
