{{/*
The launcher's command. If the fabric brings its own libraries, a shell prepends them to LD_LIBRARY_PATH and
sources the fabric's settings, over which the pod's own environment wins. A missing settings file ends the
pod with 80, the preflight's exit code. Takes (root, role, command).
*/}}
{{- define "megatron-dpo.command" -}}
{{- $network := ternary (include "megatron-dpo.network" .root | fromJson) dict (eq .role "node") -}}
{{- if or $network.libraryPath $network.envFile }}
- bash
- -c
- |
  {{- with $network.libraryPath }}
  export LD_LIBRARY_PATH={{ join ":" . }}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  {{- end }}
  {{- with $network.envFile }}
  own=$(export -p)
  . {{ . }} || exit 80
  eval "$own"
  {{- end }}
  exec python3 -m launchers {{ .command }}
{{- else }}
{{- toYaml (list "python3" "-m" "launchers" .command) }}
{{- end }}
{{- end }}
