{{/*
JobSet's in-place restart agent (KEP-467), a sidecar that has to come last: its startup probe passes when the agents of
all pods have joined the same attempt, and only then does the launcher start. Its exit code asks the kubelet to restart
all containers of the pod. It alone gets a token of the pods' service account.
*/}}
{{- define "megatron-dpo.agent" -}}
name: restart-agent
image: {{ .Values.restarts.agentImage | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
restartPolicy: Always
restartPolicyRules:
  - action: RestartAllContainers
    exitCodes: {operator: In, values: [{{ include "megatron-dpo.agent.exitCode" . }}]}
env:
  - name: JOBSET_NAME
    value: {{ .Release.Name | quote }}
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: IN_PLACE_RESTART_EXIT_CODE
    value: {{ include "megatron-dpo.agent.exitCode" . | quote }}
  - name: STARTUP_PROBE_PORT
    value: "8081"
startupProbe:
  httpGet: {path: /barrier-is-down, port: 8081}
  periodSeconds: 1
  # A day: Kueue and the launcher's rendezvous have shorter limits.
  failureThreshold: 86400
resources:
  requests: {cpu: 10m, memory: 64Mi}
  limits: {memory: 256Mi}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - name: agent-token
    mountPath: /var/run/secrets/kubernetes.io/serviceaccount
    readOnly: true
{{- end }}

{{/* Exit code with which the agent has its pod's containers restarted; no exit code of the launcher. */}}
{{- define "megatron-dpo.agent.exitCode" -}}
200
{{- end }}

{{/* Rules of the launcher's container: a failure that counts restarts the pod's containers, any other one fails the pod. */}}
{{- define "megatron-dpo.agent.rules" -}}
{{- $exits := .Files.Get "exits.yaml" | fromYaml -}}
restartPolicy: Never
restartPolicyRules:
  - action: RestartAllContainers
    exitCodes:
      operator: NotIn
      values: [0, {{ include "megatron-dpo.exitCodes" (dict "codes" (concat $exits.free $exits.user) "by" ", ") }}]
{{- end }}
