{{/* The container's env list, sorted by name. Takes (root, role). */}}
{{- define "megatron-dpo.env" -}}
{{- range $name, $value := include "megatron-dpo.env.map" . | fromJson }}
- name: {{ $name | quote }}
  {{- if kindIs "map" $value }}
  {{- toYaml $value | nindent 2 }}
  {{- else }}
  value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/*
The environment as JSON of NAME -> string or {valueFrom}. It is built as a map, so that no name appears twice:
defaults, the network's, the user's (a null removes an entry), the launcher's settings, tokens. The test pod
gets neither the network's variables nor tokens. Takes (root, role).
*/}}
{{- define "megatron-dpo.env.map" -}}
{{- $v := .root.Values -}}
{{- $env := dict
  "HOME" "/tmp"
  "USER" "dpo"
  "HF_HOME" (printf "%s/cache/huggingface" $v.workspace.mountPath)
  "MODELSCOPE_CACHE" (printf "%s/cache/modelscope" $v.workspace.mountPath)
  "NCCL_DEBUG" $v.debug.ncclDebug
  "PYTHONDONTWRITEBYTECODE" "1"
  "PYTHONUNBUFFERED" "1" -}}
{{- $isTest := eq .role "test" }}
{{- range $name, $value := ternary dict (include "megatron-dpo.network" .root | fromJson).env $isTest }}
{{- $_ := set $env $name (include "megatron-dpo.scalar" $value) }}
{{- end }}
{{- range $name, $value := $v.extraEnv }}
{{- if kindIs "map" $value }}
{{- $_ := set $env $name $value }}
{{- else if kindIs "invalid" $value }}
{{- $_ := unset $env $name }}
{{- else }}
{{- $_ := set $env $name (include "megatron-dpo.scalar" $value) }}
{{- end }}
{{- end }}
{{- range $name, $value := include "megatron-dpo.settings" . | fromJson }}
{{- $_ := set $env $name $value }}
{{- end }}
{{- range $name, $value := ternary (include "megatron-dpo.network.settings" .root | fromJson) dict (eq .role "node") }}
{{- $_ := set $env $name $value }}
{{- end }}
{{- range $name, $secret := dict "HF_TOKEN" $v.secrets.hf "MODELSCOPE_API_TOKEN" $v.secrets.modelscope }}
{{- if and $secret.existingSecret (not $isTest) }}
{{- $reference := dict "name" $secret.existingSecret "key" $secret.key }}
{{- $_ := set $env $name (dict "valueFrom" (dict "secretKeyRef" $reference)) }}
{{- end }}
{{- end }}
{{- toJson $env }}
{{- end }}
