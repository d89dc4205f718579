{{/* The value of a variable that its reader would refuse. Takes (root, path, name, value). */}}
{{- define "megatron-dpo.validate.variable" -}}
{{- $path := printf "%s.%s" .path .name -}}
{{- $value := include "megatron-dpo.scalar" .value -}}
{{- $isLibrary := regexMatch "^(NCCL|TORCH_NCCL|NVTE|GLOO|UCX|FI|CUDA)_" .name -}}
{{- /* These of torch (getCvarBool) take words. */}}
{{- $isWord := and (regexMatch "^TORCH_NCCL_(AVOID_RECORD_STREAMS|BLOCKING_WAIT|CUDA_EVENT_CACHE|DESYNC_DEBUG|DUMP_ON_TIMEOUT|ENABLE_MONITORING|ENABLE_TIMING|EXTRA_DUMP_ON_EXEC|HIGH_PRIORITY|LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN|NAN_CHECK|PROPAGATE_ERROR|RETHROW_CUDA_ERRORS|USE_TENSOR_REGISTER_ALLOCATOR_HOOK)$" .name) (has (lower $value) (list "true" "false" "yes" "no")) -}}
{{- $readers := dict "N" "NCCL reads" "T" "torch reads" "V" "Transformer Engine reads" "C" "Megatron reads" -}}
{{- $reader := "" -}}
{{- /* MKL reads one number, OpenMP one for each level of nesting. */}}
{{- $threads := "\\s*[1-9][0-9]{0,3}\\s*" -}}
{{- if hasPrefix "NCCL_" .name }}{{ $reader = "N" }}{{ else if hasPrefix "TORCH_NCCL_" .name }}{{ $reader = "T" }}{{ else if hasPrefix "NVTE_" .name }}{{ $reader = "V" }}{{ else if eq .name "CUDA_DEVICE_MAX_CONNECTIONS" }}{{ $reader = "C" }}{{ end }}
{{- if and $reader (has (lower $value) (list "true" "false" "yes" "no" "on" "off")) (not $isWord) }}
- {{ $path }}: {{ .value }} is not a number, and {{ get $readers $reader }} 0 and 1; set {{ $path }}: {{ ternary "1" "0" (has (lower $value) (list "true" "yes" "on")) | quote }} [env-boolean]
{{- else if and $isLibrary (regexMatch "[\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200f}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{2060}\\x{3000}]" $value) }}
- {{ $path }}: holds a blank or an invisible character beyond ASCII; write it again [env-blank]
{{- else if and (has .name (list "NCCL_SOCKET_IFNAME" "GLOO_SOCKET_IFNAME" "NCCL_IB_HCA" "UCX_NET_DEVICES")) (regexMatch "\\s" $value) }}
- {{ $path }}: {{ $value | quote }} holds a blank, which its reader takes for a part of a name; {{ include "megatron-dpo.validate.variable.list" $value }} [env-list-blank]
{{- else if and (eq .name "LD_LIBRARY_PATH") $value }}
- {{ $path }}: {{ $value }} replaces the image's, in which CUDA and its libraries may be found; remove it and set network.libraryPath: [{{ include "megatron-dpo.validate.variable.folders" (dict "root" .root "value" $value) }}], whose folders come before the image's [env-library-path]
{{- /* Kubernetes replaces $(NAME), by a value that is not known here. */}}
{{- else if contains "$(" $value }}
{{- else if and (eq .name "NCCL_DEBUG") (not (has (upper $value) (list "" "VERSION" "WARN" "INFO" "ABORT" "TRACE"))) }}
- {{ $path }}: {{ $value | quote }} is not a level of NCCL, which then logs nothing; use debug.ncclDebug: INFO [env-nccl-debug]
{{- else if and (has .name (list "OMP_NUM_THREADS" "MKL_NUM_THREADS")) (not (regexMatch (ternary $threads (printf "%s(,%s)*" $threads $threads) (hasPrefix "MKL" .name) | printf "^(\\s*|%s)$") $value)) }}
- {{ $path }}: {{ $value | quote }} is not a number of threads, and each process would start one per processor; use a number such as 8, or remove it for torchrun's 1 [env-threads]
{{- else if and (eq .name "PATH") (not (regexMatch "(^|:)/usr/bin/?(:|$)" $value)) }}
- {{ $path }}: {{ $value }} replaces the image's, and sh and python3 are not found without its folders; write all of them, such as /opt/tools/bin:/usr/local/bin:/usr/bin:/bin [env-path]
{{- else if and (eq .name "PYTHONMALLOC") (not (has $value (list "" "default" "debug" "malloc" "malloc_debug" "mimalloc" "mimalloc_debug" "pymalloc" "pymalloc_debug"))) }}
- {{ $path }}: {{ $value | quote }} is not an allocator, and Python does not start; use malloc or pymalloc_debug, or remove it [env-python]
{{- else if and (eq .name "PYTHONHASHSEED") (not (and (regexMatch "^(|random|[0-9]{1,10})$" $value) (le (float64 (regexFind "^[0-9]+$" $value | default "0")) 4294967295.0))) }}
- {{ $path }}: {{ $value | quote }} is not a seed, and Python does not start; use random or a number up to 4294967295 [env-python]
{{- else if and (eq .name "PYTHONINTMAXSTRDIGITS") (not (and (regexMatch "^(0|[1-9][0-9]*)$" $value) (or (eq $value "0") (ge (float64 $value) 640.0)))) }}
- {{ $path }}: {{ $value | quote }}, and Python starts with 0 or at least 640 only; use one of these or remove it [env-python]
{{- end }}
{{- end }}

{{/* The remedy of a list of devices with blanks: ^ and = before it apply to all, and no comma follows them. */}}
{{- define "megatron-dpo.validate.variable.list" -}}
{{- $prefix := regexFind "^[\\^=\\s,]+" . -}}
{{- $names := regexReplaceAll "[\\s,]+" (trimPrefix $prefix . | trim) "," -}}
{{- if $names }}use {{ print (regexReplaceAll "[\\s,]" $prefix "") $names | quote }}{{ else }}remove it{{ end }}
{{- end }}

{{/* Folders for network.libraryPath: those that it replaces, and those of the variable's. Takes (root, value). */}}
{{- define "megatron-dpo.validate.variable.folders" -}}
{{- $folders := (include "megatron-dpo.network" .root | fromJson).libraryPath | default list -}}
{{- range splitList ":" .value | compact }}
{{- $folder := trimSuffix "/" . }}
{{- $folders = append $folders (ternary $folder "FOLDER" (regexMatch "^(/[A-Za-z0-9._-]+)+$" $folder)) }}
{{- end }}
{{- uniq $folders | join ", " | default "FOLDER" }}
{{- end }}
