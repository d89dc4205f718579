{{/* extraEnv and network.env: no variable that the chart sets, and no secret in plain text. */}}
{{- define "megatron-dpo.validate.env" -}}
{{- $reserved := list "JOB_COMPLETION_INDEX" "NODE_RANK" "RANK" "LOCAL_RANK" "WORLD_SIZE" "LOCAL_WORLD_SIZE" "GROUP_RANK" "MASTER_ADDR" "MASTER_PORT" "NNODES" "NPROC_PER_NODE" "CUDA_VISIBLE_DEVICES" "NVIDIA_VISIBLE_DEVICES" "PYTHONHOME" "PYTHONSAFEPATH" "PYTHONSTARTUP" "PYTHONINSPECT" "PYTHONOPTIMIZE" "PYTHONEXECUTABLE" "PYTHONPLATLIBDIR" "GPU_MODEL" "NETWORK_TRANSPORT" "NETWORK_FLOOR_GBS" -}}
{{- /* Keys of the values for variables that people set elsewhere. */}}
{{- $keys := dict
  "SKIP_CLONE" "stages.clone.skip" "SKIP_DOWNLOAD" "stages.download.skip" "SKIP_CONVERT" "stages.convert.skip"
  "SKIP_TRAIN" "stages.train.skip" "SKIP_CLONE_REPO" "stages.clone.skip" "SKIP_DOWNLOAD_DATA" "stages.download.skip"
  "SKIP_DOWNLOAD_MODEL" "stages.download.skip" "SKIP_PREPROCESS" "stages.download.skip" "SKIP_CHECKPOINT_CONVERSION" "stages.convert.skip" "SKIP_TRAINING" "stages.train.skip"
  "SKIP_PREFLIGHT" "preflight.skip" "MASTER_PORT" "rendezvous.masterPort" "NNODES" "nodes"
  "WORLD_SIZE" "nodes and gpusPerNode" "NPROC_PER_NODE" "gpusPerNode" "LOCAL_WORLD_SIZE" "gpusPerNode"
  "CUDA_VISIBLE_DEVICES" "gpusPerNode" "NVIDIA_VISIBLE_DEVICES" "gpusPerNode" "GPU_MODEL" "gpuModel"
  "DPO_NODES" "nodes" "DPO_GPUS_PER_NODE" "gpusPerNode" "DPO_GPU_MODEL" "gpuModel" "DPO_WORKSPACE" "workspace" }}
{{- /* Settings of the launcher that only the user sets. */}}
{{- $open := list "DPO_ACCEPT_PATCHES" -}}
{{- /* Variables that the hubs' libraries read a token from. */}}
{{- $tokens := dict
  "HF_TOKEN" "hf" "HF_HUB_TOKEN" "hf" "HUGGING_FACE_HUB_TOKEN" "hf" "HUGGINGFACE_HUB_TOKEN" "hf"
  "MODELSCOPE_API_TOKEN" "modelscope" "MODELSCOPE_SDK_TOKEN" "modelscope" }}
{{- $known := include "megatron-dpo.credentials" . | fromJson }}
{{- range $path, $env := dict "extraEnv" .Values.extraEnv "network.env" .Values.network.env }}
{{- range $name, $value := $env }}
{{- if has $name (list "true" "false") }}
- {{ $path }}.{{ $name }}: YAML makes {{ $name }} of an unquoted {{ ternary "on, y and yes" "off, n and no" (eq $name "true") }}; quote the name, or use another one [name-boolean]
{{- else if or (has $name $reserved) (and (regexMatch "^(DPO|SKIP|PET|TORCHELASTIC)_" $name) (not (has $name $open))) }}
- {{ $path }}.{{ $name }}: reserved: set by the launcher or Kubernetes; remove it{{ with get $keys $name }} and set {{ . }}{{ end }} [env-reserved]
{{- else if hasKey $tokens $name }}
- {{ $path }}.{{ $name }}: reserved: tokens come from Secrets; set secrets.{{ get $tokens $name }}.existingSecret [env-token]
{{- /* removed: replaced by validate.secrets, which has named it. */}}
{{- else if and (ne (toString $value) "removed") (include "megatron-dpo.isCredential" (dict "name" $name "value" $value "known" $known)) }}
- {{ $path }}.{{ $name }}: a secret in plain text; set extraEnv.{{ $name }}: {valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}} [env-secret]
{{- else if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{- include "megatron-dpo.validate.variable" (dict "root" $ "path" $path "name" $name "value" $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- include "megatron-dpo.validate.env.references" . }}
{{- end }}

{{/* $(NAME) in a variable's value: Kubernetes replaces it by a variable that stands above. */}}
{{- define "megatron-dpo.validate.env.references" -}}
{{- if contains "$(" (toJson (list .Values.extraEnv .Values.network.env)) }}
{{- $env := include "megatron-dpo.env.map" (dict "root" . "role" "node") | fromJson }}
{{- $ordered := include "megatron-dpo.env.order" $env | fromJsonArray }}
{{- range $name, $value := $env }}
{{- range $other := include "megatron-dpo.env.references" $value | fromJsonArray }}
{{- /* The keys of a Secret are not known here. */}}
{{- if not (or (hasKey $env $other) (hasPrefix "KUBERNETES_" $other) $.Values.envFrom) }}
- extraEnv.{{ $name }}: $({{ $other }}) is not a variable of the pod, and variables of the image cannot be referred to; set {{ $other }} too, or write $$({{ $other }}) for this text [env-reference]
{{- else if not (has $name $ordered) }}
- extraEnv.{{ $name }}: $({{ $other }}) refers back to {{ $name }}; remove the cycle [env-cycle]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Security contexts that kubelet or the API server would refuse, or that have no effect. */}}
{{- define "megatron-dpo.validate.security" -}}
{{- $user := include "megatron-dpo.securityContext.user" . | fromJson -}}
{{- $container := include "megatron-dpo.securityContext.container" (dict "root" . "role" "node") | fromYaml -}}
{{- $isRoot := eq (toString $user.runAsUser) "0" }}
{{- if and $isRoot $user.runAsNonRoot }}
- podSecurityContext: runAsUser 0 with runAsNonRoot true, which the kubelet refuses; set runAsNonRoot: false for root, or another runAsUser [root-non-root]
{{- end }}
{{- if and .Values.debug.ptrace (not $isRoot) }}
- debug.ptrace: true has no effect as user {{ $user.runAsUser | default "(the image's)" }}, since only root gets the capabilities; set podSecurityContext: {runAsNonRoot: false, runAsUser: 0, runAsGroup: 0}, or debug.ptrace: false [ptrace-not-root]
{{- end }}
{{- $mighty := or $container.privileged (has "SYS_ADMIN" ($container.capabilities.add | default list)) }}
{{- if and $mighty (eq (toString $container.allowPrivilegeEscalation) "false") }}
- securityContext.allowPrivilegeEscalation: false with privileged or SYS_ADMIN, which Kubernetes refuses; remove one of them [privilege-escalation]
{{- end }}
{{- $asked := (.Values.securityContext.capabilities | default dict).add | default list }}
{{- range $path, $add := dict "securityContext.capabilities.add" $asked "network.capabilities" (.Values.network.capabilities | default list) }}
{{- if and $add (not $isRoot) }}
- {{ $path }}: {{ join ", " $add }} has no effect as user {{ $user.runAsUser | default "(the image's)" }}, since only root gets the capabilities; set podSecurityContext: {runAsNonRoot: false, runAsUser: 0, runAsGroup: 0}, or remove it [capability-not-root]
{{- end }}
{{- end }}
{{- $sysctls := list }}
{{- range .Values.podSecurityContext.sysctls }}
{{- $name := replace "/" "." .name }}
{{- if has $name $sysctls }}
- podSecurityContext.sysctls: {{ $name }} is set twice; remove one of them [sysctl-twice]
{{- end }}
{{- if and (hasPrefix "net." $name) (include "megatron-dpo.network" $ | fromJson).hostNetwork }}
- podSecurityContext.sysctls: {{ $name }} would change the host, whose network the pods share (profile {{ $.Values.network.profile }}), and Kubernetes refuses that; remove it [sysctl-host-network]
{{- end }}
{{- $sysctls = append $sysctls $name }}
{{- end }}
{{- end }}

{{/* Non-empty for a valid name of a label, an annotation or a taint. */}}
{{- define "megatron-dpo.isLabel" -}}
{{- if and (regexMatch "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9._]{0,61}[A-Za-z0-9])?$" .) (not (regexMatch "^[^/]{254}" .)) }}yes{{ end }}
{{- end }}
