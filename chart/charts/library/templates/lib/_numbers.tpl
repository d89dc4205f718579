{{/* A Kubernetes quantity as a plain number: bytes of 1Gi, cores of 500m. */}}
{{- define "megatron-dpo.quantity" -}}
{{- $factor := dict "m" 0.001 "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15
  "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- $text := toString . -}}
{{- mulf (regexFind "^[0-9.]+([eE][0-9]+)?" $text | float64) (get $factor (regexFind "[A-Za-z]*$" $text)) | printf "%.3f" -}}
{{- end }}

{{/* Non-empty for the text of a number, as the launcher accepts it. */}}
{{- define "megatron-dpo.isNumber" -}}
{{ if regexMatch "^[-+]?([0-9]{1,30}[.]?[0-9]{0,30}|[.][0-9]{1,30})([eE][-+]?[0-9]{1,2})?$" . }}yes{{ end }}
{{- end }}
