{{/*
The launcher's command. If the fabric brings its own libraries, a shell prepends them to LD_LIBRARY_PATH and
sources the fabric's settings; the pod's own environment takes precedence. A missing settings file ends the
pod with 80, the preflight's exit code; SIGTERM ends it with 143. Takes (root, role, command).
*/}}
{{- define "megatron-dpo.command" -}}
{{- $network := ternary (include "megatron-dpo.network" .root | fromJson) dict (eq .role "node") -}}
{{- $unpack := include "megatron-dpo.command.unpack" .root -}}
{{- if or $network.libraryPath $network.envFile }}
- bash
- -c
- |
  trap "exit 143" TERM
  {{- with $network.libraryPath }}
  export LD_LIBRARY_PATH={{ join ":" . }}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  {{- end }}
  {{- with $network.envFile }}
  own=$(export -p)
  . {{ . }} || exit 80
  eval "$own"
  {{- end }}
  {{- if $unpack }}
  exec python3 -c '
  {{- $unpack | nindent 2 -}}
  ' {{ .command }}
  {{- else }}
  exec python3 -m launchers {{ .command }}
  {{- end }}
{{- else if $unpack }}
- python3
- -c
- |
  {{- $unpack | nindent 2 }}
- {{ .command }}
{{- else }}
{{- toYaml (list "python3" "-m" "launchers" .command) }}
{{- end }}
{{- end }}

{{/*
The Python program that unpacks the chart's launcher into the working folder and executes it; empty
if an image provides the launcher. It must not contain a single quote. It installs a SIGTERM handler,
because the kernel drops unhandled signals to PID 1. An exec removes handlers but keeps blocked signals
pending: the launcher unblocks SIGTERM once it handles it. Python before 3.11.4 has no extraction filter.
*/}}
{{- define "megatron-dpo.command.unpack" -}}
{{- if eq (include "megatron-dpo.launcher.from" .) "chart" -}}
import os, signal, sys, tarfile
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
for name in "launchers", "training":
    with tarfile.open("{{ include "megatron-dpo.configMap.path" . }}/%s.tar.bz2" % name) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.execv(sys.executable, [sys.executable, "-m", "launchers", *sys.argv[1:]])
{{- end }}
{{- end }}
