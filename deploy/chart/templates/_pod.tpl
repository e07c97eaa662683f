{{/* The server's pod, the same whatever keeps it. */}}
{{- define "hostler.pod" -}}
{{- $sqlite := eq .Values.store.type "sqlite" -}}
{{- $files := include "hostler.files" . -}}
{{- $bindings := include "hostler.bindings" . -}}
{{- $probe := ternary ", scheme: HTTPS" "" (ne .Values.tls.existingSecret "") -}}
{{- if and .Values.tls.clientCA.existingSecret (not .Values.tls.existingSecret) }}
{{- fail "tls.clientCA: it needs tls.existingSecret" }}
{{- end -}}
metadata:
  labels:
    {{- include "hostler.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    kubectl.kubernetes.io/default-container: hostler
    {{- with .Values.oidc.issuers }}
    # Issuers are read when a server starts.
    hostler/issuers: {{ toJson . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "hostler.account" . }}
  # It creates containers through the cluster's API.
  automountServiceAccountToken: true
  # A Service named hostler would set variables with the prefix HOSTLER_.
  enableServiceLinks: false
  # Requests in progress are finished for up to 20 s; unfinished work is then
  # undone for as long.
  terminationGracePeriodSeconds: 60
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: hostler
      image: {{ include "hostler.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- if .Values.extraArgs }}
      args: {{- prepend .Values.extraArgs "serve" | toYaml | nindent 8 }}
      {{- else }}
      args: [serve]
      {{- end }}
      env:
        - { name: HOSTLER_RUNTIME, value: kubernetes }
        # The nodes get the shim for containers from this image.
        - { name: HOSTLER_SHIM_IMAGE, value: {{ include "hostler.image" . | quote }} }
        - { name: HOSTLER_NAMESPACE, value: {{ include "hostler.containers" . | quote }} }
        - { name: HOSTLER_NON_ROOT, value: {{ .Values.workloads.nonRoot | quote }} }
        - { name: HOSTLER_LISTEN, value: "0.0.0.0:8700" }
        - { name: HOSTLER_DATA, value: /var/lib/hostler }
        - { name: HOSTLER_API_KEY_FILE, value: /etc/hostler/keys/keys }
        {{- if .Values.tls.existingSecret }}
        - { name: HOSTLER_TLS_CERT, value: /etc/hostler/tls/tls.crt }
        - { name: HOSTLER_TLS_KEY, value: /etc/hostler/tls/tls.key }
        {{- end }}
        {{- if .Values.tls.clientCA.existingSecret }}
        - { name: HOSTLER_TLS_CLIENT_CA, value: /etc/hostler/client-ca/ca.crt }
        {{- end }}
        {{- if .Values.oidc.issuers }}
        - { name: HOSTLER_OIDC_FILE, value: /etc/hostler/oidc/issuers.yaml }
        {{- end }}
        {{- if $bindings }}
        - { name: HOSTLER_BINDINGS_FILE, value: /etc/hostler/bindings/bindings.yaml }
        {{- end }}
        {{- range $level, $limits := .Values.quotas }}
        {{- with $limits }}
        - { name: HOSTLER_QUOTA_{{ upper $level }}, value: {{ . | quote }} }
        {{- end }}
        {{- end }}
        - { name: HOSTLER_LOG_FORMAT, value: json }
        - { name: HOSTLER_LOG_LEVEL, value: {{ .Values.logLevel | quote }} }
        - { name: HOSTLER_RETENTION, value: {{ .Values.retention | quote }} }
        {{- if $files }}
        - { name: HOSTLER_WORKLOADS, value: /etc/hostler/workloads }
        {{- end }}
        {{- if not $sqlite }}
        - name: HOSTLER_STORE
          valueFrom:
            secretKeyRef:
              name: {{ required "store.postgres.existingSecret: a Secret with the database's URL is needed" .Values.store.postgres.existingSecret }}
              key: {{ .Values.store.postgres.key }}
        {{- end }}
        {{- if .Values.credentials.existingSecret }}
        - { name: HOSTLER_CREDENTIALS_DIR, value: /etc/hostler/credentials }
        {{- end }}
        {{- if .Values.stateKeys.existingSecret }}
        - { name: HOSTLER_STATE_KEY_FILE, value: /etc/hostler/state-keys/keys }
        {{- end }}
        {{- with .Values.hooks }}
        {{- if .allow }}
        - { name: HOSTLER_HOOKS_ALLOW, value: {{ join "," .allow | quote }} }
        {{- end }}
        {{- if .deny }}
        - { name: HOSTLER_HOOKS_DENY, value: {{ join "," .deny | quote }} }
        {{- end }}
        # The Service's address is not on an interface of the pod.
        - { name: HOSTLER_HOOKS_OWN, value: {{ append .own (printf "%s.%s.svc" (include "hostler.name" $) $.Release.Namespace) | join "," | quote }} }
        {{- if .gcp }}
        - { name: HOSTLER_HOOKS_GCP, value: "true" }
        - { name: HOSTLER_HOOKS_GCP_HOSTS, value: {{ join "," .gcpHosts | quote }} }
        {{- end }}
        {{- range $name, $limit := .secrets.allow }}
        - { name: HOSTLER_SECRET_{{ $name }}_ALLOW, value: {{ $limit | quote }} }
        {{- end }}
        {{- end }}
        {{- with .Values.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with .Values.hooks.secrets.existingSecret }}
      # With the prefix, no entry is another setting of the server.
      envFrom: [{ prefix: HOSTLER_SECRET_, secretRef: { name: {{ . }} } }]
      {{- end }}
      ports:
        - { name: api, containerPort: 8700 }
      # Resuming the work of a killed server takes time.
      startupProbe: { httpGet: { path: /healthz, port: api{{ $probe }} }, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 150 }
      # A slow server must not be killed: its unfinished work would be undone.
      livenessProbe: { httpGet: { path: /healthz, port: api{{ $probe }} }, periodSeconds: 10, timeoutSeconds: 10, failureThreshold: 6 }
      # Checks the database and the cluster, which may be slow.
      readinessProbe: { httpGet: { path: /readyz, port: api{{ $probe }} }, periodSeconds: 5, timeoutSeconds: 5 }
      {{- if not $sqlite }}
      # Other servers continue: update the endpoints before this one stops listening.
      lifecycle: { preStop: { sleep: { seconds: 5 } } }
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - { name: data, mountPath: /var/lib/hostler }
        - { name: tmp, mountPath: /tmp }
        - { name: keys, mountPath: /etc/hostler/keys, readOnly: true }
        {{- if .Values.tls.existingSecret }}
        - { name: tls, mountPath: /etc/hostler/tls, readOnly: true }
        {{- end }}
        {{- if .Values.tls.clientCA.existingSecret }}
        - { name: client-ca, mountPath: /etc/hostler/client-ca, readOnly: true }
        {{- end }}
        {{- if .Values.oidc.issuers }}
        - { name: oidc, mountPath: /etc/hostler/oidc, readOnly: true }
        {{- end }}
        {{- if .Values.oidc.files.existingSecret }}
        - { name: oidc-files, mountPath: /etc/hostler/oidc-files, readOnly: true }
        {{- end }}
        {{- if $bindings }}
        - { name: bindings, mountPath: /etc/hostler/bindings, readOnly: true }
        {{- end }}
        {{- if $files }}
        - { name: workloads, mountPath: /etc/hostler/workloads, readOnly: true }
        {{- end }}
        {{- if .Values.credentials.existingSecret }}
        - { name: credentials, mountPath: /etc/hostler/credentials, readOnly: true }
        {{- end }}
        {{- if .Values.stateKeys.existingSecret }}
        - { name: state-keys, mountPath: /etc/hostler/state-keys, readOnly: true }
        {{- end }}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: data
      {{- if and $sqlite .Values.store.sqlite.persistent }}
      persistentVolumeClaim: { claimName: {{ include "hostler.claim" . }} }
      {{- else }}
      emptyDir: {}
      {{- end }}
    - { name: tmp, emptyDir: {} }
    - name: keys
      secret:
        secretName: {{ include "hostler.keys" . }}
        items: [{ key: {{ .Values.apiKeys.key | quote }}, path: keys }]
        defaultMode: 0440
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ . }}
        items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }]
        defaultMode: 0440
    {{- end }}
    {{- with .Values.tls.clientCA }}
    {{- if .existingSecret }}
    - name: client-ca
      secret:
        secretName: {{ .existingSecret }}
        items: [{ key: {{ .key | quote }}, path: ca.crt }]
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- if .Values.oidc.issuers }}
    - { name: oidc, configMap: { name: {{ include "hostler.name" . }}-issuers } }
    {{- end }}
    {{- with .Values.oidc.files.existingSecret }}
    - { name: oidc-files, secret: { secretName: {{ . }}, defaultMode: 0440 } }
    {{- end }}
    {{- if $bindings }}
    - name: bindings
      configMap:
        name: {{ $bindings }}
        items: [{ key: {{ ternary .Values.bindings.key "bindings.yaml" (ne .Values.bindings.existingConfigMap "") | quote }}, path: bindings.yaml }]
    {{- end }}
    {{- if $files }}
    - { name: workloads, configMap: { name: {{ $files }} } }
    {{- end }}
    {{- with .Values.credentials }}
    {{- if .existingSecret }}
    - name: credentials
      secret:
        secretName: {{ .existingSecret }}
        {{- with .items }}
        items: {{- toYaml . | nindent 10 }}
        {{- end }}
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- with .Values.stateKeys }}
    {{- if .existingSecret }}
    - name: state-keys
      secret:
        secretName: {{ .existingSecret }}
        items: [{ key: {{ .key | quote }}, path: keys }]
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- range $name := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
  {{- with index $.Values $name }}
  {{ $name }}: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end }}
