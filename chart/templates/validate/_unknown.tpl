{{/*
Unknown keys. The schema lets them pass (definitions.unknown), and editors mark them. keys.json holds
the keys of each map.
*/}}
{{- define "megatron-dpo.validate.unknown" -}}
{{- $levels := .Files.Get "keys.json" | default "{}" | fromJson -}}
{{- $unknown := list -}}
{{- range $level, $known := $levels }}
{{- $map := $.Values }}
{{- range splitList "." $level | compact }}
{{- if kindIs "map" $map }}{{ $map = get $map . }}{{ end }}
{{- end }}
{{- if kindIs "map" $map }}
{{- range $key := keys $map | sortAlpha }}
{{- if not (has $key $known) }}
{{- $unknown = append $unknown (dict "level" $level "key" $key "keys" $known) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if $unknown }}
{{- $names := include "megatron-dpo.unknown.names" (dict "root" $ "levels" $levels) | fromJson }}
{{- range $unknown }}
{{- $shown := ternary .key (trunc 60 .key | printf "%+q") (regexMatch "^[A-Za-z0-9_./-]{1,60}$" .key) }}
- {{ printf "%s.%s" .level $shown | trimPrefix "." }}: not a key of this chart; {{ include "megatron-dpo.unknown.remedy" (merge (dict "names" $names) .) }} [key-unknown]
{{- end }}
{{- end }}
{{- end }}

{{/* A name as it is compared: without case, - and _. */}}
{{- define "megatron-dpo.unknown.plain" -}}
{{- regexReplaceAll "[^a-z0-9]" (lower .) "" -}}
{{- end }}

{{/*
Every name that a user may mean, as JSON: plain name to "paths" (of keys, and of flags below recipe.args), "says" (of
what is renamed or set by the launcher) and "word" (for the search of the nearest). Takes (root, levels).
*/}}
{{- define "megatron-dpo.unknown.names" -}}
{{- $names := dict -}}
{{- range $level, $keys := .levels }}
{{- range $key := $keys }}
{{- include "megatron-dpo.unknown.add" (dict "names" $names "word" (snakecase $key) "path" (printf "%s.%s" $level $key | trimPrefix ".")) }}
{{- end }}
{{- end }}
{{- $recipe := .root.Values.recipe -}}
{{- $backends := get (.root.Files.Get "flags/shared.yaml" | fromYaml) "backends" -}}
{{- $own := get (.root.Files.Get (printf "flags/ms-swift-%s.yaml" $recipe.swiftVersion) | fromYaml) "backends" | default dict -}}
{{- with get $backends $recipe.backend }}
{{- $owned := .launcherOwned }}
{{- include "megatron-dpo.flags.join" (dict "shared" . "own" (get $own $recipe.backend | default dict)) }}
{{- range $flag := concat .flags.common (get .flags $recipe.task | default list) }}
{{- $entry := ternary (dict "says" "remove it (the launcher sets it)") (dict "path" (printf "recipe.args.%s" $flag)) (has $flag $owned) }}
{{- include "megatron-dpo.unknown.add" (merge (dict "names" $names "word" $flag) $entry) }}
{{- end }}
{{- range $flag, $advice := .renamed }}
{{- include "megatron-dpo.unknown.add" (dict "names" $names "word" $flag "says" $advice) }}
{{- end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* Adds one meaning of a name. Takes (names, word, path or says); prints nothing. */}}
{{- define "megatron-dpo.unknown.add" -}}
{{- $plain := include "megatron-dpo.unknown.plain" .word -}}
{{- $entry := get .names $plain | default (dict "word" .word "paths" list "says" "") -}}
{{- if .path }}{{ $_ := set $entry "paths" (append $entry.paths .path) }}{{ end }}
{{- if .says }}{{ $_ := set $entry "says" .says }}{{ end }}
{{- $_ := set .names $plain $entry }}
{{- end }}

{{/*
The remedy for an unknown key: a name that differs in case, - and _ only, otherwise the nearest of all keys, flags and
renames; those of the same map come first, and in maps but recipe no flag is near by chance. Takes (level, key, keys, names).
*/}}
{{- define "megatron-dpo.unknown.remedy" -}}
{{- $names := .names -}}
{{- $entry := get $names (include "megatron-dpo.unknown.plain" .key) -}}
{{- $verb := "use" -}}
{{- if not $entry }}
{{- $verb = "the nearest is" }}
{{- $words := list }}
{{- range .keys }}{{ $words = append $words (snakecase .) }}{{ end }}
{{- if has .level (list "" "recipe") }}
{{- range $plain, $other := $names }}{{ $words = append $words $other.word }}{{ end }}
{{- end }}
{{- with include "megatron-dpo.nearest" (dict "word" (snakecase .key) "known" $words) }}
{{- $entry = get $names (include "megatron-dpo.unknown.plain" .) }}
{{- else }}
{{- /* Short words share too few pairs of letters: the same but for the end or the order, or a beginning. */}}
{{- range .keys }}
{{- $isNear := and (hasPrefix (substr 0 (int (sub (len $.key) 1)) $.key) .) (le (len .) (add (len $.key) 2)) }}
{{- $isMixed := eq (splitList "" . | sortAlpha | join "") (splitList "" $.key | sortAlpha | join "") }}
{{- if and (ge (len $.key) 3) (or $isNear $isMixed (and (hasPrefix $.key .) (ge (len $.key) 4))) }}
{{- $entry = get $names (include "megatron-dpo.unknown.plain" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $own := list }}
{{- $paths := list }}
{{- with $entry }}
{{- $paths = .paths }}
{{- range .paths }}
{{- if eq (regexReplaceAll "[.]?[^.]+$" . "") $.level }}{{ $own = append $own . }}{{ end }}
{{- end }}
{{- end }}
{{- if $own -}}
{{ $verb }} {{ first $own }}
{{- else if and $paths (le (len $paths) (ternary 1 2 (ne .level ""))) -}}
{{ $verb }} {{ join " or " $paths }}
{{- else if and $entry (not $paths) (has .level (list "" "recipe")) -}}
if you mean the flag {{ $entry.word }} of recipe.args: {{ $entry.says }}
{{- else if and .level (le (len .keys) 16) -}}
remove it, or use one of {{ join ", " .keys }}
{{- else -}}
remove it (chart/VALUES.md has a table of all keys)
{{- end }}
{{- end }}
