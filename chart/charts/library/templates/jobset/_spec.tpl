{{/* The immutable part of the JobSet's spec: all of it except ttlSecondsAfterFinished. */}}
{{- define "megatron-dpo.spec" -}}
{{- $stages := ternary (list "clone" "download") list (eq .Values.stages.placement "jobs") -}}
network:
  enableDNSHostnames: true
  # Ranks resolve each other before they are Ready.
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
{{- with .Values.jobset.managedBy }}
managedBy: {{ . | quote }}
{{- end }}
{{- with .Values.jobset.spec }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
SHA-256 of the spec, without the pods' checksums of recipe and launcher, which an upgrade compares separately.
*/}}
{{- define "megatron-dpo.spec.digest" -}}
{{- $spec := include "megatron-dpo.spec" . | fromYaml | toJson -}}
{{- regexReplaceAll "\"checksum/(launchers|recipe)\":\"[0-9a-f]{64}\"" $spec "" | sha256sum }}
{{- end }}

{{/*
The JobSet's reaction to a failed Job, by the group of the exit code in exits.yaml. Without a matching rule
the restart counts against maxRestarts.
*/}}
{{- define "megatron-dpo.failurePolicy" -}}
{{- $exits := .Files.Get "exits.yaml" | fromYaml -}}
maxRestarts: {{ int .Values.restarts.max }}
# Old and new pods never join the same rendezvous.
restartStrategy: {{ ternary "InPlaceRestart" "BlockingRecreate" (ne .Values.restarts.agentImage "") }}
rules:
  - name: disruption
    action: RestartJobSetAndIgnoreMaxRestarts
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns: ["has condition (DisruptionTarget|TerminatedByKueue) matching "]
  {{- if .Values.jobset.activeDeadlineSeconds }}
  - name: deadline
    action: FailJobSet
    onJobFailureReasons: [DeadlineExceeded]
  {{- end }}
  {{- range $name, $action := dict "free" "RestartJobSetAndIgnoreMaxRestarts" "user" "FailJobSet" }}
  - name: {{ $name }}
    action: {{ $action }}
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns:
      - "exit code ({{ include "megatron-dpo.exitCodes" (dict "codes" (get $exits $name) "by" "|") }}) matching "
  {{- end }}
{{- end }}

{{/* Exit codes in one string, such as `64, 65` or `64|65`. Takes (codes, by). */}}
{{- define "megatron-dpo.exitCodes" -}}
{{- $by := .by -}}
{{- range $position, $code := .codes }}{{ if $position }}{{ $by }}{{ end }}{{ int $code }}{{ end }}
{{- end }}
