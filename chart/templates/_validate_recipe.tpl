{{- define "megatron-dpo.validate.recipe" -}}
{{- $recipe := .Values.recipe -}}
{{- $forms := "write hf://org/name@revision, ms://org/name@revision or file:///path" -}}
{{- if not (include "megatron-dpo.isSource" $recipe.model) }}
- recipe.model: {{ $recipe.model | quote }} is no source; {{ $forms }}
{{- end }}
{{- if not $recipe.dataset }}
- recipe.dataset: empty; write a list of sources, each hf://org/name@revision, ms://org/name@revision, file:///path or a path in the cloned code
{{- end }}
{{- range $position, $dataset := $recipe.dataset }}
{{- $path := regexReplaceAll "#[1-9][0-9]*$" $dataset "" }}
{{- if include "megatron-dpo.isInClone" $path }}
{{- if not $.Values.code.url }}
- recipe.dataset[{{ $position }}]: {{ $dataset | quote }} is a path in the cloned code, and code.url is empty; set code.url and code.ref, or {{ $forms }}
{{- end }}
{{- else if not (include "megatron-dpo.isSource" $path) }}
- recipe.dataset[{{ $position }}]: {{ $dataset | quote }} is no source; {{ $forms }}, and #N after it for N samples
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty for a model or dataset that launchers/config/sources.py takes; a test compares them. */}}
{{- define "megatron-dpo.isSource" -}}
{{- $hub := "(hf|ms)://\\w[\\w.-]*/\\w[\\w.-]*@(refs/(pr|convert)/)?[^/@#\\s]+(/[^/#][^#]*)?" -}}
{{- $parts := regexReplaceAll "^\\w+://" (trimSuffix "/" .) "" -}}
{{- if regexMatch (printf "^(%s|file:///[^#]+)$" $hub) . }}
{{- if not (regexMatch "(^|/)[.]{1,2}(/|$)|.//|\\s$|[\\x00-\\x1f]" $parts) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* Not empty for a path inside the clone. */}}
{{- define "megatron-dpo.isInClone" -}}
{{- if and (regexMatch "^[^/:#\\s][^:#]*$" .) (not (regexMatch "(^|/)[.]{0,2}(/|$)|\\s$|[\\x00-\\x1f]" (trimSuffix "/" .))) }}yes{{ end }}
{{- end }}
