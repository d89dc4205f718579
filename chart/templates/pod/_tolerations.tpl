{{/*
Tolerations as JSON: the user's (the gang's pods only), then how long a pod stays bound to a lost
node, where no toleration of the user's speaks of that taint. Kubernetes adds its own 300 s where
none does (DefaultTolerationSeconds), and a toleration without a key speaks of all. Takes (root, role).
*/}}
{{- define "megatron-dpo.tolerations" -}}
{{- $given := ternary .root.Values.tolerations list (eq .role "node") -}}
{{- $tolerations := $given -}}
{{- $seconds := .root.Values.restarts.nodeLostSeconds -}}
{{- if not (kindIs "invalid" $seconds) }}
{{- range $taint := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- $isGiven := false }}
{{- range $given }}
{{- if and (has (.key | default "") (list "" $taint)) (has (.effect | default "") (list "" "NoExecute")) }}{{ $isGiven = true }}{{ end }}
{{- end }}
{{- if not $isGiven }}
{{- $tolerations = append $tolerations (dict "key" $taint "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" (int $seconds)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $tolerations }}
{{- end }}
