{{/* What the cluster must admit or may do, after the commands of NOTES. */}}
{{- define "megatron-dpo.notes" -}}
{{- $reasons := include "megatron-dpo.level.reasons" . | fromJson }}
{{- if $reasons }}

Note: the namespace must admit the {{ ternary "privileged" "baseline" (has "privileged" (values $reasons)) }} Pod Security level, since the pods have
{{- range $reason, $level := $reasons }}
   {{ $reason }}: {{ $level }}
{{- end }}
{{- end }}
{{- $user := include "megatron-dpo.security.user" . | fromJson }}
{{- $container := include "megatron-dpo.security.container" (dict "root" . "role" "node") | fromYaml }}
{{- if and (eq (toString $user.runAsUser) "0") (not (has "DAC_OVERRIDE" ($container.capabilities.add | default list))) (not $container.privileged) }}

Note: the pods run as user 0 without DAC_OVERRIDE, which obeys file modes: the workspace must be writable by user 0
   or by group {{ $user.fsGroup | default 0 }} (chgrp {{ $user.fsGroup | default 0 }} FOLDER && chmod g+rwxs FOLDER), and an NFS server must not squash root.
{{- end }}
{{- if eq .Values.stages.placement "jobs" }}

Warning: stages.placement jobs. Kueue reserves the GPUs of the whole run while the CPU stages work, and
with waitForPodsReady it evicts the run when they take longer than its timeout (kueue issue 6796).
Use it where downloads are short or GPUs are not queued; else write stages.placement: inline.
nodeSelector, tolerations and affinity are the gang's: the stage pods run on any host, which must mount the workspace.
{{- end }}
{{- end }}
