{{/*
Why the gang's pods are outside the restricted level of Pod Security, as JSON of reason -> level:
https://kubernetes.io/docs/concepts/security/pod-security-standards/
*/}}
{{- define "megatron-dpo.level.reasons" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $user := include "megatron-dpo.security.user" . | fromJson -}}
{{- $container := include "megatron-dpo.security.container" (dict "root" . "role" "node") | fromYaml -}}
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
{{- $reasons = merge $reasons (include "megatron-dpo.level.container" (dict "context" $container "user" $user "of" "") | fromJson) }}
{{- range $sidecar := $network.initContainers }}
{{- $given := dict "context" ($sidecar.securityContext | default dict) "user" $user "of" (printf " of %s" $sidecar.name) }}
{{- $reasons = merge $reasons (include "megatron-dpo.level.container" $given | fromJson) }}
{{- end }}
{{- if $network.hostNetwork }}{{ $_ := set $reasons "hostNetwork" "privileged" }}{{ end }}
{{- $seccomp := ($user.seccompProfile | default dict).type | default "none" }}
{{- if not (has $seccomp (list "RuntimeDefault" "Localhost")) }}
{{- $_ := set $reasons (printf "seccomp %s" $seccomp) (ternary "privileged" "baseline" (eq $seccomp "Unconfined")) }}
{{- end }}
{{- toJson $reasons }}
{{- end }}
