{{/*
Values that the schema refuses, one line per mistake. Each is replaced by its default afterwards, or removed, so that the
other checks, which rely on types, run as well; its path is added to the list replaced.paths, by which their follow-up
mistakes are left out. Takes (root, defaults, replaced).
*/}}
{{- define "megatron-dpo.validate.values" -}}
{{- $values := .root.Values -}}
{{- $defaults := .defaults -}}
{{- $replaced := .replaced -}}
{{- $defs := .root.Files.Get "schema.json" | default "{}" | fromJson -}}
{{- range $key, $schema := get (get $defs "" | default dict) "properties" | default dict }}
{{- $value := get $values $key }}
{{- /* Most keys have their default. */}}
{{- if not (and (hasKey $defaults $key) (deepEqual $value (get $defaults $key))) }}
{{- if hasKey $values $key }}
{{- with include "megatron-dpo.schema" (dict "quiet" false "defs" $defs "schema" $schema "value" $value "path" $key) }}
{{- $seen := list "" }}
{{- range splitList "\n" . }}
{{- $path := regexFind "^- [^:]+" . | trimPrefix "- " }}
{{- /* A path whose key and form are both refused has one line. */}}
{{- if not (has $path $seen) }}
{{ . }}
{{- $seen = append $seen $path }}
{{- include "megatron-dpo.schema.reset" (dict "map" $values "defaults" $defaults "above" "" "rest" $path "replaced" $replaced) }}
{{- end }}
{{- end }}
{{- /* What is still wrong is a key that is missing now, or a relation between keys. */}}
{{- if include "megatron-dpo.schema" (dict "quiet" true "defs" $defs "schema" $schema "value" (get $values $key) "path" $key) }}
{{- if hasKey $defaults $key }}{{ $_ := set $values $key (get $defaults $key | deepCopy) }}{{ else }}{{ $_ := unset $values $key }}{{ end }}
{{- $_ := set $replaced "paths" (append $replaced.paths $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Replaces the value at a path, or the list or the map without defaults that holds it. Prints nothing. Takes (map, defaults: those
of the map, above: path of the map, rest: path below it, replaced).
*/}}
{{- define "megatron-dpo.schema.reset" -}}
{{- $rest := .rest -}}
{{- $key := "" -}}
{{- range keys .map }}
{{- $isOnPath := or (eq . $rest) (hasPrefix (printf "%s." .) $rest) (hasPrefix (printf "%s[" .) $rest) }}
{{- if and $isOnPath (gt (len .) (len $key)) }}{{ $key = . }}{{ end }}
{{- end }}
{{- if $key }}
{{- $path := printf "%s.%s" .above $key | trimPrefix "." }}
{{- $below := trimPrefix $key $rest | trimPrefix "." }}
{{- $value := get .map $key }}
{{- $default := get .defaults $key }}
{{- if and $below (kindIs "map" $value) (kindIs "map" $default) }}
{{- include "megatron-dpo.schema.reset" (dict "map" $value "defaults" $default "above" $path "rest" $below "replaced" .replaced) }}
{{- else }}
{{- if hasKey .defaults $key }}{{ $_ := set .map $key (deepCopy $default) }}{{ else }}{{ $_ := unset .map $key }}{{ end }}
{{- $_ := set .replaced "paths" (append .replaced.paths $path) }}
{{- end }}
{{- end }}
{{- end }}
