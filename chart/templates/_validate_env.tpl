{{- define "megatron-dpo.validate.env" -}}
{{- /* Variables of the launcher that a user sets here and nowhere else. */}}
{{- $open := list "DPO_ACCEPT_PATCHES" -}}
{{- $reserved := list "JOB_COMPLETION_INDEX" "NODE_RANK" "RANK" "LOCAL_RANK" "WORLD_SIZE" "LOCAL_WORLD_SIZE" "GROUP_RANK" "MASTER_ADDR" "MASTER_PORT" "NNODES" "NPROC_PER_NODE" "CUDA_VISIBLE_DEVICES" "GPU_MODEL" "NETWORK_TRANSPORT" "NETWORK_FLOOR_GBS" -}}
{{- /* The names under which the hubs' libraries look for a token. */}}
{{- $tokens := dict
  "HF_TOKEN" "hf" "HF_HUB_TOKEN" "hf" "HUGGING_FACE_HUB_TOKEN" "hf" "HUGGINGFACE_HUB_TOKEN" "hf"
  "MODELSCOPE_API_TOKEN" "modelscope" "MODELSCOPE_SDK_TOKEN" "modelscope" }}
{{- range $path, $env := dict "extraEnv" .Values.extraEnv "network.env" .Values.network.env }}
{{- range $name, $value := $env }}
{{- if not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" $name) }}
- {{ $path }}: {{ $name | quote }} is no variable's name; write {{ regexReplaceAll "^[0-9]|[^A-Za-z0-9_]" $name "_" | default "letters, digits and _" }}
{{- else if or (has $name $reserved) (and (regexMatch "^(DPO|SKIP|PET|TORCHELASTIC)_" $name) (not (has $name $open))) }}
- {{ $path }}.{{ $name }}: reserved, the launcher or Kubernetes sets it; remove it, and use the key of the values that stands for it
{{- else if hasKey $tokens $name }}
- {{ $path }}.{{ $name }}: reserved, tokens come from Secrets; write secrets.{{ get $tokens $name }}.existingSecret
{{- else if and (regexMatch "(^|_)(TOKEN|SECRET|PASSWORD|API_?KEY|ACCESS_KEY)$" (upper $name)) (not (kindIs "map" $value)) (not (kindIs "invalid" $value)) }}
- {{ $path }}.{{ $name }}: a secret in the open; write extraEnv.{{ $name }}: {valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
