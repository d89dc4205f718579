{{- define "megatron-dpo.validate.network" -}}
{{- $file := printf "networks/%s.yaml" .Values.network.profile -}}
{{- if not (.Files.Get $file) }}
{{- $known := list }}
{{- range $path, $_ := .Files.Glob "networks/*.yaml" }}
{{- $known = append $known (base $path | trimSuffix ".yaml") }}
{{- end }}
- network.profile: "{{ .Values.network.profile }}" is not known; write one of {{ join ", " $known }}
{{- else }}
{{- $device := (include "megatron-dpo.network" . | fromJson).resource }}
{{- if ne (empty $device.name) (empty $device.count) }}
- network: resource {{ $device.name | default "(none)" }} with count {{ $device.count | default 0 }}; write resourceName and resourceCount, or neither
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.env" -}}
{{- $reserved := list "JOB_COMPLETION_INDEX" "NODE_RANK" "RANK" "LOCAL_RANK" "WORLD_SIZE" "LOCAL_WORLD_SIZE" "GROUP_RANK" "MASTER_ADDR" "MASTER_PORT" "NNODES" "NPROC_PER_NODE" "CUDA_VISIBLE_DEVICES" -}}
{{- range $path, $env := dict "extraEnv" .Values.extraEnv "network.env" .Values.network.env }}
{{- range $name, $_ := $env }}
{{- if or (has $name $reserved) (regexMatch "^(DPO|SKIP|PET|TORCHELASTIC)_" $name) }}
- {{ $path }}.{{ $name }}: reserved, the launcher or Kubernetes sets it; remove it, and use the key of the values that stands for it
{{- else if has $name (list "HF_TOKEN" "MODELSCOPE_API_TOKEN") }}
- {{ $path }}.{{ $name }}: reserved, tokens come from Secrets; write secrets.{{ ternary "hf" "modelscope" (eq $name "HF_TOKEN") }}.existingSecret
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.pod" -}}
{{- range $path, $names := dict "podLabels" .Values.podLabels "podAnnotations" .Values.podAnnotations }}
{{- range $name, $_ := $names }}
{{- if regexMatch "^(app[.]kubernetes[.]io|jobset[.]sigs[.]k8s[.]io|checksum|kueue[.]x-k8s[.]io/(podset-|queue-name))" $name }}
- {{ $path }}: {{ $name }} is the chart's; remove it (queue and topology are kueue.queue and kueue.topology)
{{- end }}
{{- end }}
{{- end }}
{{- $taken := list "launchers" "workspace" "shm" "tmp" "code-secret" }}
{{- $paths := list "/opt/launchers" "/dev/shm" "/tmp" "/etc/megatron-dpo/code-secret" }}
{{- if has .Values.workspace.mountPath $paths }}
- workspace.mountPath: {{ .Values.workspace.mountPath }} is the chart's; write another path
{{- end }}
{{- $paths = append $paths .Values.workspace.mountPath }}
{{- range .Values.extraVolumes }}
{{- if has .name $taken }}
- extraVolumes: the name {{ .name }} is taken; write another one
{{- end }}
{{- $taken = append $taken .name }}
{{- end }}
{{- range .Values.extraVolumeMounts }}
{{- if has .mountPath $paths }}
- extraVolumeMounts: {{ .mountPath }} is taken; write another path
{{- end }}
{{- $paths = append $paths .mountPath }}
{{- if not (has .name $taken) }}
- extraVolumeMounts: no volume is called {{ .name }}; add it to extraVolumes
{{- end }}
{{- end }}
{{- end }}
