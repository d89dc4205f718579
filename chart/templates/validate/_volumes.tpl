{{/* Exactly one kind of workspace, which all nodes can mount. */}}
{{- define "megatron-dpo.validate.workspace" -}}
{{- $workspace := .Values.workspace -}}
{{- $kinds := list "existingClaim" "pvc" "nfs" "hostPath" "csi" "emptyDir" -}}
{{- $given := list -}}
{{- range $kinds }}
{{- if or (get $workspace .) (kindIs "map" (get $workspace .)) }}
{{- $given = append $given . }}
{{- end }}
{{- end }}
{{- if ne (len $given) 1 }}
- workspace: {{ join " and " $given | default "no volume" }} set; set exactly one of {{ join ", " $kinds }}{{ range $given }}, or workspace.{{ . }}: null{{ end }} [workspace-kind]
{{- end }}
{{- $many := gt (int .Values.nodes) 1 }}
{{- if and $many (has "emptyDir" $given) }}
- workspace.emptyDir: {{ int .Values.nodes }} nodes cannot share it; use existingClaim, pvc, nfs, hostPath or csi, or set nodes: 1 [workspace-shared]
{{- end }}
{{- with $.Values.localCheckpoints }}
{{- if and .hostPath (kindIs "map" .emptyDir) }}
- localCheckpoints: emptyDir and hostPath set; set one of them [local-kind]
{{- end }}
{{- if and (or .hostPath (kindIs "map" .emptyDir)) (or (ne $.Values.recipe.backend "megatron") (ne $.Values.recipe.saving "background")) }}
- localCheckpoints: only checkpoints that Megatron writes in the background go to it; set recipe.backend: megatron and recipe.saving: background, or remove it [local-saving]
{{- end }}
{{- end }}
{{- with $workspace.nfs }}{{ include "megatron-dpo.validate.server" (dict "path" "workspace.nfs" "server" .server) }}{{ end }}
{{- if ($workspace.csi | default dict).readOnly }}
- workspace.csi.readOnly: true, and the run writes checkpoints and outputs to the workspace; set it to false [workspace-read-only]
{{- end }}
{{- $volumes := dict "workspace" $workspace }}
{{- range $position, $volume := .Values.extraVolumes }}{{ $_ := set $volumes (printf "extraVolumes[%d]" $position) $volume }}{{ end }}
{{- range $path, $volume := $volumes }}
{{- if and (eq (dig "csi" "driver" "" $volume) "gcsfuse.csi.storage.gke.io") (ne (dig "gke-gcsfuse/volumes" "" $.Values.podAnnotations | toString) "true") }}
- {{ $path }}.csi: a bucket, which GKE mounts only in annotated pods: they would wait for the volume; set podAnnotations: {gke-gcsfuse/volumes: "true"} [gcsfuse-annotation]
{{- end }}
{{- end }}
{{- with $workspace.pvc }}
{{- if and (has "ReadWriteOncePod" (.accessModes | default list)) (gt (len .accessModes) 1) }}
- workspace.pvc.accessModes: {{ join ", " .accessModes }} set, and ReadWriteOncePod cannot be combined with another mode; use one of them [access-mode-single]
{{- end }}
{{- if and $many .accessModes (not (has "ReadWriteMany" .accessModes)) }}
- workspace.pvc.accessModes: {{ join ", " .accessModes }} admits one host, and nodes is {{ int $.Values.nodes }}; use [ReadWriteMany] [access-mode-many]
{{- end }}
{{- end }}
{{- end }}

{{/* The server of an NFS volume. Takes (path, server). */}}
{{- define "megatron-dpo.validate.server" -}}
{{- if contains "/" .server }}
- {{ .path }}.server: {{ .server }} is not a host name; use {{ regexReplaceAll ":?/.*$" .server "" | default "nfs.example.com" }}, and put the folder into {{ .path }}.path [nfs-server]
{{- else if regexMatch "^[^:]*:[0-9]*$" .server }}
- {{ .path }}.server: {{ .server }} has a port, which an NFS volume cannot; use {{ splitList ":" .server | first }}, or a PersistentVolume with mountOptions [nfs-server]
{{- end }}
{{- end }}

