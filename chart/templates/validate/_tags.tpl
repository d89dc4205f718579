{{/* Images whose tag moves: a restart may get other code than the run began with. */}}
{{- define "megatron-dpo.validate.tags" -}}
{{- if not .Values.image.allowMutableTag }}
{{- range $path, $image := dict "image" .Values.image "stages.image" .Values.stages.image "test.image" .Values.test.image }}
{{- $tag := dig "tag" "" ($image | default dict) | default "" }}
{{- if and (not (dig "digest" "" ($image | default dict))) (include "megatron-dpo.isMovingTag" ($tag | toString)) }}
- {{ $path }}.tag: {{ $tag | quote }} is a tag whose image may change, and a restart may get other code than the start; set {{ $path }}.digest or another tag, or image.allowMutableTag: true [image-mutable]
{{- end }}
{{- end }}
{{- $agent := .Values.restarts.agentImage }}
{{- if and (not (contains "@" $agent)) (include "megatron-dpo.isMovingTag" (regexFind ":[^/:]*$" $agent | trimPrefix ":" | default "latest")) $agent }}
- restarts.agentImage: its tag moves, and a restart may get other code than the run began with; set a digest or another tag, or image.allowMutableTag: true [image-mutable]
{{- end }}
{{- range $key, $containers := dict "network.initContainers" .Values.network.initContainers "extraInitContainers" .Values.extraInitContainers }}
{{- range $position, $container := $containers }}
{{- $name := .image | default "" | toString }}
{{- $tag := regexFind ":[^/:]*$" $name | trimPrefix ":" }}
{{- if and $name (not (contains "@" $name)) (include "megatron-dpo.isMovingTag" ($tag | default "latest")) }}
- {{ $key }}[{{ $position }}].image: {{ if $tag }}{{ $tag | quote }} is a tag whose image may change{{ else }}has no tag, so the tag latest, whose image may change{{ end }}, and a restart may get other code than the start; set a digest or another tag, or image.allowMutableTag: true [image-mutable]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Non-empty for a tag such as latest, latest-cu130 or cuda13-nightly; one with a date or commit, such as main-20250601, stays. */}}
{{- define "megatron-dpo.isMovingTag" -}}
{{- $words := "(latest|nightly|edge|dev|devel|main|master|head|stable|rolling)" -}}
{{- if or (regexMatch (printf "(^|[-_.])%s$" $words) (lower .)) (and (regexMatch (printf "^%s([-_.]|$)" $words) (lower .)) (not (regexMatch "[0-9]{6}|[0-9]{2}[.][0-9]{2}|[-_.]v?[0-9]+[.][0-9]+[.][0-9]+|[-_.][0-9a-f]{7,}([-_.]|$)" (lower .)))) }}yes{{ end }}
{{- end }}
