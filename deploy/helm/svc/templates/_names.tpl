{{/* The name of the objects of a release. */}}

{{- define "svc.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for our suffixes and those of Deployments. */}}
{{- define "svc.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "svc.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The selector labels of a component's pods; they never change. Argument: list of root and component. */}}
{{- define "svc.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "svc.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "svc.labels" -}}
{{- $root := index . 0 -}}
{{ include "svc.selectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "svc.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "svc.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "svc.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "svc.secretName" -}}
{{- default (include "svc.fullname" .) .Values.secrets.existingSecret -}}
{{- end -}}

{{/*
The Deployments, in the order of the data flow: name, command, key of the values, and whether it answers requests.
*/}}
{{- define "svc.roles" -}}
{{- $webhooks := .Values.webhookWorker.enabled -}}
- component: ingest
  values: ingest
  args: [ingest]
  serves: true
- component: worker
  values: worker
  args: {{ ternary (list "worker" "--without-webhooks") (list "worker") $webhooks | toJson }}
  serves: false
{{- if $webhooks }}
- component: webhook-worker
  values: webhookWorker
  args: [webhook-worker]
  serves: false
{{- end }}
- component: api
  values: api
  args: [api]
  serves: true
{{- end -}}

{{- define "svc.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{- .Values.publicUrl -}}
{{- else if and .Values.ingress.enabled .Values.ingress.hosts -}}
{{- printf "%s://%s" (ternary "https" "http" (not (empty .Values.ingress.tls))) (first .Values.ingress.hosts) -}}
{{- else if and .Values.httpRoute.enabled .Values.httpRoute.hostnames -}}
{{- printf "https://%s" (first .Values.httpRoute.hostnames) -}}
{{- end -}}
{{- end -}}
