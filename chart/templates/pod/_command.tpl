{{/*
The launcher's command; takes (root, role, command). Where the fabric's libraries are not the
image's, a shell puts them first and sources the fabric's settings, over which the pod's own
environment wins. Without them no preflight could succeed: exit 80 is the preflight's.
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
