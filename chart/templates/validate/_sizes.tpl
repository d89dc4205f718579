{{/*
Limits of what Kubernetes stores: 256 KiB of annotations of an object (TotalAnnotationSizeLimitB), of which controllers take
some, 1 MiB in a ConfigMap, and 1.5 MiB of an object (etcd, --max-request-bytes). Linux passes at most 128 KiB as one
variable or argument (MAX_ARG_STRLEN).
*/}}
{{- define "megatron-dpo.validate.sizes" -}}
{{- $recipe := include "megatron-dpo.recipe" . -}}
{{- $copied := ternary (dict "recipe" $recipe) dict (ne (.Values.jobset.managedBy | default "") "") -}}
{{- $annotations := dict
  "podAnnotations" (list .Values.podAnnotations .Values.network.annotations $copied)
  "jobset.annotations" (list .Values.jobset.annotations)
  "serviceAccount.annotations" (list .Values.serviceAccount.annotations) -}}
{{- range $position, $object := .Values.extraObjects }}
{{- $path := printf "extraObjects[%d]" $position }}
{{- $_ := set $annotations (printf "%s.metadata.annotations" $path) (list .metadata.annotations) }}
{{- $size := len (toJson .) }}
{{- if gt $size 1500000 }}
- {{ $path }}: {{ $size }} bytes, and Kubernetes stores 1.5 MiB of an object; keep it below 1500000 bytes [size-object]
{{- end }}
{{- $size = 0 }}
{{- range $_, $value := .data }}{{ $size = add $size (len $value) }}{{ end }}
{{- range $_, $value := .binaryData }}{{ $size = add $size (div (mul (len $value) 3) 4) }}{{ end }}
{{- if and (eq .kind "ConfigMap") (gt (int $size) 1048576) }}
- {{ $path }}: {{ $size }} bytes, and Kubernetes stores 1 MiB in a ConfigMap; divide it, or put the files on the workspace [size-config-map]
{{- end }}
{{- end }}
{{- range $path, $maps := $annotations }}
{{- $size := int (include "megatron-dpo.sizeOf" $maps) }}
{{- if gt $size 250000 }}
- {{ $path }}: {{ $size }} bytes{{ if eq $path "podAnnotations" }} with network.annotations{{ if $copied }} and the recipe, which jobset.managedBy makes an annotation{{ end }}{{ end }}, and Kubernetes stores 256 KiB of annotations of an object; keep them below 250000 bytes, e.g. in a ConfigMap [size-annotations]
{{- end }}
{{- end }}
{{- $size := add (len $recipe) (ternary (len (include "megatron-dpo.launcher.archive" (list . "launchers"))) 0 (eq (include "megatron-dpo.launcher.from" .) "chart")) }}
{{- if gt $size 1048576 }}
- recipe: makes a ConfigMap of {{ $size }} bytes, and Kubernetes stores 1 MiB; put long values into files of the clone or the workspace [size-config-map]
{{- end }}
{{- $values := len (toJson .Values) }}
{{- if gt $values 131000 }}{{ include "megatron-dpo.validate.sizes.words" . }}{{ end }}
{{- /* The JobSet holds the values of a pod at most three times: clone, download and node. */}}
{{- if gt $values 400000 }}
{{- $size := include "megatron-dpo.spec" . | fromYaml | toJson | len }}
{{- if gt $size 1500000 }}
- values: make a JobSet of {{ $size }} bytes, and Kubernetes stores 1.5 MiB of an object; put long texts into a ConfigMap or files of the workspace [size-object]
{{- end }}
{{- end }}
{{- end }}

{{/* Variables and arguments above 128 KiB. */}}
{{- define "megatron-dpo.validate.sizes.words" -}}
{{- $words := dict -}}
{{- range $path, $map := dict "extraEnv" .Values.extraEnv "network.env" .Values.network.env "recipe.args" .Values.recipe.args }}
{{- range $name, $value := $map }}
{{- range $item := ternary $value (list $value) (kindIs "slice" $value) }}
{{- $text := ternary $item (toJson $item) (kindIs "string" $item) }}
{{- $_ := set $words (printf "%s.%s" $path $name) (max (add (len $name) (len $text)) (get $words (printf "%s.%s" $path $name) | default 0)) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $containers := dict "network.initContainers" .Values.network.initContainers "extraInitContainers" .Values.extraInitContainers }}
{{- range $position, $container := $containers }}
{{- $path := printf "%s[%d]" $key $position }}
{{- range .env }}{{ $_ := set $words (printf "%s.env.%s" $path .name) (add (len .name) (len (.value | default ""))) }}{{ end }}
{{- range $list := list "args" "command" }}
{{- range $place, $word := get $container $list | default list }}{{ $_ := set $words (printf "%s.%s[%d]" $path $list $place) (len $word) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $path, $size := $words }}
{{- if gt (int $size) 131000 }}
- {{ $path }}: {{ $size }} bytes, and Linux passes 128 KiB as one variable or argument; put it into a file, e.g. of a ConfigMap [size-word]
{{- end }}
{{- end }}
{{- end }}

{{/* Bytes of the names and texts of a list of maps. */}}
{{- define "megatron-dpo.sizeOf" -}}
{{- $size := 0 -}}
{{- range . }}
{{- range $name, $value := . }}{{ $size = add $size (len $name) (len (ternary $value (toJson $value) (kindIs "string" $value))) }}{{ end }}
{{- end -}}
{{- $size -}}
{{- end }}
