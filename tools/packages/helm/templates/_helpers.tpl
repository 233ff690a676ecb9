{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-sluice" (.Release.Name | trunc 33) }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The address of the API for runners, query services and clients in the cluster. */}}
{{- define "sluice.apiUrl" -}}
http://{{ include "sluice.name" . }}-api.{{ .Release.Namespace }}.svc:8080
{{- end }}

{{/* Runners keep their attempts, so the API calls each by its own name: also those that the autoscaler may add. */}}
{{- define "sluice.runnerUrls" -}}
{{- $name := include "sluice.name" . -}}
{{- $count := int (ternary .Values.runner.autoscaling.maxReplicas .Values.runner.replicas .Values.runner.autoscaling.enabled) -}}
{{- range $n := until $count }}{{ if $n }},{{ end }}http://{{ $name }}-runner-{{ $n }}.{{ $name }}-runner.{{ $.Release.Namespace }}.svc:8081{{ end }}
{{- end }}

{{- define "sluice.secret" -}}
- name: {{ .key }}
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.existingSecret }}
      key: {{ .key }}
      {{- if .optional }}
      optional: true
      {{- end }}
{{- end }}

{{- define "sluice.extraEnv" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "sluice.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "sluice.podPlacement" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ include "sluice.podSecurity" . | nindent 2 }}
{{- end }}

{{- define "sluice.mounts" -}}
- name: state
  mountPath: /var/lib/sluice
- name: tmp
  mountPath: /tmp
{{- end }}

{{- define "sluice.volumes" -}}
- name: state
  emptyDir: {}
- name: tmp
  emptyDir: { medium: Memory, sizeLimit: 256Mi }
{{- end }}

{{/* A sidecar answers only calls with its token, so `sluice health` checks it. */}}
{{- define "sluice.sidecarProbes" -}}
startupProbe:
  exec: { command: [sluice, health, {{ . }}] }
  periodSeconds: 3
  timeoutSeconds: 6
  failureThreshold: 40
readinessProbe:
  exec: { command: [sluice, health, {{ . }}] }
  periodSeconds: 15
  timeoutSeconds: 6
livenessProbe:
  tcpSocket: { port: rpc }
  periodSeconds: 15
  failureThreshold: 4
{{- end }}
