{{/*
The known word that shares most pairs of letters with a misspelt one (Dice's coefficient, in
thousandths), or nothing; takes (word, known). Evaluated on failure only.
*/}}
{{- define "megatron-dpo.nearest" -}}
{{- $word := .word -}}
{{- $best := "" -}}
{{- $most := 0 -}}
{{- range $candidate := .known }}
{{- $shared := 0 }}
{{- range $start := until (max 0 (sub (len $word) 1) | int) }}
{{- if contains (substr $start (int (add $start 2)) $word) $candidate }}
{{- $shared = add1 $shared }}
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
