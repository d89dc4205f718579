{{/*
All mistakes at once: one line each with the values path, what was given, and the remedy. What is wrong by itself (characters,
credentials, types and forms) is replaced first, so that the relations of the rest are judged too.
To add a check: print `- <path>: <cause>; <remedy> [<id>]` in the file of its subject.
*/}}
{{- define "megatron-dpo.validate" -}}
{{- $defaults := .Files.Get "defaults.yaml" | fromYaml -}}
{{- include "megatron-dpo.defaults" (dict "values" .Values "defaults" $defaults) -}}
{{- $replaced := dict "paths" list -}}
{{- $before := list -}}
{{- $messages := "" -}}
{{- range $subject := list "characters" "secrets" "values" }}
{{- with include (printf "megatron-dpo.validate.%s" $subject) (dict "root" $ "defaults" $defaults "replaced" $replaced) | trim }}
{{- $found := regexReplaceAll "\n\\s*\n*" . "\n" }}
{{- /* Only what was replaced before is left out, whatever else is wrong. */}}
{{- if and $before (eq $subject "values") }}{{ $found = include "megatron-dpo.validate.own" (dict "lines" $found "wrong" $before "names" false "above" false) }}{{ end }}
{{- if $found }}{{ $messages = printf "%s\n%s" $messages $found }}{{ end }}
{{- end }}
{{- if ne $subject "values" }}{{ $before = $replaced.paths }}{{ end }}
{{- end }}
{{- $wrong := $replaced.paths -}}
{{- range $subject := list "unknown" "launchers" "name" "nodes" "workspace" "paths" "stages" "rehearsal" "resources" "code" "recipe" "kueue" "network" "env" "security" "pod" "labels" "volumes" "containers" "podSpec" "objects" "sizes" }}
{{- $found := include (printf "megatron-dpo.validate.%s" $subject) $ | trim }}
{{- if $found }}
{{- $found = regexReplaceAll "\n\\s*\n*" $found "\n" }}
{{- if and $wrong (ne $subject "unknown") }}{{ $found = include "megatron-dpo.validate.own" (dict "lines" $found "wrong" $wrong "names" true "above" true) }}{{ end }}
{{- if $found }}{{ $messages = printf "%s\n%s" $messages $found }}{{ end }}
{{- end }}
{{- end }}
{{- if not (contains "[chart-flags]" $messages) }}
{{- $found := include "megatron-dpo.validate.flags" (dict "Values" .Values "Files" .Files "wrong" $wrong) | trim }}
{{- if $found }}
{{- $found = regexReplaceAll "\n\\s*\n*" $found "\n" }}
{{- if $wrong }}{{ $found = include "megatron-dpo.validate.own" (dict "lines" $found "wrong" $wrong "names" true "above" false) }}{{ end }}
{{- if $found }}{{ $messages = printf "%s\n%s" $messages $found }}{{ end }}
{{- end }}
{{- end }}
{{- if $messages }}
{{- fail (printf "the values cannot work:%s" $messages) }}
{{- end }}
{{- include "megatron-dpo.upgrade" . }}
{{- end }}

{{/*
The lines that are printed. A line about a value that was replaced by a default is left out, since the value is checked again
once it is right; a line about a credential stays, since it depends on no other value. Takes
(lines, wrong: paths of these values, names: whether lines that name one are left out, above: those about a map that holds one).
*/}}
{{- define "megatron-dpo.validate.own" -}}
{{- $kept := list -}}
{{- range $line := splitList "\n" .lines }}
{{- $path := regexFind "^- [^:]+" $line | trimPrefix "- " }}
{{- $isOwn := true }}
{{- range $wrong := $.wrong }}
{{- $plain := regexReplaceAll "\\[.*$" $wrong "" }}
{{- $names := splitList "." $plain }}
{{- $name := $plain }}
{{- if and (eq (first $names) "recipe") (gt (last $names | len) 3) }}{{ $name = last $names }}{{ end }}
{{- /* Messages about keys of the same map name them without it. */}}
{{- if and (gt (len $names) 2) (hasPrefix (initial $names | join ".") $path) }}{{ $name = last $names }}{{ end }}
{{- $isNamed := regexMatch (printf "(^|[^A-Za-z0-9_.])%s([^A-Za-z0-9_]|$)" (regexQuoteMeta $name)) $line }}
{{- if or (hasPrefix $plain $path) (and $.above (hasPrefix (printf "%s." $path) $plain)) (and $.names $isNamed) }}{{ $isOwn = false }}{{ end }}
{{- end }}
{{- if or $isOwn (regexMatch "secret[a-z-]*\\]$" $line) }}{{ $kept = append $kept $line }}{{ end }}
{{- end }}
{{- join "\n" $kept }}
{{- end }}

{{/*
Restore the defaults that a null in a values file removed: Helm deletes such keys, also from the chart's defaults.
Takes (values, defaults); modifies the values, which all templates share.
*/}}
{{- define "megatron-dpo.defaults" -}}
{{- range $key, $default := .defaults }}
{{- if or (not (hasKey $.values $key)) (kindIs "invalid" (get $.values $key)) }}
{{- $_ := set $.values $key $default }}
{{- else if and (kindIs "map" $default) (kindIs "map" (get $.values $key)) }}
{{- include "megatron-dpo.defaults" (dict "values" (get $.values $key) "defaults" $default) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Generated files of the chart. */}}
{{- define "megatron-dpo.validate.launchers" -}}
{{- range list "defaults.yaml" "keys.json" "schema.json" }}
{{- if not ($.Files.Get .) }}
- chart/{{ . }}: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-defaults]
{{- end }}
{{- end }}
{{- if and (eq .Values.launcher.from "volume") (not (include "megatron-dpo.launcher.image" .)) }}
- launcher.from: volume, and this chart names no image of the launcher; use the package of a release, or launcher.from: chart [chart-launcher]
{{- end }}
{{- if and (eq (include "megatron-dpo.launcher.from" .) "chart") (not (and (include "megatron-dpo.launcher.archive" (list . "launchers")) (include "megatron-dpo.launcher.archive" (list . "training")) (.Files.Get "launchers.digest"))) }}
- chart/charts/launcher-archive: not built; run `make chart` in the checkout, or install the packaged chart (make package) [chart-launcher]
{{- end }}
{{- $table := printf "flags/ms-swift-%s.yaml" .Values.recipe.swiftVersion }}
{{- if not (.Files.Get $table) }}
- chart/{{ $table }}: missing; run `make flags` with that ms-swift, or use a recipe.swiftVersion that has one [chart-flags]
{{- end }}
{{- end }}
