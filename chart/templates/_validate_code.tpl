{{/* The rules of launchers/stages/clone.py; a test compares them. A URL is never shown: it may hold a password. */}}
{{- define "megatron-dpo.validate.code" -}}
{{- with .Values.code }}
{{- if regexMatch "^(https?://[^/]*@|\\w+://[^/@]*:[^/]*@)" .url }}
- code.url: holds a name or password, which everybody who sees the run would see; remove it from the URL, and put a token into a Secret that code.existingSecret names
{{- else if and .url (not (regexMatch "^((https?|ssh|git|file)://[^\\s/]*/\\S+|[\\w.-]+@[\\w.-]+:\\S+)$" .url)) }}
- code.url: no git URL; write https://host/path.git, ssh://git@host/path.git, git@host:path or file:///path
{{- end }}
{{- if and .url (not .ref) }}
- code.ref: empty; write the commit, tag or branch to clone
{{- end }}
{{- if regexMatch "^-|[\\s~^:?*\\[\\\\]|[.][.]" .ref }}
- code.ref: {{ .ref | quote }} is no ref; write a commit, tag or branch
{{- end }}
{{- if and (not .url) (or .ref .existingSecret) }}
- code.url: empty, but code.{{ ternary "ref" "existingSecret" (ne .ref "") }} is given; write the git URL, or remove it
{{- end }}
{{- end }}
{{- end }}
