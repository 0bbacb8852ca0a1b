{{/*
Every path that ingest serves, as a list in YAML; all others are the api's. files/ingest-paths.json has those that stand below
each of the prefixes (writes) and those that stand as they are (clients, monitoring); a test holds it against the routes that
ingest registers.
*/}}
{{- define "svc.ingestPaths" -}}
{{- $paths := .Files.Get "files/ingest-paths.json" | fromJson -}}
{{- range $prefix := $paths.prefixes }}
{{- range $paths.writes }}
- {{ $prefix }}{{ . }}
{{- end }}
{{- end }}
{{- range concat $paths.clients $paths.monitoring }}
- {{ . }}
{{- end }}
{{- end -}}
