{{/* What everything is called. */}}
{{- define "hostler.name" -}}
{{- if contains "hostler" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-hostler" (.Release.Name | trunc 42 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* What selects the server's pods. Never changed: selectors cannot be. */}}
{{- define "hostler.selector" -}}
app.kubernetes.io/name: hostler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hostler.labels" -}}
{{ include "hostler.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "hostler.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "hostler.account" -}}
{{ .Values.serviceAccount.name | default (include "hostler.name" .) }}
{{- end }}

{{/* Where the containers' pods are. */}}
{{- define "hostler.containers" -}}
{{ .Values.workloads.namespace | default .Release.Namespace }}
{{- end }}

{{/* Roles of two releases may meet in one namespace for containers. */}}
{{- define "hostler.role" -}}
{{- if eq (include "hostler.containers" .) .Release.Namespace }}{{ include "hostler.name" . }}
{{- else }}{{ printf "%s-%s" .Release.Namespace (include "hostler.name" .) }}{{ end }}
{{- end }}

{{- define "hostler.keys" -}}
{{ .Values.apiKeys.existingSecret | default (printf "%s-api-keys" (include "hostler.name" .)) }}
{{- end }}

{{/* The ConfigMap of workload files; empty for none. */}}
{{- define "hostler.files" -}}
{{- if .Values.workloads.existingConfigMap }}{{ .Values.workloads.existingConfigMap }}
{{- else if .Values.workloads.files }}{{ include "hostler.name" . }}-workloads{{ end }}
{{- end }}

{{/* The ConfigMap of bindings; empty for none. */}}
{{- define "hostler.bindings" -}}
{{- if .Values.bindings.existingConfigMap }}{{ .Values.bindings.existingConfigMap }}
{{- else if .Values.bindings.items }}{{ include "hostler.name" . }}-bindings{{ end }}
{{- end }}

{{/* The scheme of the API. */}}
{{- define "hostler.scheme" -}}
{{ if .Values.tls.existingSecret }}https{{ else }}http{{ end }}
{{- end }}

{{/* The volume claim of a server that keeps its records in SQLite. */}}
{{- define "hostler.claim" -}}
{{ .Values.store.sqlite.existingClaim | default (printf "%s-data" (include "hostler.name" .)) }}
{{- end }}
