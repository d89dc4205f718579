{{- define "megatron-dpo.validate.env" -}}
{{- $reserved := list "JOB_COMPLETION_INDEX" "NODE_RANK" "RANK" "LOCAL_RANK" "WORLD_SIZE" "LOCAL_WORLD_SIZE" "GROUP_RANK" "MASTER_ADDR" "MASTER_PORT" "NNODES" "NPROC_PER_NODE" "CUDA_VISIBLE_DEVICES" "GPU_MODEL" "NETWORK_TRANSPORT" "NETWORK_FLOOR_GBS" -}}
{{- /* The names under which the hubs' libraries look for a token. */}}
{{- $tokens := dict
  "HF_TOKEN" "hf" "HF_HUB_TOKEN" "hf" "HUGGING_FACE_HUB_TOKEN" "hf" "HUGGINGFACE_HUB_TOKEN" "hf"
  "MODELSCOPE_API_TOKEN" "modelscope" "MODELSCOPE_SDK_TOKEN" "modelscope" }}
{{- range $path, $env := dict "extraEnv" .Values.extraEnv "network.env" .Values.network.env }}
{{- range $name, $value := $env }}
{{- if not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" $name) }}
- {{ $path }}: {{ $name | quote }} is not a variable name; use {{ regexReplaceAll "^[0-9]|[^A-Za-z0-9_]" $name "_" | default "letters, digits and _" }} [env-name]
{{- else if or (has $name $reserved) (regexMatch "^(DPO|SKIP|PET|TORCHELASTIC)_" $name) }}
- {{ $path }}.{{ $name }}: reserved: set by the launcher or Kubernetes; remove it and use the corresponding key of the values [env-reserved]
{{- else if hasKey $tokens $name }}
- {{ $path }}.{{ $name }}: reserved: tokens come from Secrets; set secrets.{{ get $tokens $name }}.existingSecret [env-token]
{{- else if and (regexMatch "(^|_)(TOKEN|SECRET|PASSWORD|API_?KEY|ACCESS_KEY)$" (upper $name)) (not (kindIs "map" $value)) (not (kindIs "invalid" $value)) }}
- {{ $path }}.{{ $name }}: a secret in plain text; set extraEnv.{{ $name }}: {valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}} [env-secret]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
