{{/*
What launchers/config/settings.py reads, as JSON of NAME -> string or {valueFrom}. Takes (root, role):
the role `node` is the gang; a stage pod (clone, download) and the test stand alone, without GPU.
*/}}
{{- define "megatron-dpo.settings" -}}
{{- $v := .root.Values -}}
{{- $name := include "megatron-dpo.name" .root -}}
{{- $gang := eq .role "node" -}}
{{- $nodes := ternary $v.nodes 1 $gang | int -}}
{{- $settings := dict
  "DPO_RUN" $name
  "DPO_WORKSPACE" $v.workspace.mountPath
  "DPO_NODES" (toString $nodes)
  "DPO_COMPLETIONS" (toString $nodes)
  "DPO_GPUS_PER_NODE" (toString (ternary $v.gpusPerNode 0 $gang | int))
  "DPO_MASTER_ADDR" (printf "%s-%s-0-0.%s" $name .role $name)
  "DPO_MASTER_PORT" (toString (int $v.rendezvous.masterPort))
  "DPO_GANG_PORT" (toString (int $v.rendezvous.gangPort))
  "DPO_GANG_DEADLINE" (toString (int $v.rendezvous.deadlineSeconds))
  "DPO_TERMINATION_LOG" "/dev/termination-log" -}}
{{- range $stage := list "clone" "download" "convert" "train" }}
{{- $_ := set $settings (printf "SKIP_%s" (upper $stage)) (ternary "1" "0" (get $v.stages $stage).skip) }}
{{- end }}
{{- if $gang }}
{{- $_ := set $settings "DPO_JIT_CACHE" (ternary "1" "0" $v.cache.jit) }}
{{- $settings = merge $settings (include "megatron-dpo.preflight.settings" .root | fromJson) }}
{{- end }}
{{- if $v.code.url }}
{{- $_ := set $settings "DPO_CODE_URL" $v.code.url }}
{{- $_ := set $settings "DPO_CODE_REF" $v.code.ref }}
{{- end }}
{{- if eq .role "test" }}
{{- $_ := set $settings "DPO_TEST_DEADLINE" (toString (int $v.test.deadlineSeconds)) }}
{{- $_ := set $settings "DPO_RELEASE_RECORD" "/etc/megatron-dpo/release/release" }}
{{- else if $v.code.existingSecret }}
{{- $_ := set $settings "DPO_CODE_SECRET" "/etc/megatron-dpo/code-secret" }}
{{- end }}
{{- range $setting, $path := dict
  "DPO_JOB_INDEX" "metadata.labels['jobset.sigs.k8s.io/job-index']"
  "DPO_RESTART_ATTEMPT" "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
  "DPO_POD_NAME" "metadata.name"
  "DPO_NODE_NAME" "spec.nodeName" }}
{{- $_ := set $settings $setting (dict "valueFrom" (dict "fieldRef" (dict "fieldPath" $path))) }}
{{- end }}
{{- toJson $settings }}
{{- end }}
