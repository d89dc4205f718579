{{/* The profile's data file, completed by the fields it leaves out and the user's overrides. */}}
{{- define "megatron-dpo.network" -}}
{{- $user := .Values.network -}}
{{- $profile := .Files.Get (printf "networks/%s.yaml" $user.profile) | fromYaml -}}
{{- range $field := list "env" "annotations" "podSecurityContext" "resource" }}
{{- $_ := set $profile $field (get $profile $field | default dict) }}
{{- end }}
{{- range $field := list "capabilities" "volumes" "volumeMounts" "initContainers" }}
{{- $_ := set $profile $field (get $profile $field | default list) }}
{{- end }}
{{- range $name, $value := $user.env }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $profile.env $name }}
{{- else }}
{{- $_ := set $profile.env $name (include "megatron-dpo.scalar" $value) }}
{{- end }}
{{- end }}
{{- if $user.resourceName }}
{{- $_ := set $profile.resource "name" $user.resourceName }}
{{- end }}
{{- if not (kindIs "invalid" $user.resourceCount) }}
{{- $_ := set $profile.resource "count" $user.resourceCount }}
{{- end }}
{{- toJson $profile }}
{{- end }}
