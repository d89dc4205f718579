{{/*
The fabric as JSON: the profile's data file, with missing fields filled in, under the user's network.*. A map
is merged over the profile's (a null removes an entry); another field replaces it (a null keeps the profile's).
*/}}
{{- define "megatron-dpo.network" -}}
{{- include "megatron-dpo.once" (dict "root" . "name" "megatron-dpo.network.merged") }}
{{- end }}

{{- define "megatron-dpo.network.merged" -}}
{{- $user := .Values.network -}}
{{- $profile := .Files.Get (printf "networks/%s.yaml" $user.profile) | fromYaml -}}
{{- range $field := list "annotations" "env" "expect" "podSecurityContext" "required" "resources" }}
{{- $_ := set $profile $field (get $profile $field | default dict) }}
{{- end }}
{{- range $field := list "capabilities" "initContainers" "libraryPath" "volumes" "volumeMounts" }}
{{- $_ := set $profile $field (get $profile $field | default list) }}
{{- end }}
{{- range $field, $given := omit $user "profile" "resourceName" "resourceCount" "floorGBs" "imageRegistry" }}
{{- if kindIs "map" $given }}
{{- range $name, $value := ternary $given dict (kindIs "map" (get $profile $field)) }}
{{- $_ := set (get $profile $field) $name (include "megatron-dpo.scalar" $value) }}
{{- if kindIs "invalid" $value }}{{ $_ = unset (get $profile $field) $name }}{{ end }}
{{- end }}
{{- else if not (kindIs "invalid" $given) }}
{{- $_ := set $profile $field $given }}
{{- end }}
{{- end }}
{{- $_ := set $profile "initContainers" (include "megatron-dpo.network.initContainers" (dict "profile" $profile "values" .Values) | fromJsonArray) }}
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

{{/*
Init containers and sidecars as a JSON list: the network's, with their images from network.imageRegistry, each
overridden by the entry of extraInitContainers with the same name, then the remaining entries. Takes (profile,
values).
*/}}
{{- define "megatron-dpo.network.initContainers" -}}
{{- $extra := dict -}}
{{- range .values.extraInitContainers }}{{ $_ := set $extra .name . }}{{ end }}
{{- $containers := list }}
{{- range $container := .profile.initContainers }}
{{- with $.values.network.imageRegistry }}
{{- $_ := set $container "image" (printf "%s/%s" . (regexReplaceAll "^[^/]*[.:][^/]*/" $container.image "")) }}
{{- end }}
{{- $containers = append $containers (mergeOverwrite (dict) $container (get $extra .name | default dict)) }}
{{- $_ := unset $extra .name }}
{{- end }}
{{- range .values.extraInitContainers }}
{{- if hasKey $extra .name }}{{ $containers = append $containers (deepCopy .) }}{{ end }}
{{- end }}
{{- include "megatron-dpo.unsetNulls" $containers }}
{{- toJson $containers }}
{{- end }}
