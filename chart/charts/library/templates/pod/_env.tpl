{{/* The container's env list, sorted by name, and a variable below those that it refers to. Takes (root, role). */}}
{{- define "megatron-dpo.env" -}}
{{- $env := include "megatron-dpo.env.map" . | fromJson }}
{{- range $name := include "megatron-dpo.env.order" $env | fromJsonArray }}
{{- $value := get $env $name }}
- name: {{ $name | quote }}
  {{- if kindIs "map" $value }}
  {{- toYaml $value | nindent 2 }}
  {{- else }}
  value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/*
Names of a map of variables in the order of the env list, as JSON: Kubernetes replaces $(NAME) by a variable that
stands above only. Variables that refer to each other come last.
*/}}
{{- define "megatron-dpo.env.order" -}}
{{- $env := . -}}
{{- $left := keys $env | sortAlpha -}}
{{- $order := list -}}
{{- range ternary (list 1) $left (not (contains "$(" (toJson $env))) }}
{{- $waiting := list }}
{{- range $name := $left }}
{{- $isFree := true }}
{{- range include "megatron-dpo.env.references" (get $env $name) | fromJsonArray }}
{{- if has . $left }}{{ $isFree = false }}{{ end }}
{{- end }}
{{- if $isFree }}{{ $order = append $order $name }}{{ else }}{{ $waiting = append $waiting $name }}{{ end }}
{{- end }}
{{- $left = $waiting }}
{{- end }}
{{- concat $order $left | uniq | toJson }}
{{- end }}

{{/* Names in the $(NAME) of a variable's value, as a JSON list; $$(NAME) is text. */}}
{{- define "megatron-dpo.env.references" -}}
{{- $names := list -}}
{{- if and (kindIs "string" .) (contains "$(" .) }}
{{- range regexFindAll "[$][(][-A-Za-z0-9_.]+[)]" (replace "$$" "" .) -1 }}
{{- $names = append $names (trimPrefix "$(" . | trimSuffix ")") }}
{{- end }}
{{- end }}
{{- toJson $names }}
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
{{- if eq .role "node" }}{{ $env = merge (include "megatron-dpo.trackers.env" .root | fromJson) $env }}{{ end }}
{{- range $name, $value := $v.extraEnv }}
{{- if kindIs "map" $value }}
{{- $_ := set $env $name $value }}
{{- else if kindIs "invalid" $value }}
{{- $_ := unset $env $name }}
{{- else }}
{{- $_ := set $env $name (include "megatron-dpo.scalar" $value) }}
{{- end }}
{{- end }}
{{- $network := ternary (include "megatron-dpo.network.settings" .root | fromJson) dict (eq .role "node") }}
{{- $env = merge (include "megatron-dpo.settings" . | fromJson) $network $env }}
{{- range $name, $secret := dict "HF_TOKEN" $v.secrets.hf "MODELSCOPE_API_TOKEN" $v.secrets.modelscope }}
{{- if and $secret.existingSecret (not $isTest) }}
{{- $reference := dict "name" $secret.existingSecret "key" $secret.key }}
{{- $_ := set $env $name (dict "valueFrom" (dict "secretKeyRef" $reference)) }}
{{- end }}
{{- end }}
{{- with ternary $v.envFrom list (not $isTest) }}
{{- $_ := set $env "DPO_ENV_FROM" (include "megatron-dpo.env.sources" .) }}
{{- $_ := set $env "DPO_ENV_NAMES" (append (keys $env) "DPO_ENV_NAMES" | sortAlpha | join ",") }}
{{- end }}
{{- toJson $env }}
{{- end }}

{{/*
The sources of envFrom as KIND/NAME=PREFIX, separated by commas. The launcher refuses reserved variables among those that
they bring: the chart cannot read the keys of a Secret (launchers/config/env_from.py). Takes envFrom.
*/}}
{{- define "megatron-dpo.env.sources" -}}
{{- $sources := list -}}
{{- range $entry := . }}
{{- range $field, $kind := dict "configMapRef" "ConfigMap" "secretRef" "Secret" }}
{{- with get $entry $field }}{{ $sources = append $sources (printf "%s/%s=%s" $kind .name ($entry.prefix | default "")) }}{{ end }}
{{- end }}
{{- end }}
{{- join "," $sources }}
{{- end }}
