{{/* The rules of launchers/stages/clone.py; a test compares them. A URL is never shown: it may hold a password. */}}
{{- define "megatron-dpo.validate.code" -}}
{{- with .Values.code }}
{{- if regexMatch "^(https?://[^/]*@|\\w+://[^/@]*:[^/]*@)" .url }}
- code.url: holds a name or password, which everybody who can see the run could read; remove it from the URL and put a token into a Secret named by code.existingSecret [code-url-secret]
{{- else if and .url (not (regexMatch "^((https?|ssh|git|file)://[^\\s/]*/\\S+|[\\w.-]+@[\\w.-]+:\\S+)$" .url)) }}
- code.url: not a git URL; use https://host/path.git, ssh://git@host/path.git, git@host:path or file:///path [code-url]
{{- end }}
{{- if and .url (not .ref) }}
- code.ref: empty; set the commit, tag or branch to clone [code-ref-missing]
{{- end }}
{{- if regexMatch "^-|[\\s~^:?*\\[\\\\]|[.][.]" .ref }}
- code.ref: {{ .ref | quote }} is not a git ref; use a commit, tag or branch [code-ref]
{{- end }}
{{- if and (not .url) (or .ref .existingSecret) }}
- code.url: empty, but code.{{ ternary "ref" "existingSecret" (ne .ref "") }} is set; set the git URL or remove it [code-url-missing]
{{- end }}
{{- end }}
{{- end }}
