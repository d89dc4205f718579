{{/*
Literal values under names that announce a credential (credentials.yaml), where users choose the names: annotations,
variables and arguments of containers, attributes of CSI volumes, files of a ConfigMap. Variables of extraEnv and
network.env are in validate.env. Takes (root, known).
*/}}
{{- define "megatron-dpo.validate.secrets.places" -}}
{{- $places := dict -}}
{{- range $path := list "podAnnotations" "podLabels" "jobset.annotations" "jobset.labels" "network.annotations" "serviceAccount.annotations" "extraInitContainers" "network.initContainers" "podSpec" "extraVolumes" "workspace.csi" "extraObjects" }}
{{- $value := $.root.Values }}
{{- /* Types are judged later. */}}
{{- range splitList "." $path }}{{ $value = ternary (get (ternary $value dict (kindIs "map" $value)) .) nil (kindIs "map" $value) }}{{ end }}
{{- $_ := set $places $path $value }}
{{- end }}
{{- $objects := ternary $places.extraObjects list (kindIs "slice" $places.extraObjects) -}}
{{- $_ := unset $places "extraObjects" -}}
{{- if or (regexMatch (printf "(?i)%s" .known.ends | replace "[_./-]" "[\"_./-]") (toJson $places)) $objects }}
{{- range $path, $value := $places }}
{{- include "megatron-dpo.validate.secrets.named" (dict "path" $path "name" "" "value" $value "known" $.known "isKnown" true) }}
{{- end }}
{{- range $position, $object := $objects }}
{{- if kindIs "map" $object }}
{{- $path := printf "extraObjects[%d]" $position }}
{{- $isConfig := and (eq (toString .kind) "ConfigMap") (kindIs "map" .data) }}
{{- range $key, $text := ternary .data dict $isConfig }}
{{- if kindIs "string" $text }}
{{- include "megatron-dpo.validate.secrets.file" (dict "path" (printf "%s.data.%s" $path $key) "key" $key "text" $text "known" $.known) }}
{{- end }}
{{- end }}
{{- include "megatron-dpo.validate.secrets.named" (dict "path" $path "name" "" "value" (omit . "data" "binaryData") "known" $.known "isKnown" false) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
One value and all below it. In an object of a kind that the chart does not know, a name such as secretKey may hold the name of
a key: only its annotations, variables and arguments are judged. Takes (path, name, value, known, isKnown).
*/}}
{{- define "megatron-dpo.validate.secrets.named" -}}
{{- $pass := pick . "known" "isKnown" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value }}
{{- $isVariable := and (hasKey .value "name") (hasKey .value "value") }}
{{- range $name, $value := .value }}
{{- $isPair := and $isVariable (eq $name "value") }}
{{- $more := dict "path" (printf "%s.%s" $path $name) "value" $value "isKnown" (or $.isKnown (eq $name "annotations")) }}
{{- $last := ternary $name "" $.isKnown }}
{{- if $isPair }}{{ $last = $.value.name }}{{ end }}
{{- if and (kindIs "slice" $value) (has $name (list "args" "command")) }}
{{- include "megatron-dpo.validate.secrets.arguments" (merge $more $pass) }}
{{- else }}
{{- include "megatron-dpo.validate.secrets.named" (merge (dict "name" $last) $more $pass) }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $position, $value := .value }}
{{- include "megatron-dpo.validate.secrets.named" (merge (dict "path" (printf "%s[%d]" $path $position) "name" "" "value" $value) $pass) }}
{{- end }}
{{- else if include "megatron-dpo.isCredential" . }}
- {{ $path }}: a credential in plain text, by its name; remove it and refer to a Secret: {{ include "megatron-dpo.validate.secrets.way" $path }} [secret-named]
{{- end }}
{{- end }}

