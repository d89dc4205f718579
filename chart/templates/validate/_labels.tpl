{{/* Annotations with a meaning of their own, selectors by label, and names that YAML made booleans. */}}
{{- define "megatron-dpo.validate.labels" -}}
{{- range $path, $annotations := dict "podAnnotations" .Values.podAnnotations "network.annotations" .Values.network.annotations }}
{{- include "megatron-dpo.validate.labels.annotations" (dict "root" $ "path" $path "annotations" $annotations) }}
{{- end }}
{{- range $path, $affinity := dict "affinity" .Values.affinity "stages.affinity" .Values.stages.affinity "test.affinity" .Values.test.affinity }}
{{- range $kind, $given := pick ($affinity | default dict) "podAffinity" "podAntiAffinity" }}
{{- $path := printf "%s.%s" $path $kind }}
{{- range $position, $term := ($given | default dict).requiredDuringSchedulingIgnoredDuringExecution }}
{{- include "megatron-dpo.validate.labels.keys" (dict "path" (printf "%s.requiredDuringSchedulingIgnoredDuringExecution[%d]" $path $position) "term" . "default" dict) }}
{{- end }}
{{- range $position, $term := ($given | default dict).preferredDuringSchedulingIgnoredDuringExecution }}
{{- include "megatron-dpo.validate.labels.keys" (dict "path" (printf "%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm" $path $position) "term" .podAffinityTerm "default" dict) }}
{{- end }}
{{- end }}
{{- end }}
{{- $gang := include "megatron-dpo.gang.labels" . | fromYaml }}
{{- range $position, $constraint := .Values.topologySpreadConstraints }}
{{- include "megatron-dpo.validate.labels.keys" (dict "path" (printf "topologySpreadConstraints[%d]" $position) "term" . "default" $gang) }}
{{- end }}
{{- $maps := pick .Values "podLabels" "podAnnotations" "nodeSelector" "jobset" "monitoring" "affinity" "topologySpreadConstraints" "networkPolicy" "serviceAccount" "extraObjects" "extraVolumes" "extraInitContainers" "stages" "test" "workspace" }}
{{- if regexMatch "\"(true|false)\":" (toJson $maps) }}
{{- range $path, $value := $maps }}{{ include "megatron-dpo.validate.labels.boolean" (dict "path" $path "value" $value) }}{{ end }}
{{- end }}
{{- end }}

{{/* Annotations that the API server reads. Takes (root, path, annotations). */}}
{{- define "megatron-dpo.validate.labels.annotations" -}}
{{- $path := .path -}}
{{- $containers := list "launcher" -}}
{{- if eq $path "network.annotations" }}
{{- range (include "megatron-dpo.network" .root | fromJson).initContainers }}{{ $containers = append $containers .name }}{{ end }}
{{- end }}
{{- range $name, $given := .annotations }}
{{- $value := include "megatron-dpo.scalar" $given }}
{{- $container := regexFind "^container[.]apparmor[.]security[.]beta[.]kubernetes[.]io/.*" $name | splitList "/" | last }}
{{- if and (eq $name "controller.kubernetes.io/pod-deletion-cost") (not (and (regexMatch "^(0|-?[1-9][0-9]{0,9})$" $value) (le (float64 $value) 2147483647.0) (ge (float64 $value) -2147483648.0))) }}
- {{ $path }}: {{ $name }} is {{ $value | quote }}; use a whole number of 32 bits, such as 100 [annotation-value]
{{- else if and $container (not (has $container $containers)) }}
- {{ $path }}: {{ $name }} names the container {{ $container }}, which {{ ternary "the gang's pods do" "not all pods" (eq $path "network.annotations") }} {{ ternary "not have" "have" (eq $path "network.annotations") }}; use {{ join " or " $containers }}, or extraInitContainers with securityContext.appArmorProfile [annotation-value]
{{- else if and $container (not (regexMatch "^(runtime/default|unconfined|localhost/.+)$" $value)) }}
- {{ $path }}: {{ $name }} is {{ $value | quote }}; use runtime/default, unconfined or localhost/NAME [annotation-value]
{{- end }}
{{- end }}
{{- end }}

{{/* Keys of matchLabelKeys and mismatchLabelKeys: each once, and not in the selector. Takes (path, term, default: labels). */}}
{{- define "megatron-dpo.validate.labels.keys" -}}
{{- $selector := .term.labelSelector | default (dict "matchLabels" .default) -}}
{{- $selected := keys ($selector.matchLabels | default dict) -}}
{{- range $selector.matchExpressions }}{{ $selected = append $selected .key }}{{ end -}}
{{- range $field := list "matchLabelKeys" "mismatchLabelKeys" }}
{{- range $key := get $.term $field | default list }}
{{- if has $key $selected }}
- {{ $.path }}.{{ $field }}: {{ $key }} is in {{ ternary "labelSelector" "the chart's own selector" (hasKey $.term "labelSelector") }} too, and Kubernetes accepts a key once; remove one of them [label-keys]
{{- end }}
{{- end }}
{{- end }}
{{- range $key := .term.mismatchLabelKeys }}
{{- if has $key ($.term.matchLabelKeys | default list) }}
- {{ $.path }}.mismatchLabelKeys: {{ $key }} is in matchLabelKeys too, and Kubernetes accepts a key once; remove one of them [label-keys]
{{- end }}
{{- end }}
{{- end }}

{{/* Names that YAML made booleans, in a value and all below it. Takes (path, value). */}}
{{- define "megatron-dpo.validate.labels.boolean" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value }}
{{- range $name, $value := .value }}
{{- if has $name (list "true" "false") }}
- {{ $path }}: YAML makes the name {{ $name }} of an unquoted {{ ternary "on, y and yes" "off, n and no" (eq $name "true") }}; use another one [name-boolean]
{{- end }}
{{- include "megatron-dpo.validate.labels.boolean" (dict "path" (printf "%s.%s" $path $name) "value" $value) }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $position, $value := .value }}
{{- include "megatron-dpo.validate.labels.boolean" (dict "path" (printf "%s[%d]" $path $position) "value" $value) }}
{{- end }}
{{- end }}
{{- end }}
