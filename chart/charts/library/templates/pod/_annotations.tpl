{{/* Annotations of the pod template: checksums, Kueue's topology (gang only), the network's, then the user's. */}}
{{- define "megatron-dpo.annotations" -}}
{{- $annotations := dict "checksum/recipe" (include "megatron-dpo.recipe" .root | sha256sum) -}}
{{- if .root.Values.jobset.managedBy }}
{{- $_ := set $annotations "megatron-dpo/recipe" (include "megatron-dpo.recipe" .root) }}
{{- end }}
{{- with include "megatron-dpo.launcher.digest" .root }}
{{- $_ := set $annotations "checksum/launchers" . }}
{{- end }}
{{- if .root.Values.kueue.forceDeleteOnNodeFailure }}
{{- $_ := set $annotations "kueue.x-k8s.io/safe-to-forcefully-delete" "true" }}
{{- end }}
{{- if eq .role "node" }}
{{- with .root.Values.kueue.topology }}
{{- if ne .mode "none" }}
{{- $value := ternary "true" .key (eq .mode "unconstrained") }}
{{- $_ := set $annotations (printf "kueue.x-k8s.io/podset-%s-topology" .mode) $value }}
{{- end }}
{{- if .slice.size }}
{{- $_ := set $annotations "kueue.x-k8s.io/podset-slice-required-topology" .slice.key }}
{{- $_ := set $annotations "kueue.x-k8s.io/podset-slice-size" (toString (int .slice.size)) }}
{{- end }}
{{- end }}
{{- $annotations = merge $annotations (include "megatron-dpo.network" .root | fromJson).annotations }}
{{- end }}
{{- range $name, $value := .root.Values.podAnnotations }}
{{- $_ := set $annotations $name (include "megatron-dpo.scalar" $value) }}
{{- if kindIs "invalid" $value }}{{ $_ = unset $annotations $name }}{{ end }}
{{- end }}
{{- toYaml $annotations }}
{{- end }}