{{/* --password=x, --token x and PASSWORD=x in a command. Takes (path, value, known). */}}
{{- define "megatron-dpo.validate.secrets.arguments" -}}
{{- $path := .path -}}
{{- $known := .known -}}
{{- $option := printf "(?i)(?:^|[\\s;&|(\"'])(?:-{1,2}[\\w.-]*%s(?:=|[ \\t]+)|[\\w.-]*%s=)[\"']?[^\\s\"';&|]+" $known.ends $known.ends -}}
{{- $before := "" -}}
{{- range $position, $argument := .value }}
{{- $text := toString $argument }}
{{- $found := list }}
{{- if regexMatch "^--?[A-Za-z][\\w.-]*$" $before }}
{{- $found = list (list (trimAll "-" $before) $text) }}
{{- end }}
{{- range regexFindAll $option $text -1 }}
{{- $name := regexFind "[\\w.-]+" . }}
{{- $found = append $found (list (trimAll "-" $name) (regexReplaceAll "^[\\s;&|(\"']?[\\w.-]+(=|[ \\t]+)[\"']?" . "")) }}
{{- end }}
{{- range $found }}
{{- if include "megatron-dpo.isCredential" (dict "name" (first .) "value" (last .) "known" $known) }}
- {{ $path }}[{{ $position }}]: passes a credential in plain text; remove it and refer to a Secret: a variable with a secretKeyRef, and $(NAME) in the argument [secret-argument]
{{- end }}
{{- end }}
{{- $before = $text }}
{{- end }}
{{- end }}

{{/* A file of a ConfigMap: its own name, and `password = x` or "password": "x" in it. Takes (path, key, text, known). */}}
{{- define "megatron-dpo.validate.secrets.file" -}}
{{- $line := printf "(?im)(?:^[ \\t]*(?:export +|- +)?|[\"'{,][ \\t]*)[\\w.-]*%s[\"']?[ \\t]*[:=][ \\t]*(?:\"[^\"\\n]+\"|'[^'\\n]+'|[^\\s\"',}]+)" .known.ends -}}
{{- $isCode := regexMatch "[.]py$" .key -}}
{{- $isFound := include "megatron-dpo.isCredential" (dict "name" .key "value" (ternary "" .text (contains "\n" (trim .text))) "known" .known) -}}
{{- range regexFindAll $line .text -1 }}
{{- $pair := regexReplaceAll "^[\\s\"'{,-]*(?:export +)?" . "" }}
{{- $name := regexFind "^[\\w.-]+" $pair }}
{{- $value := trimPrefix $name $pair | regexFind "[:=][ \\t]*.*$" | regexFind "[^:= \\t].*$" }}
{{- $isQuoted := regexMatch "^[\"']" $value }}
{{- $isCall := regexMatch "^[A-Za-z_][\\w.]*[(\\[]|^[(\\[{]" $value }}
{{- if or $isQuoted (not (or $isCode $isCall)) }}
{{- if include "megatron-dpo.isCredential" (dict "name" $name "value" (trimAll "\"'" $value) "known" $.known) }}{{ $isFound = "yes" }}{{ end }}
{{- end }}
{{- end }}
{{- if $isFound }}
- {{ .path }}: holds a credential in plain text; put the file into a Secret, and mount that with extraVolumes [secret-file]
{{- end }}
{{- end }}

{{/* Non-empty if a name announces a credential and the value is a literal. Takes (name, value, known). */}}
{{- define "megatron-dpo.isCredential" -}}
{{- if and .name (not (kindIs "map" .value)) (not (kindIs "slice" .value)) (not (kindIs "bool" .value)) (not (kindIs "invalid" .value)) }}
{{- if and (regexMatch (printf "(?i)%s$" .known.ends) .name) (not (regexMatch (printf "(?i)^(?:%s)$" .known.ordinary) .name)) }}
{{- if not (regexMatch (printf "(?i)^(?:%s)$" .known.harmless) (include "megatron-dpo.scalar" .value)) }}yes{{ end }}
{{- end }}
{{- end }}
{{- end }}
