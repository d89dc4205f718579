{{/* recipe.args against the table of the pinned ms-swift; no flag is named here. */}}
{{- define "megatron-dpo.validate.flags" -}}
{{- $recipe := .Values.recipe -}}
{{- $table := .Files.Get (printf "flags/ms-swift-%s.yaml" .Chart.AppVersion) | fromYaml -}}
{{- $backend := get $table.backends $recipe.backend -}}
{{- $known := concat $backend.flags.common (get $backend.flags $recipe.task) -}}
{{- $sizes := $backend.defaults -}}
{{- range $flag, $value := $recipe.args }}
{{- if not (kindIs "invalid" $value) }}
{{- if hasKey $sizes $flag }}{{- $_ := set $sizes $flag (include "megatron-dpo.quoted" $value | trimAll "\"") }}{{- end }}
{{- if has $flag $backend.launcherOwned }}
- recipe.args.{{ $flag }}: the launcher sets it, since it knows the paths and whether the run resumes; remove it
{{- else if and $recipe.checkFlags (not (has $flag $known)) }}
{{- if hasKey $backend.renamed $flag }}
- recipe.args.{{ $flag }}: ms-swift {{ $table.version }} has no such flag; {{ get $backend.renamed $flag }}
{{- else }}
- recipe.args.{{ $flag }}: ms-swift {{ $table.version }} has no such flag for {{ $recipe.backend }} {{ $recipe.task }}; the nearest is {{ include "megatron-dpo.nearest" (dict "word" $flag "known" $known) }}. For an image with another ms-swift write recipe.checkFlags: false
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- include "megatron-dpo.validate.rules" (dict "rules" $backend.rules "sizes" $sizes "nodes" (int .Values.nodes) "gpus" (max 1 (int .Values.gpusPerNode))) }}
{{- end }}
