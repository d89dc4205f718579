{{/* What JobSet lets nobody change after the installation: its spec, but for the time to live. */}}
{{- define "megatron-dpo.spec" -}}
{{- $stages := ternary (list "clone" "download") list (eq .Values.stages.placement "jobs") -}}
network:
  enableDNSHostnames: true
  # Ranks find each other before they are Ready.
  publishNotReadyAddresses: true
failurePolicy:
  {{- include "megatron-dpo.failurePolicy" . | nindent 2 }}
replicatedJobs:
  {{- range $position, $role := append $stages "node" }}
  {{- $gang := eq $role "node" }}
  - name: {{ $role }}
    replicas: 1
    {{- if $position }}
    dependsOn:
      - name: {{ index $stages (sub $position 1) }}
        status: Complete
    {{- end }}
    template:
      {{- $job := dict "root" $ "role" $role "command" (ternary "run" $role $gang) "pods" (ternary $.Values.nodes 1 $gang) }}
      {{- include "megatron-dpo.job" $job | nindent 6 }}
  {{- end }}
{{- end }}

{{/* Its digest; recipe and launchers, which the pods name by theirs, are compared by themselves. */}}
{{- define "megatron-dpo.spec.digest" -}}
{{- $spec := include "megatron-dpo.spec" . | fromYaml | toJson -}}
{{- regexReplaceAll "\"checksum/(launchers|recipe)\":\"[0-9a-f]{64}\"" $spec "" | sha256sum }}
{{- end }}

{{/* Labels of the JobSet that Kueue reads, as JSON. */}}
{{- define "megatron-dpo.kueue.labels" -}}
{{- $labels := dict -}}
{{- with .Values.kueue.queue }}{{ $_ := set $labels "kueue.x-k8s.io/queue-name" . }}{{ end }}
{{- with .Values.kueue.priorityClass }}{{ $_ := set $labels "kueue.x-k8s.io/priority-class" . }}{{ end }}
{{- with .Values.kueue.maxExecTimeSeconds }}{{ $_ := set $labels "kueue.x-k8s.io/max-exec-time-seconds" (int . | toString) }}{{ end }}
{{- toJson $labels }}
{{- end }}