{{/* Paths must be normalized: two spellings of one folder would count as two folders. */}}
{{- define "megatron-dpo.validate.paths" -}}
{{- $workspace := .Values.workspace -}}
{{- $given := dict "workspace.mountPath" $workspace.mountPath -}}
{{- with $workspace.hostPath }}{{ $_ := set $given "workspace.hostPath.path" .path }}{{ end -}}
{{- with (.Values.localCheckpoints | default dict).hostPath }}{{ $_ := set $given "localCheckpoints.hostPath.path" .path }}{{ end -}}
{{- with $workspace.nfs }}{{ $_ := set $given "workspace.nfs.path" .path }}{{ end -}}
{{- $below := dict "workspace.subPath" $workspace.subPath -}}
{{- range $position, $mount := .Values.extraVolumeMounts }}
{{- $path := printf "extraVolumeMounts[%d]" $position }}
{{- $_ := set $given (printf "%s.mountPath" $path) $mount.mountPath }}
{{- $_ := set $below (printf "%s.subPath" $path) ($mount.subPath | default "") }}
{{- $_ := set $below (printf "%s.subPathExpr" $path) ($mount.subPathExpr | default "") }}
{{- if and $mount.subPath $mount.subPathExpr }}
- {{ $path }}.subPathExpr: set with subPath, and Kubernetes accepts one of them; remove one [sub-path-both]
{{- end }}
{{- end }}
{{- range $path, $folder := $given }}
{{- if or (ne $folder (clean $folder)) (not (isAbs $folder)) }}
- {{ $path }}: {{ $folder | quote }} is not a clean path; use {{ printf "/%s" $folder | clean }} [path-unclean]
{{- end }}
{{- end }}
{{- range $path, $folder := $below }}
{{- if and $folder (or (ne $folder (clean $folder)) (isAbs $folder) (regexMatch "^[.]{1,2}(/|$)" $folder)) }}
- {{ $path }}: {{ $folder | quote }} is not a clean path below the volume; use folders without leading or trailing /, and without //, . and .. [sub-path-unclean]
{{- end }}
{{- end }}
{{- $folder := clean $workspace.mountPath }}
{{- if or (regexMatch "^/(bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|sbin|sys|usr|opt/launchers|local-checkpoints)(/|$)" $folder) (has $folder (list "/" "/home" "/opt" "/root" "/run" "/tmp" "/var")) }}
- workspace.mountPath: {{ $folder }} is reserved by the system or the chart; use another path, e.g. /workspace [mount-path-taken]
{{- end }}
{{- end }}

{{/* The user's volumes and mounts: no duplicate name or path, and no source that the API server refuses. */}}
{{- define "megatron-dpo.validate.volumes" -}}
{{- $network := include "megatron-dpo.network" . | fromJson -}}
{{- $privileged := (include "megatron-dpo.securityContext.container" (dict "root" . "role" "node") | fromYaml).privileged }}
{{- range $position, $mount := .Values.extraVolumeMounts }}
{{- if and (eq ($mount.mountPropagation | default "") "Bidirectional") (not $privileged) }}
- extraVolumeMounts[{{ $position }}].mountPropagation: Bidirectional requires a privileged container; use HostToContainer, or securityContext: {privileged: true} [mount-propagation]
{{- end }}
{{- end }}
{{- $taken := list "launchers" "package" "workspace" "shm" "tmp" "release" "local-checkpoints" "agent-token" "events-token" }}
{{- if .Values.code.existingSecret }}
{{- $taken = append $taken "code-secret" }}
{{- end }}
{{- range $network.volumes }}{{ $taken = append $taken .name }}{{ end }}
{{- range $position, $volume := .Values.extraVolumes }}
{{- if has .name $taken }}
- extraVolumes: the name {{ .name }} is in use; use another one [volume-name]
{{- end }}
{{- range $kind, $key := dict "configMap" "name" "ephemeral" "volumeClaimTemplate" "secret" "secretName" }}
{{- $source := get $volume $kind }}
{{- if and (kindIs "map" $source) (not (get $source $key)) }}
- extraVolumes[{{ $position }}].{{ $kind }}.{{ $key }}: missing; name the source of volume {{ $volume.name }} [volume-source]
{{- end }}
{{- end }}
{{- $claim := dig "volumeClaimTemplate" "spec" dict (.ephemeral | default dict) }}
{{- $spec := printf "extraVolumes[%d].ephemeral.volumeClaimTemplate.spec" $position }}
{{- if and (has "ReadWriteOncePod" ($claim.accessModes | default list)) (gt (len $claim.accessModes) 1) }}
- {{ $spec }}.accessModes: {{ join ", " $claim.accessModes }} set, and ReadWriteOncePod cannot be combined with another mode; use one of them [access-mode-single]
{{- end }}
{{- if and $claim.dataSource $claim.dataSourceRef (ne (toJson $claim.dataSource) (toJson $claim.dataSourceRef)) }}
- {{ $spec }}.dataSource: differs from dataSourceRef, and Kubernetes requires one source; remove one of them [volume-data-source]
{{- end }}
{{- $files := list }}
{{- range $source := (.projected | default dict).sources }}
{{- if and $.Values.restarts.agentImage $source.serviceAccountToken (not (dig "serviceAccountToken" "audience" "" $source)) }}
- extraVolumes[{{ $position }}].projected: a token of the pods' service account, with which training code could patch every pod of the namespace (restarts.agentImage); set the audience of another service, or remove it [agent-token]
{{- end }}
{{- range $kind, $projection := $source }}
{{- range $item := $projection.items | default (list $projection) }}
{{- if and .path (has .path $files) }}
- extraVolumes[{{ $position }}].projected: the path {{ .path }} is in use; use another path [projected-path]
{{- end }}
{{- $files = append $files .path }}
{{- end }}
{{- end }}
{{- end }}
{{- with (.nfs | default dict).server }}{{ include "megatron-dpo.validate.server" (dict "path" (printf "extraVolumes[%d].nfs" $position) "server" .) }}{{ end }}
{{- $taken = append $taken .name }}
{{- end }}
{{- include "megatron-dpo.validate.mountPaths" (dict "root" . "taken" $taken) }}
{{- include "megatron-dpo.validate.hugePages" . }}
{{- end }}
