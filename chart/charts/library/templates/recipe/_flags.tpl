{{/*
Names of recipe.args, checked against the table of recipe.swiftVersion; values.schema.json holds the values that a flag
accepts. No flag is named here.
*/}}
{{- define "megatron-dpo.validate.flags" -}}
{{- $recipe := .Values.recipe -}}
{{- if ne $recipe.backend "script" }}
{{- $files := .Subcharts.library.Files -}}
{{- $table := $files.Get (printf "flags/ms-swift-%s.json" $recipe.swiftVersion) | fromJson -}}
{{- $backends := get ($files.Get "flags/shared.json" | fromJson) "backends" -}}
{{- range $name, $own := $table.backends }}
{{- include "megatron-dpo.flags.join" (dict "shared" (get $backends $name) "own" $own) }}
{{- end }}
{{- $backend := get $backends $recipe.backend -}}
{{- $elsewhere := dict -}}
{{- range $name, $other := omit $backends $recipe.backend }}
{{- $_ := set $elsewhere $name (concat $other.flags.common (get $other.flags $recipe.task)) }}
{{- end }}
{{- $one := dict "elsewhere" $elsewhere "backend" $backend "recipe" $recipe "version" $table.version "known" (concat $backend.flags.common (get $backend.flags $recipe.task)) -}}
{{- range $flag, $value := $recipe.args }}
{{- if not (kindIs "invalid" $value) }}
{{- include "megatron-dpo.validate.flag" (merge (dict "flag" $flag) $one) }}
{{- end }}
{{- end }}
{{- include "megatron-dpo.validate.rules" (dict "backend" $backend "recipe" $recipe "nodes" (int .Values.nodes) "gpus" (max 1 (int .Values.gpusPerNode)) "gpuModel" .Values.gpuModel) }}
{{- end }}
{{- end }}

{{/* Merges the entries of one release into the shared table of a backend. Takes (shared, own); prints nothing. */}}
{{- define "megatron-dpo.flags.join" -}}
{{- range $name, $value := .own }}
{{- $shared := get $.shared $name }}
{{- if kindIs "map" $shared }}
{{- include "megatron-dpo.flags.join" (dict "shared" $shared "own" $value) }}
{{- else if kindIs "slice" $shared }}
{{- $_ := set $.shared $name (concat $shared $value) }}
{{- else }}
{{- $_ := set $.shared $name $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* The name of one flag; of a setting of verl, torchtitan or NeMo the last part is looked up. Takes (flag, backend, recipe, version, known, elsewhere: the other backend's flags). */}}
{{- define "megatron-dpo.validate.flag" -}}
{{- if not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" .flag) }}
{{- $last := splitList "." .flag | last -}}
{{- $advice := contains "." .flag | ternary "use a flag of ms-swift: letters, digits and _" (printf "use %s" (regexReplaceAll "[^A-Za-z0-9_]" (.flag | trimAll "- ") "_" | default "letters, digits and _")) -}}
{{- if regexMatch "^(data|model|optim|optimizer|trainer|training|parallelism|exp_manager|engine|actor_rollout_ref\\.(model|actor))\\." .flag }}
{{- $advice = has $last .known | ternary (printf "use %s" $last) (get .backend.renamed $last | default $advice) }}
{{- end }}
- recipe.args: {{ .flag | quote }} is not a flag name; {{ $advice }} [flag-name]
{{- else if has .flag .backend.launcherOwned }}
- recipe.args.{{ .flag }}: set by the launcher, from recipe.model, recipe.dataset and what the run has; remove it [flag-owned]
{{- else if hasKey .backend.secret .flag }}
- recipe.args.{{ .flag }}: a secret, which everybody who can see the run could read; remove it and {{ get .backend.secret .flag }} [flag-secret]
{{- else if and .recipe.checkFlags (not (has .flag .known)) }}
{{- if hasKey .backend.renamed .flag }}
- recipe.args.{{ .flag }}: ms-swift {{ .version }} has no such flag; {{ get .backend.renamed .flag }} [flag-renamed]
{{- else if has .flag .backend.flags.rlhf }}
- recipe.args.{{ .flag }}: is a flag of recipe.task rlhf, not {{ .recipe.task }}; remove it (null removes one of an earlier file) or set recipe.task: rlhf [flag-task]
{{- else }}
- recipe.args.{{ .flag }}: ms-swift {{ .version }} has no such flag for {{ .recipe.backend }} {{ .recipe.task }}{{ include "megatron-dpo.flags.advice" . }}. For an image with another ms-swift set recipe.swiftVersion, or recipe.checkFlags: false [flag-unknown]
{{- end }}
{{- end }}
{{- end }}

{{/* A suggestion for an unknown flag; nothing if no name is close. Takes the same as megatron-dpo.validate.flag. */}}
{{- define "megatron-dpo.flags.advice" -}}
{{- $flag := .flag -}}
{{- $other := "" -}}
{{- range $name, $flags := .elsewhere }}
{{- if has $flag $flags }}{{ $other = $name }}{{ end }}
{{- end }}
{{- if $other -}}
; it is a flag of recipe.backend {{ $other }}
{{- else }}
{{- with include "megatron-dpo.nearest" (dict "word" $flag "known" (concat .known (keys .backend.renamed | sortAlpha))) -}}
{{- if has . $.backend.launcherOwned -}}
; if you mean {{ . }}: the launcher sets it
{{- else if has . $.known -}}
; the nearest is {{ . }}
{{- else -}}
; if you mean {{ . }}: {{ get $.backend.renamed . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The known word that shares most pairs of letters with a misspelt one (Dice's coefficient, in thousandths), or
nothing if none shares 620: a guess would mislead. The first letters of the words of one must be, in order, among those
of the other, and it may have no other number (launchers/suggestion.py). Evaluated on failure only. Takes (word, known).
*/}}
{{- define "megatron-dpo.nearest" -}}
{{- $word := .word -}}
{{- $initials := include "megatron-dpo.initials" $word -}}
{{- $numbers := list "" (regexReplaceAll "[^0-9]" $word "") -}}
{{- $best := "" -}}
{{- $most := 619 -}}
{{- range $candidate := .known }}
{{- $shared := 0 }}
{{- $own := include "megatron-dpo.initials" $candidate }}
{{- $isWithin := or (regexMatch (regexReplaceAll "(.)" $own "${1}.*" | printf "^%s") $initials) (regexMatch (regexReplaceAll "(.)" $initials "${1}.*" | printf "^%s") $own) }}
{{- if and $isWithin (has (regexReplaceAll "[^0-9]" $candidate "") $numbers) }}
{{- range $start := until (max 0 (sub (len $word) 1) | int) }}
{{- if contains (substr $start (int (add $start 2)) $word) $candidate }}
{{- $shared = add1 $shared }}
{{- end }}
{{- end }}
{{- end }}
{{- $score := div (mul 2000 $shared) (max 1 (add (len $word) (len $candidate))) | int }}
{{- if gt $score $most }}
{{- $best = $candidate }}
{{- $most = $score }}
{{- end }}
{{- end }}
{{- $best }}
{{- end }}

{{/* The first letter of each word of a flag: abc of apple_bread_cake. */}}
{{- define "megatron-dpo.initials" -}}
{{- regexReplaceAll "_*([A-Za-z0-9])[A-Za-z0-9]*_*" . "${1}" }}
{{- end }}
