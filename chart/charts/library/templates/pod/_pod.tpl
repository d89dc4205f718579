{{/* The pod template of a role: node (the gang), clone, download or test. Takes (root, role, command). */}}
{{- define "megatron-dpo.pod" -}}
{{- $gang := eq .role "node" -}}
{{- $role := include "megatron-dpo.role" . | fromJson -}}
metadata:
  labels:
    {{- include "megatron-dpo.labels.stable" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
    {{- with include "megatron-dpo.withoutNulls" .root.Values.podLabels }}
    {{- . | nindent 4 }}
    {{- end }}
  annotations:
    {{- include "megatron-dpo.annotations" . | nindent 4 }}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: {{ int .root.Values.terminationGracePeriodSeconds }}
  {{- /* A container that needs the token mounts it itself. */}}
  automountServiceAccountToken: false
  {{- /* A Service named dpo-x would add DPO_X_... variables, a prefix reserved for the launcher. */}}
  enableServiceLinks: false
  {{- with include "megatron-dpo.pod.placement" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    {{- include "megatron-dpo.securityContext.pod" .root | nindent 4 }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- $init := ternary (include "megatron-dpo.network" .root | fromJson).initContainers list $gang }}
  {{- $agent := and $gang .root.Values.restarts.agentImage }}
  {{- if $agent }}{{ $init = append $init (include "megatron-dpo.agent" .root | fromYaml) }}{{ end }}
  {{- with $init }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: launcher
      image: {{ include "megatron-dpo.image" $role.image | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command:
        {{- include "megatron-dpo.command" . | trim | nindent 8 }}
      workingDir: /opt
      {{- with and (ne .role "test") .root.Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      env:
        {{- include "megatron-dpo.env" . | trim | nindent 8 }}
      {{- with and $gang .root.Values.monitoring.port }}
      ports:
        - name: metrics
          containerPort: {{ int . }}
      {{- end }}
      resources:
        {{- include "megatron-dpo.resources" . | nindent 8 }}
        {{- with and $gang .root.Values.resourceClaims }}
        claims:
          {{- range . }}
          - name: {{ .name | quote }}
          {{- end }}
        {{- end }}
      terminationMessagePolicy: FallbackToLogsOnError
      {{- if $agent }}
      {{- include "megatron-dpo.agent.rules" .root | nindent 6 }}
      {{- end }}
      {{- if and $gang (dig "hang" "enabled" true .root.Values.restarts) }}
      {{- include "megatron-dpo.pod.liveness" .root | nindent 6 }}
      {{- end }}
      securityContext:
        {{- include "megatron-dpo.securityContext.container" . | nindent 8 }}
      volumeMounts:
        {{- include "megatron-dpo.volumeMounts" . | nindent 8 }}
  volumes:
    {{- include "megatron-dpo.volumes" . | nindent 4 }}
{{- end }}

{{/*
Ends a pod whose launcher is frozen, 35 to 45 seconds after its last heartbeat: before its peers end because of its silence
(55 s), since the kubelet no longer probes a pod that is being deleted, which would then last for the whole grace
period. A launcher writes the uptime of its node into the file every 3 seconds, which no step of the clock changes; the
probe passes as long as there is none. It continues a launcher that is stopped, and looks again after 4 seconds; one that
still gives no heartbeat exits on SIGHUP (launchers/hang/alive.py), without the grace period.
*/}}
{{- define "megatron-dpo.pod.liveness" -}}
{{- $file := include "megatron-dpo.hang.file" . -}}
livenessProbe:
  exec:
    command:
      - sh
      - -c
      - |
        age() {
          read -r beat < {{ $file }} && read -r now rest < /proc/uptime || exit 0
          age=$((${now%.*} - ${beat%.*}))
        }
        age; [ $age -ge 15 ] || exit 0
        kill -CONT 1
        sleep 4; age; [ $age -ge 15 ] || exit 1
        [ $age -lt 35 ] || kill -HUP 1
        exit 1
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 3
  terminationGracePeriodSeconds: 1
{{- end }}

{{/*
A pod template with podSpec merged over it; validate.podSpec has refused fields that the chart sets. Takes (pod, given).
*/}}
{{- define "megatron-dpo.pod.merged" -}}
{{- $launcher := first (.given.containers | default list) | default dict -}}
{{- $_ := mergeOverwrite (first .pod.spec.containers) $launcher -}}
{{- $_ = mergeOverwrite .pod.spec (omit .given "containers") -}}
{{- toYaml .pod }}
{{- end }}
