{{/*
Settings of the launcher as JSON of NAME -> string or {valueFrom}, read by launchers/config. Stage pods (clone,
download) and the test run alone and without a GPU. Takes (root, role).
*/}}
{{- define "megatron-dpo.settings" -}}
{{- $v := .root.Values -}}
{{- $name := include "megatron-dpo.name" .root -}}
{{- $gang := eq .role "node" -}}
{{- $nodes := ternary $v.nodes 1 $gang | int -}}
{{- $settings := dict
  "DPO_RUN" $name
  "DPO_WORKSPACE" $v.workspace.mountPath
  "DPO_RECIPE" (printf "%s/recipe.yaml" (include "megatron-dpo.configMap.path" .root))
  "DPO_NODES" (toString $nodes)
  "DPO_COMPLETIONS" (toString $nodes)
  "DPO_GPUS_PER_NODE" (toString (ternary $v.gpusPerNode 0 $gang | int))
  "DPO_MASTER_ADDR" (printf "%s-%s-0-0.%s" $name .role $name)
  "DPO_MASTER_PORT" (toString (int $v.rendezvous.masterPort))
  "DPO_GANG_PORT" (toString (int $v.rendezvous.gangPort))
  "DPO_GANG_DEADLINE" (toString (int $v.rendezvous.deadlineSeconds))
  "DPO_GRACE_SECONDS" (toString (int $v.terminationGracePeriodSeconds))
  "DPO_TERMINATION_LOG" "/dev/termination-log" -}}
{{- range $stage := include "megatron-dpo.stages" .root | fromJsonArray }}
{{- $_ := set $settings (printf "SKIP_%s" (upper $stage)) (ternary "1" "0" (get $v.stages $stage).skip) }}
{{- end }}
{{- if $v.rehearse }}{{ $_ := set $settings "DPO_REHEARSE" "1" }}{{ end }}
{{- $libraries := list }}
{{- range $mount := $v.extraVolumeMounts }}
{{- range prepend $v.recipe.dataset $v.recipe.model }}
{{- $below := printf "file://%s/" (trimSuffix "/" $mount.mountPath) }}
{{- if and $mount.readOnly (hasPrefix $below (printf "%s/" .)) }}{{ $libraries = append $libraries $mount.mountPath }}{{ end }}
{{- end }}
{{- end }}
{{- with $libraries }}{{ $_ := set $settings "DPO_LIBRARIES" (uniq . | join ":") }}{{ end }}
{{- if $gang }}
{{- $_ := set $settings "DPO_IMAGE" (include "megatron-dpo.image" $v.image) }}
{{- $_ := set $settings "DPO_RESTARTS_IN_PLACE" (toString (int $v.restarts.inPlace)) }}
{{- with dig "holdMinutes" 0 .root.Values.debug | int }}{{ $_ := set $settings "DPO_HOLD_SECONDS" (mul . 60 | toString) }}{{ end }}
{{- if dig "standby" false $v.restarts }}{{ $_ := set $settings "DPO_STANDBY" "1" }}{{ end }}
{{- $budget := $v.budget | default dict }}
{{- with $budget.gpuMinutes }}{{ $_ := set $settings "DPO_BUDGET_GPU_MINUTES" (int64 . | toString) }}{{ end }}
{{- $benchmarks := $v.benchmarks | default dict }}
{{- with $benchmarks.tasks }}{{ $_ := set $settings "DPO_BENCHMARKS" (join "," .) }}{{ end }}
{{- with $benchmarks.limit }}{{ $_ := set $settings "DPO_BENCHMARK_LIMIT" (int64 . | toString) }}{{ end }}
{{- with $budget.by }}{{ $_ := set $settings "DPO_BUDGET_BY" . }}{{ end }}
{{- $_ := set $settings "DPO_JIT_CACHE" (ternary "1" "0" $v.cache.jit) }}
{{- if include "megatron-dpo.local" .root }}
{{- $_ := set $settings "DPO_LOCAL_CHECKPOINTS" (printf "/local-checkpoints/%s" .root.Release.Namespace) }}
{{- with dig "sizeLimit" "" ($v.localCheckpoints.emptyDir | default dict) }}
{{- $_ := set $settings "DPO_LOCAL_BYTES" (include "megatron-dpo.quantity" . | float64 | int64 | toString) }}
{{- end }}
{{- end }}
{{- $settings = merge $settings (include "megatron-dpo.monitoring.settings" .root | fromJson) }}
{{- $settings = merge $settings (include "megatron-dpo.preflight.settings" .root | fromJson) }}
{{- $settings = merge $settings (include "megatron-dpo.hang.settings" .root | fromJson) }}
{{- end }}
{{- if $v.code.url }}
{{- $_ := set $settings "DPO_CODE_URL" $v.code.url }}
{{- $_ := set $settings "DPO_CODE_REF" $v.code.ref }}
{{- with $v.code.pythonPath }}{{ $_ := set $settings "DPO_CODE_PYTHONPATH" (join ":" .) }}{{ end }}
{{- end }}
{{- if eq .role "test" }}
{{- $_ := set $settings "DPO_TEST_DEADLINE" (toString (int $v.test.deadlineSeconds)) }}
{{- $_ := set $settings "DPO_RELEASE_RECORD" "/etc/megatron-dpo/release/release" }}
{{- else if $v.code.existingSecret }}
{{- $_ := set $settings "DPO_CODE_SECRET" "/etc/megatron-dpo/code-secret" }}
{{- end }}
{{- if eq (include "megatron-dpo.launcher.from" .root) "image" }}
{{- $_ := set $settings "DPO_LAUNCHER_VERSION" .root.Chart.Version }}
{{- else }}
{{- $field := dict "fieldPath" "metadata.annotations['checksum/launchers']" }}
{{- $_ := set $settings "DPO_LAUNCHER_DIGEST" (dict "valueFrom" (dict "fieldRef" $field)) }}
{{- end }}
{{- range $setting, $path := dict
  "DPO_JOB_INDEX" "metadata.labels['jobset.sigs.k8s.io/job-index']"
  "DPO_JOBSET_UID" "metadata.labels['jobset.sigs.k8s.io/jobset-uid']"
  "DPO_RESTART_ATTEMPT" "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
  "DPO_POD_NAME" "metadata.name"
  "DPO_NODE_NAME" "spec.nodeName" }}
{{- $_ := set $settings $setting (dict "valueFrom" (dict "fieldRef" (dict "fieldPath" $path))) }}
{{- end }}
{{- toJson $settings }}
{{- end }}

