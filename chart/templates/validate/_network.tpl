{{/* The fabric's profile, environment and containers. */}}
{{- define "megatron-dpo.validate.network" -}}
{{- $file := printf "networks/%s.yaml" .Values.network.profile -}}
{{- if not (.Files.Get $file) }}
{{- $known := list }}
{{- range $path, $_ := .Files.Glob "networks/*.yaml" }}
{{- $known = append $known (base $path | trimSuffix ".yaml") }}
{{- end }}
- network.profile: "{{ .Values.network.profile }}" is unknown; use one of {{ join ", " $known }} [network-profile]
{{- else }}
{{- $network := include "megatron-dpo.network" . | fromJson }}
{{- include "megatron-dpo.validate.network.devices" (dict "root" . "network" $network) }}
{{- range $name, $words := $network.required }}
{{- if not (or (get $network.env $name) (get $.Values.extraEnv $name)) }}
- network.env.{{ $name }}: empty, and profile {{ $.Values.network.profile }} has no default; set it to {{ $words }} [network-env-missing]
{{- end }}
{{- end }}
{{- if $network.hostNetwork }}
{{- include "megatron-dpo.validate.network.ports" . }}
{{- if $network.attachment }}
- network.hostNetwork: true, and pods on the host network do not get {{ $network.attachment }}; set network.hostNetwork: false [network-host-attachment]
{{- end }}
{{- end }}
{{- $volumes := list "launchers" "workspace" "shm" "tmp" }}
{{- if include "megatron-dpo.local" . }}{{ $volumes = append $volumes "local-checkpoints" }}{{ end }}
{{- if .Values.code.existingSecret }}{{ $volumes = append $volumes "code-secret" }}{{ end }}
{{- range concat $network.volumes .Values.extraVolumes }}{{ $volumes = append $volumes .name }}{{ end }}
{{- $extra := list }}
{{- range $container := .Values.extraInitContainers }}
{{- range $container.volumeMounts }}{{ $extra = append $extra (list $container.name .name) }}{{ end }}
{{- end }}
{{- range $container := $network.initContainers }}
{{- range $container.volumeMounts }}
{{- if not (has .name $volumes) }}
- {{ ternary "extraInitContainers" "network.initContainers" (has (list $container.name .name) $extra) }}: {{ $container.name }} mounts {{ .name }}, and there is no such volume; add it to extraVolumes [network-init-volume]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The fabric's resources. Takes (root, network). */}}
{{- define "megatron-dpo.validate.network.devices" -}}
{{- $user := .root.Values.network -}}
{{- $devices := .network.devices -}}
{{- range $key := list "resourceName" "resourceCount" }}
{{- $given := get $user $key }}
{{- if and (gt (len $devices) 1) (ne (toString ($given | default "")) "") }}
- network.{{ $key }}: {{ include "megatron-dpo.scalar" $given }} is ambiguous: the devices are {{ join ", " $devices }}; use network.resources: {NAME: COUNT} [network-device-ambiguous]
{{- end }}
{{- end }}
{{- if and (gt (len $devices) 1) .network.attachment }}
- network.attachment: {{ .network.attachment }} is ambiguous: the devices are {{ join ", " $devices }}; use network.annotations: {k8s.v1.cni.cncf.io/networks: ...} [network-attachment-ambiguous]
{{- else if and (not $devices) .network.attachment }}
- network.attachment: {{ .network.attachment }} requires a device, and none is set; set network.resourceName and resourceCount, or network.annotations [network-attachment-no-device]
{{- end }}
{{- if and $user.resourceCount (not $devices) }}
- network.resourceCount: {{ int $user.resourceCount }} without a resource; set network.resourceName or network.resourceCount: null [network-count-no-device]
{{- end }}
{{- range $name, $count := .network.resources }}
{{- if eq $name $.root.Values.gpuResource }}
- network.resourceName: {{ $name }} is gpuResource, whose count is gpusPerNode; use the fabric's device or network.resourceName: "" [network-device-is-gpu]
{{- else if not (include "megatron-dpo.isExtended" $name) }}
- network.resources: {{ $name }} is not a device; use resources.limits.{{ $name }} [network-resource-no-device]
{{- else if not (include "megatron-dpo.isResource" $name) }}
- network.resources: {{ $name }} is not a resource; use the name of a device plugin, such as rdma/hca [resource-name]
{{- else if eq (toString $count) "0" }}
- network.resourceName: {{ $name }} has no count with profile {{ $user.profile }}; set network.resourceName: "" if the fabric needs no device, or network.resourceCount: 1 [network-device-no-count]
{{- end }}
{{- end }}
{{- end }}

{{/*
A pod on the host network shares the host's ports with the kubelet, kube-proxy, the API server and etcd, with
the NodePort range, and Linux's range for outgoing connections.
*/}}
{{- define "megatron-dpo.validate.network.ports" -}}
{{- range $key, $given := dict "rendezvous.masterPort" .Values.rendezvous.masterPort "rendezvous.gangPort" .Values.rendezvous.gangPort "monitoring.port" .Values.monitoring.port }}
{{- $port := int $given }}
{{- if or (and (ge $port 30000) (le $port 60999)) (has $port (list 2379 2380 2381 6443 10248 10249 10250 10256 10257 10259)) }}
- {{ $key }}: {{ $port }} may be in use on the host, whose network the pods share (profile {{ $.Values.network.profile }}); use a port from 20000 to 29999 [host-port]
{{- end }}
{{- end }}
{{- end }}
