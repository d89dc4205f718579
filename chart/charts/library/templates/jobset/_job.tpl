{{/* One Indexed Job. The first failed pod fails the Job. Takes (root, role, command, pods). */}}
{{- define "megatron-dpo.job" -}}
{{- $exits := .root.Files.Get "exits.yaml" | fromYaml -}}
spec:
  completionMode: Indexed
  completions: {{ int .pods }}
  parallelism: {{ int .pods }}
  {{- /* With JobSet's agent a failed pod is replaced alone: its webhook demands this number. */}}
  backoffLimit: {{ ternary 2147483647 0 (ne .root.Values.restarts.agentImage "") }}
  {{- with .root.Values.jobset.activeDeadlineSeconds }}
  activeDeadlineSeconds: {{ int . }}
  {{- end }}
  podReplacementPolicy: Failed
  # The Job's failure message names this rule; the JobSet's failure policy reads that message.
  podFailurePolicy:
    rules:
      - action: FailJob
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
          # Kueue, topology-aware scheduling: the pod's node was drained before the pod was scheduled.
          - type: TerminatedByKueue
            status: "True"
      {{- range $group := list "free" "user" }}
      - action: FailJob
        onExitCodes:
          containerName: launcher
          operator: In
          values: [{{ include "megatron-dpo.exitCodes" (dict "codes" (get $exits $group) "by" ", ") }}]
      {{- end }}
  template:
    {{- $pod := include "megatron-dpo.pod" . }}
    {{- with ternary .root.Values.podSpec dict (eq .role "node") }}
    {{- $pod = include "megatron-dpo.pod.merged" (dict "pod" (fromYaml $pod) "given" .) }}
    {{- end }}
    {{- $pod | nindent 4 }}
{{- end }}
