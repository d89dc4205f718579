{{/*
Credentials in plain values: anyone who can read the release, the JobSet or a log could read them. The message
never holds the value. The schema lets such text pass where it would print it (definitions.kubernetes: open).
*/}}
{{- define "megatron-dpo.validate.secrets" -}}
{{- $text := toJson .Values -}}
{{- $named := "\"[^\"]*(?i:key|token|secret|passw|auth|credential)[^\"]*\":\"([0-9A-Fa-f]{32,}|[A-Za-z0-9+_]{40,}={0,2})\"" -}}
{{- if or (regexMatch (include "megatron-dpo.credential" .) $text) (regexMatch $named $text) (contains "\"value\":" $text) }}
{{- include "megatron-dpo.validate.secrets.below" (dict "path" "" "name" "" "value" (deepCopy .Values)) }}
{{- end }}
{{- end }}

{{/* The same for one value and all below it. Takes (path, name, value): name is the last part of the path. */}}
{{- define "megatron-dpo.validate.secrets.below" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value }}
{{- $isVariable := and (hasKey .value "name") (hasKey .value "value") }}
{{- range $name, $value := .value }}
{{- if regexMatch (include "megatron-dpo.credential" $) $name }}
- {{ $path | default "values" }}: the name of a key is a credential in plain text; remove it and put it into a Secret [secret-name]
{{- else }}
{{- $last := ternary $.value.name $name (and $isVariable (eq $name "value")) }}
{{- include "megatron-dpo.validate.secrets.below" (dict "path" (printf "%s.%s" $path $name | trimPrefix ".") "name" $last "value" $value) }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $position, $value := .value }}
{{- include "megatron-dpo.validate.secrets.below" (dict "path" (printf "%s[%d]" $path $position) "name" $.name "value" $value) }}
{{- end }}
{{- else if and (kindIs "string" .value) (ne $path "code.url") }}
{{- $isNamed := and (regexMatch "(?i)key|token|secret|passw|auth|credential" (toString .name)) (regexMatch "^([0-9A-Fa-f]{32,}|[A-Za-z0-9+_]{40,}={0,2})$" .value) }}
{{- if or $isNamed (regexMatch (include "megatron-dpo.credential" .) .value) }}
- {{ $path }}: a credential in plain text; remove it and refer to a Secret: {{ include "megatron-dpo.validate.secrets.way" $path }} [secret-plain]
{{- end }}
{{- end }}
{{- end }}

{{/* The reference to a Secret that replaces a credential at a path. */}}
{{- define "megatron-dpo.validate.secrets.way" -}}
{{- $variable := regexFind "^(extraEnv|network[.]env)[.][^.]+" . | splitList "." | last -}}
{{- if $variable -}}
extraEnv.{{ $variable }}: {valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}}
{{- else if hasPrefix "secrets." . -}}
kubectl create secret generic NAME --from-file=token=FILE, and existingSecret: NAME
{{- else if hasPrefix "code." . -}}
kubectl create secret generic NAME --from-file=token=FILE, and code.existingSecret: NAME
{{- else if hasPrefix "image." . -}}
image.pullSecrets
{{- else -}}
secrets.*.existingSecret for a hub, extraEnv with a secretKeyRef for a variable, extraVolumes with a secret for a file
{{- end -}}
{{- end }}

{{/*
Regular expression for credentials that have a recognisable form: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI,
Anthropic, Google, npm, Groq, Docker Hub, PyPI, NVIDIA, ModelScope, JSON web tokens, private keys, and a URL with a
password.
*/}}
{{- define "megatron-dpo.credential" -}}
(^|[^A-Za-z0-9_-])(hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|(AKIA|ASIA)[0-9A-Z]{16}|xox[abeprs]-[A-Za-z0-9-]{8,}|sk-[A-Za-z0-9_-]{20,}|AIza[0-9A-Za-z_-]{30,}|npm_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{16,}|dckr_pat_[A-Za-z0-9_-]{16,}|pypi-AgE[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{16,}|ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-|eyJ[A-Za-z0-9_-]{8,}[.]eyJ[A-Za-z0-9_-]{8,}[.])|-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY|[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@"]*:[^/\s@"]+@
{{- end }}
