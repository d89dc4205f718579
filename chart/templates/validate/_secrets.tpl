{{/*
Credentials in plain values: anyone who can read the release, the JobSet or a log could read them. The message
never holds the value, and the other checks find another one in its place. Takes (root, replaced).
*/}}
{{- define "megatron-dpo.validate.secrets" -}}
{{- $values := .root.Values -}}
{{- $text := toJson $values | replace "\\u0026" "&" | replace "\\n" "\n" | replace "\\t" "\t" -}}
{{- $known := include "megatron-dpo.credentials" .root | fromJson -}}
{{- $_ := set $known "found" list -}}
{{- $named := "\"[^\"]*(?i:key|token|secret|passw|auth|credential|wandb)[^\"]*\":\"([0-9A-Fa-f]{32,}|[A-Za-z0-9+_][A-Za-z0-9+/_]{39,}={0,2})\"" -}}
{{- $lines := "" -}}
{{- if or (regexMatch $known.form $text) (regexMatch $named $text) (contains "\"value\":" $text) }}
{{- $lines = include "megatron-dpo.validate.secrets.below" (dict "path" "" "name" "" "value" (deepCopy $values) "known" $known) }}
{{- end }}
{{- $lines = print $lines (include "megatron-dpo.validate.secrets.places" (dict "root" .root "known" $known)) -}}
{{- if trim $lines }}
{{- range splitList "\n" $lines }}
{{- with regexFind "^- [^:]+" . }}{{ $_ := set $.replaced "paths" (append $.replaced.paths (trimPrefix "- " .)) }}{{ end }}
{{- end }}
{{- /* code.url is judged, and not printed, by validate.code. */}}
{{- $url := ternary (get (ternary $values.code dict (kindIs "map" $values.code)) "url") "" (kindIs "map" $values.code) }}
{{- include "megatron-dpo.validate.secrets.remove" (dict "map" (dict "values" $values) "key" "values" "known" $known) }}
{{- if $url }}{{ $_ := set $values.code "url" $url }}{{ end }}
{{- end }}
{{- $lines }}
{{- end }}

{{/* Replaces the credentials that were found (known.found), and those below it. Prints nothing. Takes (map, key, known). */}}
{{- define "megatron-dpo.validate.secrets.remove" -}}
{{- $map := .map -}}
{{- $key := .key -}}
{{- $known := .known -}}
{{- $value := get $map $key -}}
{{- if kindIs "map" $value }}
{{- range $name := keys $value }}
{{- if regexMatch $known.form $name }}{{ $_ := unset $value $name }}
{{- else }}{{ include "megatron-dpo.validate.secrets.remove" (dict "map" $value "key" $name "known" $known) }}{{ end }}
{{- end }}
{{- else if kindIs "slice" $value }}
{{- $items := list }}
{{- range $value }}
{{- $box := dict "item" . }}
{{- include "megatron-dpo.validate.secrets.remove" (dict "map" $box "key" "item" "known" $known) }}
{{- $items = append $items $box.item }}
{{- end }}
{{- $_ := set $map $key $items }}
{{- else if kindIs "string" $value }}
{{- if or (has $value $known.found) (regexMatch $known.form $value) }}{{ $_ := set $map $key "removed" }}{{ end }}
{{- end }}
{{- end }}

{{/* The same for one value and all below it. Takes (path, name, value, known): name is the last part of the path. */}}
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
{{- $_ := set .known "found" (append .known.found .value) }}
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
{{- $table := .Files.Get "credentials.yaml" | fromYaml -}}
{{- $tokens := list -}}
{{- range $table.prefixed }}{{ $tokens = append $tokens (printf "(%s)[%s]{%d,}" .prefix .characters (int .least)) }}{{ end -}}
{{- $forms := list (printf "(^|[^A-Za-z0-9_-])(%s)" (join "|" $tokens)) -}}
{{- range $table.enclosed }}{{ $forms = append $forms (print .before .secret .after) }}{{ end -}}
{{- $ends := printf "((?:%s)|(?:^|[_./-])(?:%s))" (join "|" $table.names.words) $table.names.last -}}
{{- dict "form" (join "|" $forms) "ends" $ends "ordinary" $table.names.ordinary "harmless" $table.names.harmless | toJson -}}
{{- end }}
