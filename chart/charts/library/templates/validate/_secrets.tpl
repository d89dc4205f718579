{{/*
Credentials in plain values: anyone who can read the release, the JobSet or a log could read them. The message never
holds the value. These lines come alone, since other checks print values; code.url is judged by validate.code.
*/}}
{{- define "megatron-dpo.validate.secrets" -}}
{{- $values := .Values -}}
{{- $text := toJson $values | replace "\\u0026" "&" | replace "\\n" "\n" | replace "\\t" "\t" -}}
{{- $known := include "megatron-dpo.credentials" . | fromJson -}}
{{- $named := "\"[^\"]*(?i:key|token|secret|passw|auth|credential|wandb)[^\"]*\":\"([0-9A-Fa-f]{32,}|[A-Za-z0-9+_][A-Za-z0-9+/_]{39,}={0,2})\"" -}}
{{- if or (regexMatch $known.form $text) (regexMatch $named $text) (contains "\"value\":" $text) }}
{{- include "megatron-dpo.validate.secrets.below" (dict "path" "" "name" "" "value" (deepCopy $values) "known" $known) }}
{{- end }}
{{- include "megatron-dpo.validate.secrets.places" (dict "root" . "known" $known) }}
{{- end }}

{{/* Names each value that is a credential. Takes (path, name, value, known): name is the last part of the path. */}}
{{- define "megatron-dpo.validate.secrets.below" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value }}
{{- $isVariable := and (hasKey .value "name") (hasKey .value "value") }}
{{- range $name, $value := .value }}
{{- if regexMatch $.known.form $name }}
- {{ $path | default "values" }}: the name of a key is a credential in plain text; remove it and put it into a Secret [secret-name]
{{- else }}
{{- $last := ternary $.value.name $name (and $isVariable (eq $name "value")) }}
{{- include "megatron-dpo.validate.secrets.below" (dict "path" (printf "%s.%s" $path $name | trimPrefix ".") "name" $last "value" $value "known" $.known) }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $position, $value := .value }}
{{- include "megatron-dpo.validate.secrets.below" (dict "path" (printf "%s[%d]" $path $position) "name" $.name "value" $value "known" $.known) }}
{{- end }}
{{- else if and (kindIs "string" .value) (ne $path "code.url") }}
{{- $isNamed := and (regexMatch "(?i)key|token|secret|passw|auth|credential|wandb$" (toString .name)) (regexMatch "^([0-9A-Fa-f]{32,}|[A-Za-z0-9+_][A-Za-z0-9+/_]{39,}={0,2})$" .value) }}
{{- if or $isNamed (regexMatch .known.form .value) }}
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
{{- else if regexMatch "^monitoring[.](webhook|trackers[.][^.]+)[.]" . -}}
kubectl create secret generic NAME --from-file={{ ternary "url" "token" (hasPrefix "monitoring.webhook." .) }}=FILE, and {{ regexFind "^monitoring[.](webhook|trackers[.][^.]+)" . }}.existingSecret: NAME
{{- else if hasPrefix "image." . -}}
image.pullSecrets
{{- else -}}
secrets.*.existingSecret for a hub, extraEnv with a secretKeyRef for a variable, extraVolumes with a secret for a file
{{- end -}}
{{- end }}

{{/*
Credentials as JSON: form, a regular expression of texts that hold one, and those of credentials.yaml for names. A test
compares form with scripts/credentials.py.
*/}}
{{- define "megatron-dpo.credentials" -}}
{{- include "megatron-dpo.once" (dict "root" . "name" "megatron-dpo.credentials.read") }}
{{- end }}

{{- define "megatron-dpo.credentials.read" -}}
{{- $table := .Subcharts.library.Files.Get "credentials.yaml" | fromYaml -}}
{{- $tokens := list -}}
{{- range $table.prefixed }}{{ $tokens = append $tokens (printf "(%s)[%s]{%d,}" .prefix .characters (int .least)) }}{{ end -}}
{{- $forms := list (printf "(^|[^A-Za-z0-9_-])(%s)" (join "|" $tokens)) -}}
{{- range $table.enclosed }}{{ $forms = append $forms (print .before .secret .after) }}{{ end -}}
{{- $ends := printf "((?:%s)|(?:^|[_./-])(?:%s))" (join "|" $table.names.words) $table.names.last -}}
{{- dict "form" (join "|" $forms) "ends" $ends "ordinary" $table.names.ordinary "harmless" $table.names.harmless | toJson -}}
{{- end }}
