{{/* The value of a variable that its reader would refuse. Takes (root, path, name, value). */}}
{{- define "megatron-dpo.validate.variable" -}}
{{- $path := printf "%s.%s" .path .name -}}
{{- $value := include "megatron-dpo.scalar" .value -}}
{{- $isLibrary := regexMatch "^(NCCL|TORCH_NCCL|NVTE|GLOO|UCX|FI|CUDA)_" .name -}}
{{- /* These of torch (getCvarBool) take words. */}}
{{- $isWord := and (regexMatch "^TORCH_NCCL_(AVOID_RECORD_STREAMS|BLOCKING_WAIT|CUDA_EVENT_CACHE|DESYNC_DEBUG|DUMP_ON_TIMEOUT|ENABLE_MONITORING|ENABLE_TIMING|EXTRA_DUMP_ON_EXEC|HIGH_PRIORITY|LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN|NAN_CHECK|PROPAGATE_ERROR|RETHROW_CUDA_ERRORS|USE_TENSOR_REGISTER_ALLOCATOR_HOOK)$" .name) (has (lower $value) (list "true" "false" "yes" "no")) -}}
{{- $readers := dict "N" "NCCL reads" "T" "torch reads" "V" "Transformer Engine reads" "C" "Megatron reads" -}}
{{- $reader := "" -}}
{{- if hasPrefix "NCCL_" .name }}{{ $reader = "N" }}{{ else if hasPrefix "TORCH_NCCL_" .name }}{{ $reader = "T" }}{{ else if hasPrefix "NVTE_" .name }}{{ $reader = "V" }}{{ else if eq .name "CUDA_DEVICE_MAX_CONNECTIONS" }}{{ $reader = "C" }}{{ end }}
{{- if and $reader (has (lower $value) (list "true" "false" "yes" "no" "on" "off")) (not $isWord) }}
- {{ $path }}: {{ .value }} is not a number, and {{ get $readers $reader }} 0 and 1; set {{ $path }}: {{ ternary "1" "0" (has (lower $value) (list "true" "yes" "on")) | quote }} [env-boolean]
{{- else if and $isLibrary (regexMatch "[\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200f}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{2060}\\x{3000}]" $value) }}
- {{ $path }}: holds a blank or an invisible character beyond ASCII; write it again [env-blank]
{{- else if and (has .name (list "NCCL_SOCKET_IFNAME" "GLOO_SOCKET_IFNAME" "NCCL_IB_HCA" "UCX_NET_DEVICES")) (regexMatch "\\s" $value) }}
- {{ $path }}: {{ $value | quote }} holds a blank, which its reader takes for a part of a name; {{ include "megatron-dpo.validate.variable.list" $value }} [env-list-blank]
{{- else if and (eq .name "LD_LIBRARY_PATH") $value }}
- {{ $path }}: {{ $value }} replaces the image's, in which CUDA and its libraries may be found; remove it and set network.libraryPath: [{{ include "megatron-dpo.validate.variable.folders" (dict "root" .root "value" $value) }}], whose folders come before the image's [env-library-path]
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
