{{- define "schedpatch.pin.fullname" -}}
{{- printf "%s-pin" (include "schedpatch.fullname" . | trunc 59) -}}
{{- end -}}

{{- define "schedpatch.pin.selectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-pin" (include "schedpatch.name" . | trunc 59) | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "schedpatch.pin.podLabels" -}}
{{ include "schedpatch.pin.selectorLabels" . }}
app.kubernetes.io/component: pin
app.kubernetes.io/part-of: schedpatch
{{- end -}}

{{- define "schedpatch.pin.labels" -}}
{{ include "schedpatch.pin.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}
