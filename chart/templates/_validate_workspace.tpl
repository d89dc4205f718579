{{- define "megatron-dpo.validate.workspace" -}}
{{- $workspace := .Values.workspace -}}
{{- $kinds := list "existingClaim" "pvc" "nfs" "hostPath" "emptyDir" -}}
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
- workspace.emptyDir: {{ int .Values.nodes }} nodes cannot share it; use existingClaim, pvc, nfs or hostPath, or set nodes: 1 [workspace-shared]
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

{{- define "megatron-dpo.validate.stages" -}}
{{- if eq .Values.stages.placement "jobs" }}
{{- if and (eq .Values.recipe.backend "megatron") (not .Values.stages.convert.skip) }}
- stages.placement: jobs runs stages without a GPU, and convert requires one; set stages.convert.skip: true or placement: inline [stages-convert]
{{- end }}
{{- if kindIs "map" .Values.workspace.emptyDir }}
- stages.placement: jobs passes the data to other pods, and workspace.emptyDir ends with its pod; use another workspace or placement: inline [stages-empty-dir]
{{- end }}
{{- end }}
{{- end }}

{{- define "megatron-dpo.validate.nodes" -}}
{{- if and (eq .Values.recipe.backend "megatron") (not .Values.gpusPerNode) }}
- gpusPerNode: 0, and Megatron requires GPUs; set the GPUs of a node or recipe.backend: transformers [gpus-missing]
{{- end }}
{{- if eq (int .Values.rendezvous.masterPort) (int .Values.rendezvous.gangPort) }}
- rendezvous.gangPort: {{ int .Values.rendezvous.gangPort }} is rendezvous.masterPort too; use another port [rendezvous-ports]
{{- end }}
{{- if not (or .Values.image.tag .Values.image.digest) }}
- image.tag: empty, as is image.digest, which means latest; set one of them [image-missing]
{{- end }}
{{- end }}
