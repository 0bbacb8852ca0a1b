{{/* The addresses of the stores, as variables of a container. */}}

{{/*
The address of a store run here is composed by the kubelet from its password, so that each generated password is in one Secret
only. Argument: list of root and the name of the Secret with the addresses given as values.
*/}}
{{- define "svc.storeEnv" -}}
{{- $root := index . 0 -}}
{{- $given := index . 1 -}}
{{- $fullname := include "svc.fullname" $root -}}
{{- $secret := include "svc.secretName" $root -}}
{{- $needed := dict "clickhouse" true "postgres" true "objects" true -}}
{{- range $store, $composed := dict
  "clickhouse" (dict "name" "CLICKHOUSE_URL" "secrets" (list "clickhouse-password") "url" (printf "http://svc:$(CLICKHOUSE_PASSWORD)@%s-clickhouse:8123/svc" $fullname))
  "objects" (dict "name" "OBJECTS_URL" "secrets" (list "objects-access-key" "objects-secret-key") "url" (printf "s3://$(OBJECTS_ACCESS_KEY):$(OBJECTS_SECRET_KEY)@%s-objects:7070/svc?tls=false" $fullname))
  "postgres" (dict "name" "POSTGRES_URL" "secrets" (list "postgres-password") "url" (printf "postgres://svc:$(POSTGRES_PASSWORD)@%s-postgres:5432/svc" $fullname))
  "redis" (dict "name" "REDIS_URL" "secrets" (list "redis-password") "url" (printf "redis://:$(REDIS_PASSWORD)@%s-redis:6379" $fullname))
}}
{{- $values := index $root.Values $store -}}
{{- $ways := 0 -}}
{{- if $values.url }}{{ $ways = add1 $ways }}{{ end -}}
{{- if $values.existingSecret }}{{ $ways = add1 $ways }}{{ end -}}
{{- if $values.deploy }}{{ $ways = add1 $ways }}{{ end -}}
{{- if gt (int $ways) 1 -}}
{{- fail (printf "%s: set one of %s.url, %s.existingSecret and %s.deploy, not several" $store $store $store $store) -}}
{{- end -}}
{{- if and (eq (int $ways) 0) (hasKey $needed $store) -}}
{{- fail (printf "%s: say where it is: set %s.url, or %s.existingSecret (a Secret whose key %s is the URL), or %s.deploy=true to run one here" $store $store $store $composed.name $store) -}}
{{- end -}}
{{- if $values.url }}
- name: {{ $composed.name }}
  valueFrom: { secretKeyRef: { name: {{ $given }}, key: {{ $composed.name }} } }
{{- else if $values.existingSecret }}
- name: {{ $composed.name }}
  valueFrom: { secretKeyRef: { name: {{ $values.existingSecret }}, key: {{ $values.existingSecretKey }} } }
{{- else if $values.deploy }}
{{- range $composed.secrets }}
- name: {{ . | replace "-" "_" | upper }}
  valueFrom: { secretKeyRef: { name: {{ $secret }}, key: {{ . }} } }
{{- end }}
- name: {{ $composed.name }}
  value: {{ $composed.url | quote }}
{{- end }}
{{- end }}
{{- with $root.Values.postgres }}
{{- if and .readUrl .existingSecretReadKey -}}
{{- fail "postgres: set one of postgres.readUrl and postgres.existingSecretReadKey, not both" -}}
{{- end -}}
{{- if and .existingSecretReadKey (not .existingSecret) -}}
{{- fail "postgres.existingSecretReadKey: is a key of postgres.existingSecret, which is not set" -}}
{{- end -}}
{{- if .readUrl }}
- name: POSTGRES_READ_URL
  valueFrom: { secretKeyRef: { name: {{ $given }}, key: POSTGRES_READ_URL } }
{{- else if .existingSecretReadKey }}
- name: POSTGRES_READ_URL
  valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .existingSecretReadKey }} } }
{{- end }}
{{- end }}
{{- end -}}

{{/* The addresses given as values, for a Secret, because they hold passwords. */}}
{{- define "svc.givenUrls" -}}
{{- range $store := list "clickhouse" "postgres" "redis" "objects" }}
{{- with (index $.Values $store).url }}
{{ upper $store }}_URL: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.postgres.readUrl }}
POSTGRES_READ_URL: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The master key and the first admin's key. */}}
{{- define "svc.keyEnv" -}}
{{- $secret := include "svc.secretName" . -}}
- name: SVC_MASTER_KEY
  valueFrom: { secretKeyRef: { name: {{ $secret }}, key: SVC_MASTER_KEY } }
- name: SVC_MASTER_KEY_PREVIOUS
  valueFrom: { secretKeyRef: { name: {{ $secret }}, key: SVC_MASTER_KEY_PREVIOUS, optional: true } }
{{- end -}}

{{/* A store's volume: list of root and the values of the store. */}}
{{- define "svc.volumeClaimTemplates" -}}
- metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .storage.className }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .storage.size }}
{{- end -}}