{{/* Settings of the preflight as JSON of NAME -> string; unset ones are left out. */}}
{{- define "megatron-dpo.preflight.settings" -}}
{{- $p := .Values.preflight -}}
{{- $settings := dict
  "SKIP_PREFLIGHT" (ternary "1" "0" $p.skip)
  "DPO_PREFLIGHT_DEADLINE" (toString (int $p.deadlineSeconds)) -}}
{{- if .Values.gpuModel }}{{ $_ := set $settings "DPO_GPU_MODEL" .Values.gpuModel }}{{ end }}
{{- if $p.skipChecks }}{{ $_ := set $settings "DPO_PREFLIGHT_SKIP" (join "," $p.skipChecks) }}{{ end }}
{{- if $p.only }}{{ $_ := set $settings "DPO_PREFLIGHT_ONLY" "1" }}{{ end }}
{{- if $p.strict }}{{ $_ := set $settings "DPO_PREFLIGHT_STRICT" "1" }}{{ end }}
{{- if $p.nodeFloorGBs }}
{{- $_ := set $settings "DPO_PREFLIGHT_NODE_FLOOR" (include "megatron-dpo.scalar" $p.nodeFloorGBs) }}
{{- end }}
{{- toJson $settings }}
{{- end }}

{{/* The launcher's heartbeat, a file on the pod's own disk that the liveness probe reads. */}}
{{- define "megatron-dpo.hang.file" -}}
/tmp/dpo-alive
{{- end }}

{{/* Settings of the hang watchdog as JSON of NAME -> string. A release of an earlier chart has no restarts.hang. */}}
{{- define "megatron-dpo.hang.settings" -}}
{{- $enabled := dig "hang" "enabled" true .Values.restarts -}}
{{- $settings := dict "DPO_HANG_WATCHDOG" (ternary "1" "0" $enabled) -}}
{{- if $enabled }}{{ $_ := set $settings "DPO_ALIVE_FILE" (include "megatron-dpo.hang.file" .) }}{{ end }}
{{- $floors := list }}
{{- range $phase, $seconds := dig "hang" "floors" dict .Values.restarts }}
{{- $floors = append $floors (printf "%s=%d" $phase (int $seconds)) }}
{{- end }}
{{- with $floors }}{{ $_ := set $settings "DPO_HANG_FLOORS" (join "," .) }}{{ end }}
{{- toJson $settings }}
{{- end }}

{{/*
The network between nodes, as JSON of NAME -> string: the transport that NCCL must report, and either
network.floorGBs or the profile's expected GB/s, in proportion with fewer GPUs per node. The launcher derives the
floor from the expected value. Nothing is set if it is unknown, or with one node: the API server drops an empty value, and
Helm 4 would add it again with every upgrade.
*/}}
{{- define "megatron-dpo.network.settings" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $floor := .Values.network.floorGBs -}}
{{- $expect := $network.expect -}}
{{- $gbs := 0 -}}
{{- if and (kindIs "invalid" $floor) $expect }}
{{- $gbs = round (divf (mulf $expect.busbwGBs (min (int .Values.gpusPerNode) $expect.gpus)) $expect.gpus) 1 }}
{{- end }}
{{- $settings := dict }}
{{- if gt (int .Values.nodes) 1 }}
{{- with $network.transport }}{{ $_ := set $settings "DPO_NETWORK_TRANSPORT" . }}{{ end }}
{{- if $gbs }}{{ $_ := set $settings "DPO_NETWORK_GBS" (include "megatron-dpo.scalar" $gbs) }}{{ end }}
{{- if $floor }}{{ $_ := set $settings "DPO_NETWORK_FLOOR_GBS" (include "megatron-dpo.scalar" $floor) }}{{ end }}
{{- end }}
{{- toJson $settings }}
{{- end }}
