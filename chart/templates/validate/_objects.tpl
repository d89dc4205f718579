{{/* Objects other than the JobSet, and requirements of a controller of another cluster. */}}
{{- define "megatron-dpo.validate.objects" -}}
{{- $name := .Release.Name -}}
{{- $owned := list (printf "JobSet/%s" $name) (printf "Service/%s" $name) (printf "Pod/%s-test" $name) (printf "ConfigMap/%s-launchers" $name) (printf "ConfigMap/%s-training" $name) (printf "ConfigMap/%s-dashboard" $name) (printf "PersistentVolumeClaim/%s-workspace" $name) (printf "PodMonitor/%s" $name) (printf "NetworkPolicy/%s" $name) }}
{{- if .Values.monitoring.events }}{{ $owned = append $owned (printf "Role/%s-events" $name) }}{{ $owned = append $owned (printf "RoleBinding/%s-events" $name) }}{{ end }}
{{- if .Values.restarts.agentImage }}{{ $owned = append $owned (printf "Role/%s-restarts" $name) }}{{ $owned = append $owned (printf "RoleBinding/%s-restarts" $name) }}{{ end }}
{{- $isCreated := include "megatron-dpo.serviceAccount.isCreated" . }}
{{- if $isCreated }}{{ $owned = append $owned (printf "ServiceAccount/%s" (include "megatron-dpo.serviceAccount.name" .)) }}{{ end }}
{{- range $position, $object := .Values.extraObjects }}
{{- $namespace := .metadata.namespace | default $.Release.Namespace }}
{{- $id := printf "%s/%s%s" .kind .metadata.name (ternary "" (printf " in %s" $namespace) (eq $namespace $.Release.Namespace)) }}
{{- if has $id $owned }}
- extraObjects[{{ $position }}]: {{ $id }} is in use; use another name [extra-object-name]
{{- end }}
{{- range $key, $_ := ternary .binaryData dict (eq .kind "ConfigMap") }}
{{- if hasKey ($object.data | default dict) $key }}
- extraObjects[{{ $position }}]: {{ $key }} is in data and in binaryData; remove one of them [extra-object-key]
{{- end }}
{{- end }}
{{- if and (eq .kind "Secret") (or .data .stringData) }}
- extraObjects[{{ $position }}]: a Secret with its data in plain text; create it outside of the release, or use an ExternalSecret [extra-object-secret]
{{- end }}
{{- $owned = append $owned $id }}
{{- end }}
{{- with .Values.jobset.managedBy }}
{{- if eq (include "megatron-dpo.launcher.from" $) "chart" }}
- jobset.managedBy: {{ . }} copies the JobSet to another cluster, without the launcher's ConfigMap; set launcher.from: image, or volume with a release's package [managed-launcher]
{{- end }}
{{- end }}
{{- $spread := list }}
{{- range $position, $constraint := .Values.topologySpreadConstraints }}
{{- $id := printf "%s %s" .topologyKey .whenUnsatisfiable }}
{{- if has $id $spread }}
- topologySpreadConstraints[{{ $position }}]: topologyKey and whenUnsatisfiable are those of an earlier one; remove one of them [spread-twice]
{{- end }}
{{- $spread = append $spread $id }}
{{- end }}
{{- $searches := (.Values.dnsConfig | default dict).searches | default list | join " " | len }}
{{- if gt $searches 2048 }}
- dnsConfig.searches: {{ $searches }} characters, and Kubernetes accepts 2048; remove some [dns-searches]
{{- end }}
{{- $addresses := list }}
{{- range $position, $alias := .Values.hostAliases }}
{{- if has .ip $addresses }}
- hostAliases[{{ $position }}].ip: {{ .ip }} has an entry above; add the names to its hostnames [host-alias-twice]
{{- end }}
{{- $addresses = append $addresses .ip }}
{{- end }}
{{- $claims := list }}
{{- range $position, $claim := .Values.resourceClaims }}
{{- if has .name $claims }}
- resourceClaims[{{ $position }}].name: {{ .name }} is in use; use another name [claim-name]
{{- end }}
{{- $claims = append $claims .name }}
{{- end }}
{{- $host := (include "megatron-dpo.network" . | fromJson).hostNetwork }}
{{- if and $host (eq (toString .Values.hostUsers) "false") }}
- hostUsers: false, and pods on the host network (profile {{ .Values.network.profile }}) must use the host's users; set hostUsers: null [host-users]
{{- end }}
{{- with .Values.networkPolicy }}
{{- if and $host .enabled }}
- networkPolicy.enabled: true, and a NetworkPolicy does not apply to pods on the host network (profile {{ $.Values.network.profile }}); set networkPolicy.enabled: false [network-policy-host]
{{- end }}
{{- range $side, $peers := dict "ingress" "from" "egress" "to" }}
{{- range $position, $rule := get $.Values.networkPolicy $side }}
{{- include "megatron-dpo.validate.networkPolicy" (dict "path" (printf "networkPolicy.%s[%d]" $side $position) "ports" $rule.ports "peers" (get $rule $peers | default list)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Ports and peers of a rule of the NetworkPolicy. Takes (path, ports, peers). */}}
{{- define "megatron-dpo.validate.networkPolicy" -}}
{{- range $position, $port := .ports }}
{{- if and .endPort (lt (int .endPort) (int .port)) }}
- {{ $.path }}.ports[{{ $position }}].endPort: {{ int .endPort }} is less than port {{ int .port }}; use a larger one or remove it [network-policy-range]
{{- end }}
{{- end }}
{{- range $position, $peer := .peers }}
{{- range $except := (.ipBlock | default dict).except }}
{{- if not (include "megatron-dpo.isWithin" (dict "inner" $except "outer" $peer.ipBlock.cidr)) }}
- {{ $.path }}: except {{ $except }} is not a part of {{ $peer.ipBlock.cidr }}; use a smaller network inside it [network-policy-except]
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Non-empty if a network is a part of another; of IPv6 only the sizes are compared. Takes (inner, outer). */}}
{{- define "megatron-dpo.isWithin" -}}
{{- $inner := splitList "/" .inner -}}
{{- $outer := splitList "/" .outer -}}
{{- $bits := last $outer | int -}}
{{- if and (gt (last $inner | int) $bits) (eq (contains ":" .inner) (contains ":" .outer)) }}
{{- $hosts := 1 }}
{{- range until (ternary 0 (sub 32 $bits | int) (contains ":" .outer)) }}{{ $hosts = mul $hosts 2 }}{{ end }}
{{- $numbers := list }}
{{- range $address := list (first $inner) (first $outer) }}
{{- $number := 0 }}
{{- range splitList "." $address }}{{ $number = add (mul $number 256) (ternary 0 (atoi .) (contains ":" $address)) }}{{ end }}
{{- $numbers = append $numbers (div $number $hosts) }}
{{- end }}
{{- if eq (first $numbers) (last $numbers) }}yes{{ end }}
{{- end }}
{{- end }}
