{{/* Common parts of the pods of svc. */}}

{{- define "svc.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* The settings of a role; they win over the common ones. Argument: list of root and role. */}}
{{- define "svc.settingsEnv" -}}
{{- $root := index . 0 -}}
{{- $ofRole := dict -}}
{{- with index . 1 }}{{ $ofRole = (index $root.Values .values).settings }}{{ end -}}
{{- $own := dict
  "SVC_HOST" "0.0.0.0"
  "SVC_PORT" "8080"
  "NODE_ENV" "production"
  "SVC_DRAIN_SECONDS" $root.Values.drain.drainSeconds
  "SVC_SHUTDOWN_DELAY_SECONDS" $root.Values.drain.shutdownDelaySeconds
-}}
{{- if not $root.Values.monitoring.onMainPort }}{{ $_ := set $own "SVC_METRICS_PORT" "9464" }}{{ end -}}
{{- with include "svc.publicUrl" $root }}{{ $_ := set $own "SVC_PUBLIC_URL" . }}{{ end -}}
{{- range $name, $value := merge (dict) $ofRole $root.Values.settings $own }}
- name: {{ $name }}
  {{- /* Helm parses numbers as floats: 1200000 must not become 1.2e+06. */}}
  value: {{ ternary (printf "%v" $value) (printf "%v" (int64 $value)) (not (kindIs "float64" $value)) | quote }}
{{- end }}
{{- end -}}

{{/* Single sign-on: the document, and the secrets whose variables it names. */}}
{{- define "svc.singleSignOnEnv" -}}
{{- $sso := .Values.singleSignOn -}}
{{- with $sso.config }}
- name: SVC_SSO
  value: {{ toJson . | quote }}
{{- end }}
{{- with $sso.privateHosts }}
- name: SVC_SSO_PRIVATE_HOSTS
  value: {{ join "," . | quote }}
{{- end }}
{{- $names := list -}}
{{- with ($sso.config.proxy).secretEnv }}{{ $names = append $names . }}{{ end -}}
{{- range $sso.config.providers }}{{ with .clientSecretEnv }}{{ $names = append $names . }}{{ end }}{{ end -}}
{{- if and $names (not $sso.existingSecret) }}
{{- fail (printf "singleSignOn.existingSecret must name the Secret with %s" (join ", " $names)) }}
{{- end -}}
{{- range uniq $names }}
- name: {{ . }}
  valueFrom: { secretKeyRef: { name: {{ $sso.existingSecret }}, key: {{ . }} } }
{{- end }}
{{- end -}}

{{/* All variables of a role. Argument: list of root, role (or nil), and the Secret with the given addresses. */}}
{{- define "svc.env" -}}
{{- $root := index . 0 -}}
{{- include "svc.settingsEnv" (list $root (index . 1)) }}
{{ include "svc.keyEnv" $root }}
{{- include "svc.storeEnv" (list $root (index . 2)) }}
{{- include "svc.singleSignOnEnv" $root }}
{{- with $root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "svc.volumeMounts" -}}
- { name: tmp, mountPath: /tmp }
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "svc.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The first fields of every pod spec of svc. */}}
{{- define "svc.podBasics" -}}
serviceAccountName: {{ include "svc.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The migrations. Argument: list of root and the name of the Secret with the given addresses. */}}
{{- define "svc.migratePodSpec" -}}
{{- $root := index . 0 -}}
{{- include "svc.podBasics" $root }}
# The stores may still be starting: the Job retries with growing delays.
restartPolicy: OnFailure
containers:
  - name: migrate
    image: {{ include "svc.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: [migrate]
    env:
      {{- include "svc.env" (list $root nil (index . 1)) | nindent 6 }}
      - name: SVC_BOOTSTRAP_API_KEY
        valueFrom: { secretKeyRef: { name: {{ include "svc.secretName" $root }}, key: SVC_BOOTSTRAP_API_KEY, optional: true } }
    resources:
      {{- toYaml $root.Values.migrations.resources | nindent 6 }}
    securityContext:
      {{- include "svc.containerSecurityContext" $root | nindent 6 }}
    volumeMounts:
      {{- include "svc.volumeMounts" $root | nindent 6 }}
volumes:
  {{- include "svc.volumes" $root | nindent 2 }}
{{- end -}}
