{{/*
podSpec and jobset.spec: only fields that the chart has no key for, so that what the chart guarantees holds: command, ranks'
environment, security level, volumes, restarts. A field that is refused without a key is fixed. overhead, preemptionPolicy and
priority come from the RuntimeClass and the PriorityClass: admission refuses a pod that sets another value.
*/}}
{{- define "megatron-dpo.validate.podSpec" -}}
{{- $fixed := "" -}}
{{- $pod := dict
  "activeDeadlineSeconds" "jobset.activeDeadlineSeconds" "affinity" "affinity" "automountServiceAccountToken" $fixed "dnsConfig" "dnsConfig" "enableServiceLinks" $fixed
  "ephemeralContainers" $fixed "hostAliases" "hostAliases" "hostIPC" "sharedMemory.sizeLimit" "hostNetwork" "network.hostNetwork"
  "hostPID" "debug.ptrace" "hostUsers" "hostUsers" "hostname" $fixed "hostnameOverride" $fixed "imagePullSecrets" "image.pullSecrets"
  "initContainers" "extraInitContainers" "nodeName" "nodeSelector" "nodeSelector" "nodeSelector"
  "os" $fixed "overhead" "runtimeClassName" "preemptionPolicy" "priorityClassName" "priority" "priorityClassName" "priorityClassName" "priorityClassName" "resourceClaims" "resourceClaims" "resources" "resources"
  "restartPolicy" $fixed "runtimeClassName" "runtimeClassName" "schedulerName" "schedulerName"
  "schedulingGates" "kueue.queue" "securityContext" "podSecurityContext" "serviceAccount" "serviceAccountName"
  "serviceAccountName" "serviceAccountName" "shareProcessNamespace" "debug.ptrace" "subdomain" $fixed
  "terminationGracePeriodSeconds" "terminationGracePeriodSeconds" "tolerations" "tolerations"
  "topologySpreadConstraints" "topologySpreadConstraints" "volumes" "extraVolumes" -}}
{{- $container := dict
  "args" $fixed "command" $fixed "env" "extraEnv" "envFrom" "envFrom" "image" "image" "imagePullPolicy" "image.pullPolicy"
  "livenessProbe" "restarts.hang" "ports" "monitoring.port" "resources" "resources" "restartPolicy" $fixed
  "restartPolicyRules" $fixed "securityContext" "securityContext" "terminationMessagePath" $fixed
  "terminationMessagePolicy" $fixed "volumeDevices" "extraVolumeMounts" "volumeMounts" "extraVolumeMounts" "workingDir" $fixed -}}
{{- $jobset := dict
  "failurePolicy" "restarts" "managedBy" "jobset.managedBy" "network" $fixed "replicatedJobs" "podSpec" "startupPolicy" $fixed
  "successPolicy" $fixed "suspend" "kueue.queue" "ttlSecondsAfterFinished" "ttlSecondsAfterFinished"
  "volumeClaimPolicies" "workspace.pvc" -}}
{{- $given := dict "podSpec" (list .Values.podSpec $pod) "jobset.spec" (list .Values.jobset.spec $jobset) }}
{{- with .Values.podSpec.containers }}
{{- if or (ne (len .) 1) (ne (dig "name" "" (first .)) "launcher") }}
- podSpec.containers: holds more than the container launcher, and a second one would keep the pods from ending; use extraInitContainers with restartPolicy: Always for a sidecar [pod-spec-container]
{{- else }}
{{- $_ := set $given "podSpec.containers[0]" (list (first .) $container) }}
{{- end }}
{{- end }}
{{- $launcher := first (.Values.podSpec.containers | default list) | default dict }}
{{- range $path, $handler := dict "readinessProbe" $launcher.readinessProbe "startupProbe" $launcher.startupProbe "lifecycle.postStart" (dig "lifecycle" "postStart" dict $launcher) "lifecycle.preStop" (dig "lifecycle" "preStop" dict $launcher) }}
{{- range $kind := list "httpGet" "tcpSocket" }}
{{- $port := dig $kind "port" "" ($handler | default dict) }}
{{- if and (kindIs "string" $port) (ne $port "") (not (and (eq $port "metrics") $.Values.monitoring.port)) }}
- podSpec.containers[0].{{ $path }}.{{ $kind }}.port: the container has no port {{ $port | quote }}, so that this never succeeds; use a number, or metrics with monitoring.port [pod-spec-port]
{{- end }}
{{- end }}
{{- end }}
{{- $grace := int .Values.terminationGracePeriodSeconds }}
{{- range $hook := list "postStart" "preStop" }}
{{- $seconds := dig "lifecycle" $hook "sleep" "seconds" 0 (first ($.Values.podSpec.containers | default list) | default dict) | int }}
{{- if gt $seconds $grace }}
- podSpec.containers[0].lifecycle.{{ $hook }}.sleep.seconds: {{ $seconds }}, and terminationGracePeriodSeconds is {{ $grace }}; use a smaller number [pod-spec-sleep]
{{- end }}
{{- end }}
{{- if and (eq (toString .Values.podSpec.dnsPolicy) "ClusterFirst") (include "megatron-dpo.network" . | fromJson).hostNetwork }}
- podSpec.dnsPolicy: ClusterFirst uses the host's servers on the host network (profile {{ .Values.network.profile }}), which do not know the ranks; use ClusterFirstWithHostNet or remove it [pod-spec-dns-host]
{{- end }}
{{- if and (eq (toString .Values.podSpec.dnsPolicy) "None") (not (.Values.dnsConfig | default dict).nameservers) }}
- podSpec.dnsPolicy: None, and dnsConfig.nameservers is empty; set them to servers that resolve the cluster's names [pod-spec-dns]
{{- end }}
{{- with get (.Values.jobset.spec | default dict) "coordinator" }}
{{- $address := printf "%s-node-0-%d.%s" $.Release.Name (int .podIndex) $.Release.Name }}
{{- if ge (int .podIndex) (int $.Values.nodes) }}
- jobset.spec.coordinator.podIndex: {{ int .podIndex }}, and nodes is {{ int $.Values.nodes }}; use a rank of the gang, such as 0 [coordinator-rank]
{{- else if gt (len $address) 63 }}
- jobset.spec.coordinator: {{ $address }} has {{ len $address }} characters, and a label's value may have 63; use a shorter release name [release-name-coordinator]
{{- end }}
{{- end }}
{{- range $path, $both := $given }}
{{- range $field := keys (first $both) | sortAlpha }}
{{- if hasKey (last $both) $field }}
- {{ $path }}.{{ $field }}: decided by the chart; {{ get (last $both) $field | printf "use %s" | trimSuffix "use " | default "remove it" }} [pod-spec-owned]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
