{{/* extraEnv and network.env: no variable that the chart sets, and no secret in plain text. */}}
{{- define "megatron-dpo.validate.env" -}}
{{- $reserved := list "JOB_COMPLETION_INDEX" "NODE_RANK" "RANK" "LOCAL_RANK" "WORLD_SIZE" "LOCAL_WORLD_SIZE" "GROUP_RANK" "MASTER_ADDR" "MASTER_PORT" "NNODES" "NPROC_PER_NODE" "CUDA_VISIBLE_DEVICES" "NVIDIA_VISIBLE_DEVICES" "PYTHONHOME" "PYTHONSAFEPATH" "PYTHONSTARTUP" "PYTHONINSPECT" "PYTHONOPTIMIZE" "PYTHONEXECUTABLE" "PYTHONPLATLIBDIR" "GPU_MODEL" "NETWORK_TRANSPORT" "NETWORK_FLOOR_GBS" -}}
{{- /* Keys of the values for variables that people set elsewhere. */}}
{{- $keys := dict
  "SKIP_CLONE_REPO" "stages.clone.skip" "SKIP_DOWNLOAD_DATA" "stages.download.skip"
  "SKIP_DOWNLOAD_MODEL" "stages.download.skip" "SKIP_PREPROCESS" "stages.download.skip" "SKIP_CHECKPOINT_CONVERSION" "stages.convert.skip" "SKIP_TRAINING" "stages.train.skip"
  "SKIP_PREFLIGHT" "preflight.skip" "MASTER_PORT" "rendezvous.masterPort" "NNODES" "nodes"
  "WORLD_SIZE" "nodes and gpusPerNode" "NPROC_PER_NODE" "gpusPerNode" "LOCAL_WORLD_SIZE" "gpusPerNode"
  "CUDA_VISIBLE_DEVICES" "gpusPerNode" "NVIDIA_VISIBLE_DEVICES" "gpusPerNode" "GPU_MODEL" "gpuModel"
  "DPO_NODES" "nodes" "DPO_GPUS_PER_NODE" "gpusPerNode" "DPO_GPU_MODEL" "gpuModel" "DPO_WORKSPACE" "workspace" }}
{{- range include "megatron-dpo.stages" . | fromJsonArray }}
{{- $_ := set $keys (printf "SKIP_%s" (upper .)) (printf "stages.%s.skip" .) }}
{{- end }}
{{- /* Settings of the launcher that only the user sets. */}}
{{- $open := list "DPO_ACCEPT_PATCHES" "DPO_EXPORT_TEST" -}}
{{- /* Variables that the hubs' libraries read a token from. */}}
{{- $tokens := dict
  "HF_TOKEN" "hf" "HF_HUB_TOKEN" "hf" "HUGGING_FACE_HUB_TOKEN" "hf" "HUGGINGFACE_HUB_TOKEN" "hf"
  "MODELSCOPE_API_TOKEN" "modelscope" "MODELSCOPE_SDK_TOKEN" "modelscope" }}
{{- $known := include "megatron-dpo.credentials" . | fromJson }}
{{- range $path, $env := dict "extraEnv" .Values.extraEnv "network.env" .Values.network.env }}
{{- range $name, $value := $env }}
{{- if or (has $name $reserved) (and (regexMatch "^(DPO|SKIP|PET|TORCHELASTIC)_" $name) (not (has $name $open))) }}
- {{ $path }}.{{ $name }}: reserved: set by the launcher or Kubernetes; remove it{{ with get $keys $name }} and set {{ . }}{{ end }} [env-reserved]
{{- else if hasKey $tokens $name }}
- {{ $path }}.{{ $name }}: reserved: tokens come from Secrets; set secrets.{{ get $tokens $name }}.existingSecret [env-token]
{{- /* removed: replaced by validate.secrets, which has named it. */}}
{{- else if and (ne (toString $value) "removed") (include "megatron-dpo.isCredential" (dict "name" $name "value" $value "known" $known)) }}
- {{ $path }}.{{ $name }}: a secret in plain text; set extraEnv.{{ $name }}: {valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}} [env-secret]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
