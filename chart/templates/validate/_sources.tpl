{{/* Sources of model and datasets. */}}
{{- define "megatron-dpo.validate.recipe" -}}
{{- $recipe := .Values.recipe -}}
{{- $forms := "use hf://org/name@revision, ms://org/name@revision or file:///path" -}}
{{- if not (include "megatron-dpo.isSource" $recipe.model) }}
- recipe.model: {{ $recipe.model | quote }} is not a source; {{ with include "megatron-dpo.sourceNear" $recipe.model }}the nearest is {{ . }}; {{ end }}{{ $forms }} [model-source]
{{- end }}
{{- if not $recipe.dataset }}
- recipe.dataset: empty; set a list of sources, each hf://org/name@revision, ms://org/name@revision, file:///path or a path in the cloned code [dataset-missing]
{{- end }}
{{- $seen := dict -}}
{{- range $position, $dataset := $recipe.dataset }}
{{- $path := regexReplaceAll "#[1-9][0-9]*$" $dataset "" }}
{{- $near := "" }}
{{- with include "megatron-dpo.sourceNear" $path }}{{ $near = printf "the nearest is %s%s; " . (trimPrefix $path $dataset) }}{{ end }}
{{- if include "megatron-dpo.isInClone" $path }}
{{- if not $.Values.code.url }}
{{- /* The name of a file is not the name of a dataset on a hub. */}}
{{- if regexMatch "[.](arrow|csv|jsonl?|parquet|tsv|txt)$" $path }}{{ $near = "" }}{{ end }}
- recipe.dataset[{{ $position }}]: {{ $dataset | quote }} is a path in the cloned code, and code.url is empty; {{ $near }}set code.url and code.ref, or {{ $forms }} [source-no-clone]
{{- end }}
{{- else if not (include "megatron-dpo.isSource" $path) }}
- recipe.dataset[{{ $position }}]: {{ $dataset | quote }} is not a source; {{ $near }}{{ $forms }}, and append #N for N samples [dataset-source]
{{- end }}
{{- if or (include "megatron-dpo.isInClone" $path) (include "megatron-dpo.isSource" $path) }}
{{- if hasKey $seen (trimSuffix "/" $path) }}
- recipe.dataset[{{ $position }}]: {{ $path | quote }} is {{ get $seen (trimSuffix "/" $path) }} too, and rows that are held out of one would be trained on in the other; list it once, with #N for N samples, which may be more than it has [dataset-twice]
{{- end }}
{{- $_ := set $seen (trimSuffix "/" $path) (printf "recipe.dataset[%d]" $position) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Non-empty for a model or dataset that launchers/config/sources.py accepts; a test compares both. */}}
{{- define "megatron-dpo.isSource" -}}
{{- $hub := "(hf|ms)://\\w[\\w.-]*/\\w[\\w.-]*@(refs/(pr|convert)/)?[^/@#\\s]+(/[^/#][^#]*)?" -}}
{{- $parts := regexReplaceAll "^\\w+://" (trimSuffix "/" .) "" -}}
{{- if regexMatch (printf "^(%s|file:///[^#]+)$" $hub) . }}
{{- if not (regexMatch "(^|/)[.]{1,2}(/|$)|.//|\\s$|[\\x00-\\x1f]" $parts) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* The source that a text probably means; empty if there is none: a page of a hub, its name alone, a path. */}}
{{- define "megatron-dpo.sourceNear" -}}
{{- $found := regexReplaceAll "^https?://(?:www[.])?(?:huggingface[.]co|hf[.]co)/(?:datasets/)?" . "hf://" -}}
{{- $found = regexReplaceAll "^https?://(?:www[.])?modelscope[.](?:cn|ai)/(?:models|datasets)/" $found "ms://" -}}
{{- $found = regexReplaceAll "^((?:hf|ms)://[^/@]+/[^/@]+)/tree/([^/@]+)/?$" $found "${1}@${2}" | trimSuffix "/" -}}
{{- if regexMatch "^/[^/]" $found }}{{ $found = print "file://" $found }}{{ end -}}
{{- if regexMatch "^\\w[\\w.-]*/\\w[\\w.-]*(@\\S+)?$" $found }}{{ $found = print "hf://" $found }}{{ end -}}
{{- if regexMatch "^(hf|ms)://[^/@]+/[^/@]+$" $found }}{{ $found = print $found "@" (ternary "main" "master" (hasPrefix "hf:" $found)) }}{{ end -}}
{{- if and (ne $found .) (include "megatron-dpo.isSource" $found) }}{{ $found }}{{ end -}}
{{- end }}

{{/* Non-empty for a path inside the cloned code. */}}
{{- define "megatron-dpo.isInClone" -}}
{{- if and (regexMatch "^[^/:#\\s][^:#]*$" .) (not (regexMatch "(^|/)[.]{0,2}(/|$)|\\s$|[\\x00-\\x1f]" (trimSuffix "/" .))) }}yes{{ end }}
{{- end }}

{{/* A credential in the URL of the code, which is never printed. */}}
{{- define "megatron-dpo.validate.code" -}}
{{- with .Values.code }}
{{- if regexMatch "^(https?://[^/]*@|\\w+://[^/@]*:[^/]*@)" .url }}
- code.url: holds a name or password, which everybody who can see the run could read; remove it from the URL and put a token into a Secret named by code.existingSecret [code-url-secret]
{{- else if regexMatch "^https?://[^/]+/[^/]+/[^/]+/(-/)?(tree|blob|commit|src)/" .url }}
- code.url: the page of a folder in a browser, not a repository; use the part before /tree, and put the branch into code.ref [code-url-page]
{{- end }}
{{- end }}
{{- end }}
