{{- define "schedpatch.extender.fullname" -}}
{{- printf "%s-extender" (include "schedpatch.fullname" . | trunc 54) -}}
{{- end -}}

{{- define "schedpatch.extender.selectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-extender" (include "schedpatch.name" . | trunc 54) | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* By the last one the extender knows its own pods, which it never keeps waiting. */}}
{{- define "schedpatch.extender.podLabels" -}}
{{ include "schedpatch.extender.selectorLabels" . }}
app.kubernetes.io/component: extender
app.kubernetes.io/part-of: schedpatch
{{- end -}}

{{- define "schedpatch.extender.labels" -}}
{{ include "schedpatch.extender.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{/* The ConfigMap with extender.yaml. */}}
{{- define "schedpatch.extender.configMapName" -}}
{{- default (include "schedpatch.extender.fullname" .) .Values.extender.existingConfigMap -}}
{{- end -}}

{{/* What the agent adds to the scheduler's configuration; one file for each version of its format, of which it takes the one that fits. */}}
{{- define "schedpatch.extender.fragment" -}}
extenders:
  - urlPrefix: {{ printf "%s://127.0.0.1:%v" (ternary "https" "http" (ne .Values.extender.tls.secretName "")) .Values.extender.port }}
    filterVerb: filter
    prioritizeVerb: prioritize
    weight: {{ .Values.extender.weight }}
    nodeCacheCapable: true
    ignorable: true
    httpTimeout: {{ .Values.extender.httpTimeout }}
    {{- if .Values.extender.tls.secretName }}
    enableHTTPS: true
    tlsConfig:
      caFile: $(SCHEDPATCH_DIR)/schedpatch-extender-ca.crt
    {{- end }}
{{- end -}}

{{/* Refuses what would install and then do nothing. */}}
{{- define "schedpatch.extender.check" -}}
{{- if and .Values.extender.config .Values.extender.existingConfigMap -}}
{{- fail "extender.config and extender.existingConfigMap are both set: use one of them" -}}
{{- else if not (or .Values.extender.config .Values.extender.existingConfigMap) -}}
{{- fail "the extender has no policies: give extender.config (docs/use/extender.md), or set extender.existingConfigMap to a ConfigMap with extender.yaml" -}}
{{- end -}}
{{- if ne (empty .Values.extender.tls.secretName) (empty .Values.extender.tls.ca) -}}
{{- fail "extender.tls.secretName and extender.tls.ca go together: without the CA the scheduler would not verify the certificate" -}}
{{- end -}}
{{- end -}}

{{/* Whether pods may have to be tried again: a policy refuses nodes, and recovery is on. Of a ConfigMap of yours nothing is known. */}}
{{- define "schedpatch.extender.wakes" -}}
{{- if .Values.extender.existingConfigMap -}}true
{{- else if and (dig "recovery" "enabled" true .Values.extender.config) (regexMatch "avoid(Above|Below):" (toYaml .Values.extender.config)) -}}true{{- end -}}
{{- end -}}

{{/* Whether Node objects are needed: series are mapped by more than names. */}}
{{- define "schedpatch.extender.needsNodes" -}}
{{- if or .Values.extender.existingConfigMap (regexMatch "(?m)^ *is: *(internalIP|hostname|nodeLabel)" (toYaml .Values.extender.config)) -}}true{{- end -}}
{{- end -}}
