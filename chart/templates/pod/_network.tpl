{{/*
The fabric as JSON: the profile's data file, with missing fields filled in, under the user's network.*. A map
is merged over the profile's (a null removes an entry); another field replaces it (a null keeps the profile's).
*/}}
{{- define "megatron-dpo.network" -}}
{{- $user := .Values.network -}}
{{- $profile := .Files.Get (printf "networks/%s.yaml" $user.profile) | fromYaml -}}
{{- range $field := list "annotations" "env" "expect" "podSecurityContext" "required" "resources" }}
{{- $_ := set $profile $field (get $profile $field | default dict) }}
{{- end }}
{{- range $field := list "capabilities" "initContainers" "libraryPath" "volumes" "volumeMounts" }}
{{- $_ := set $profile $field (get $profile $field | default list) }}
{{- end }}
{{- range $field, $given := omit $user "profile" "resourceName" "resourceCount" "floorGBs" }}
{{- if kindIs "map" $given }}
{{- range $name, $value := $given }}
{{- $_ := set (get $profile $field) $name (include "megatron-dpo.scalar" $value) }}
{{- if kindIs "invalid" $value }}{{ $_ = unset (get $profile $field) $name }}{{ end }}
{{- end }}
{{- else if not (kindIs "invalid" $given) }}
{{- $_ := set $profile $field $given }}
{{- end }}
{{- end }}
{{- include "megatron-dpo.network.device" (dict "profile" $profile "user" $user) }}
{{- toJson $profile }}
{{- end }}

{{/*
Apply network.resourceName and resourceCount to the profile's only device (huge pages do not count), and attach
one Multus network for each device. Takes (profile, user); modifies the profile.
*/}}
{{- define "megatron-dpo.network.device" -}}
{{- $resources := .profile.resources -}}
{{- $devices := list -}}
{{- range $name, $_ := $resources }}
{{- if contains "/" $name }}{{ $devices = append $devices $name }}{{ end }}
{{- end }}
{{- $_ := set .profile "devices" $devices }}
{{- if le (len $devices) 1 }}
{{- $name := .user.resourceName | default (first $devices) }}
{{- $count := get $resources (first $devices | default "") }}
{{- if not (kindIs "invalid" .user.resourceCount) }}{{ $count = int .user.resourceCount }}{{ end }}
{{- if $name }}
{{- $_ := unset $resources (first $devices | default "") }}
{{- $_ := set $resources $name ($count | default 0 | toString) }}
{{- $_ := set .profile "devices" (list $name) }}
{{- end }}
{{- $multus := "k8s.v1.cni.cncf.io/networks" }}
{{- if and $name .profile.attachment (not (hasKey .profile.annotations $multus)) }}
{{- $names := repeat (toString $count | atoi) (printf "%s," .profile.attachment) | trimSuffix "," }}
{{- $_ := set .profile.annotations $multus $names }}
{{- end }}
{{- end }}
{{- end }}
