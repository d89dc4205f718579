{{/* One Indexed Job; takes (root, role, command, pods). Any failed pod fails the Job at once. */}}
{{- define "megatron-dpo.job" -}}
{{- $exits := .root.Files.Get "exits.yaml" | fromYaml -}}
spec:
  completionMode: Indexed
  completions: {{ int .pods }}
  parallelism: {{ int .pods }}
  backoffLimit: 0
  podReplacementPolicy: Failed
  # The rule that fails the Job is named in its message, which the JobSet's failure policy reads.
  podFailurePolicy:
    rules:
      - action: FailJob
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
      {{- range $group := list "free" "user" }}
      - action: FailJob
        onExitCodes:
          containerName: launcher
          operator: In
          values: [{{ include "megatron-dpo.codes" (dict "codes" (get $exits $group) "by" ", ") }}]
      {{- end }}
  template:
    {{- include "megatron-dpo.pod" . | nindent 4 }}
{{- end }}

{{/* Exit codes joined: `64, 65` or `64|65`; takes (codes, by). */}}
{{- define "megatron-dpo.codes" -}}
{{- $by := .by -}}
{{- range $position, $code := .codes }}{{ if $position }}{{ $by }}{{ end }}{{ int $code }}{{ end }}
{{- end }}

{{/* The JobSet's answer to a failed Job; without a matching rule a restart counts. */}}
{{- define "megatron-dpo.failurePolicy" -}}
{{- $exits := .Files.Get "exits.yaml" | fromYaml -}}
maxRestarts: {{ int .Values.restarts.max }}
# Old and new pods never meet in one rendezvous.
restartStrategy: BlockingRecreate
rules:
  - name: disruption
    action: RestartJobSetAndIgnoreMaxRestarts
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns: ["has condition DisruptionTarget matching "]
  {{- range $name, $action := dict "free" "RestartJobSetAndIgnoreMaxRestarts" "user" "FailJobSet" }}
  - name: {{ $name }}
    action: {{ $action }}
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns:
      - "exit code ({{ include "megatron-dpo.codes" (dict "codes" (get $exits $name) "by" "|") }}) matching "
  {{- end }}
{{- end }}
