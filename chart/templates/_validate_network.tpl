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
{{- range concat $network.volumes .Values.extraVolumes }}{{ $volumes = append $volumes .name }}{{ end }}
{{- range $container := $network.initContainers }}
{{- range $container.volumeMounts }}
{{- if not (has .name $volumes) }}
- network.initContainers: {{ $container.name }} mounts {{ .name }}, and there is no such volume; add it to extraVolumes [network-init-volume]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A pod of the host's network shares the host's ports: not with kubelet, kube-proxy, the API server
and etcd, nor in Kubernetes' range for NodePorts, nor in Linux' range for outgoing connections.
*/}}
{{- define "megatron-dpo.validate.network.ports" -}}
{{- range $key, $given := pick .Values.rendezvous "masterPort" "gangPort" }}
{{- $port := int $given }}
{{- if or (and (ge $port 30000) (le $port 60999)) (has $port (list 2379 2380 2381 6443 10248 10249 10250 10256 10257 10259)) }}
- rendezvous.{{ $key }}: {{ $port }} may be in use on the host, whose network the pods share (profile {{ $.Values.network.profile }}); use a port from 20000 to 29999 [host-port]
{{- end }}
{{- end }}
{{- end }}
