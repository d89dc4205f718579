{{/* What launchers/config/preflight.py reads, as JSON of NAME -> string; what is not set is left out. */}}
{{- define "megatron-dpo.preflight.settings" -}}
{{- $p := .Values.preflight -}}
{{- $settings := dict
  "SKIP_PREFLIGHT" (ternary "1" "0" $p.skip)
  "DPO_PREFLIGHT_DEADLINE" (toString (int $p.deadlineSeconds)) -}}
{{- if .Values.gpuModel }}{{ $_ := set $settings "GPU_MODEL" .Values.gpuModel }}{{ end }}
{{- if $p.skipChecks }}{{ $_ := set $settings "DPO_PREFLIGHT_SKIP" (join "," $p.skipChecks) }}{{ end }}
{{- if $p.strict }}{{ $_ := set $settings "DPO_PREFLIGHT_STRICT" "1" }}{{ end }}
{{- if $p.nodeFloorGBs }}
{{- $_ := set $settings "DPO_PREFLIGHT_NODE_FLOOR" (include "megatron-dpo.scalar" $p.nodeFloorGBs) }}
{{- end }}
{{- toJson $settings }}
{{- end }}
