{{- define "schedpatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "schedpatch.fullname" -}}
{{- $name := include "schedpatch.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What never changes for a release: a DaemonSet's selector cannot be changed. */}}
{{- define "schedpatch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "schedpatch.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* By the last two agents are found, whatever the release is called. */}}
{{- define "schedpatch.podLabels" -}}
{{ include "schedpatch.selectorLabels" . }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: schedpatch
{{- end -}}

{{/* Not for pods: the chart's version in their labels would restart agents for nothing. */}}
{{- define "schedpatch.labels" -}}
{{ include "schedpatch.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{- define "schedpatch.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "schedpatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The agent's identity, for bindings. */}}
{{- define "schedpatch.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "schedpatch.serviceAccountName" . | quote }}
    namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{- define "schedpatch.image" -}}
{{- include "schedpatch.imageName" (list .Values.image .Chart.AppVersion) -}}
{{- end -}}

{{/* An image by its values and the version of the chart. */}}
{{- define "schedpatch.imageName" -}}
{{- $image := index . 0 -}}
{{- $name := $image.repository -}}
{{- with $image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default (index . 1) $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Where the platform has what is edited, as in src/platform: static pods, or the unit of k3s, or its configuration. */}}
{{- define "schedpatch.manifestDir" -}}
{{- $usual := dict "kubeadm" "/etc/kubernetes/manifests" "rke2" "/var/lib/rancher/rke2/agent/pod-manifests" -}}
{{- if eq .Values.platform "k3s" -}}
{{- if .Values.manifestDir }}{{ fail "manifestDir is for static pods, and k3s has none; see the values k3s" }}{{ end -}}
{{- ternary "/etc/systemd/system" .Values.k3s.configDir (eq .Values.k3s.method "execstart") -}}
{{- else -}}
{{- default (get $usual .Values.platform) .Values.manifestDir -}}
{{- end -}}
{{- end -}}

{{/* The ConfigMap that says what is wanted. */}}
{{- define "schedpatch.configMapName" -}}
{{- default (include "schedpatch.fullname" .) .Values.existingConfigMap -}}
{{- end -}}

{{/* All ConfigMaps that say what is wanted, in the order in which they are merged. */}}
{{- define "schedpatch.configMaps" -}}
{{- $maps := list -}}
{{- if include "schedpatch.hasSource" . }}{{ $maps = append $maps (include "schedpatch.configMapName" .) }}{{ end -}}
{{- $maps = concat $maps .Values.existingConfigMaps -}}
{{- if .Values.extender.enabled }}{{ $maps = append $maps (printf "%s-source" (include "schedpatch.extender.fullname" .)) }}{{ end -}}
{{- toJson $maps -}}
{{- end -}}

{{/* Whether the release's own source is there; with the extender alone there is none. */}}
{{- define "schedpatch.hasSource" -}}
{{- if or .Values.config .Values.existingConfigMap (not (or .Values.extender.enabled .Values.existingConfigMaps)) -}}true{{- end -}}
{{- end -}}

{{/* Refuses what would install and then never become ready. */}}
{{- define "schedpatch.check" -}}
{{- $overrides := omit .Values.scheduler "version" "imageOnUpgrade" "rbac" "needs" | values | compact -}}
{{- if and .Values.config .Values.existingConfigMap -}}
{{- fail "config and existingConfigMap are both set: use one of them" -}}
{{- else if not (or .Values.config .Values.existingConfigMap .Values.existingConfigMaps $overrides .Values.extender.enabled) -}}
{{- fail "nothing is wanted of the scheduler: give your KubeSchedulerConfiguration with --set-file 'config.config\\.yaml=FILE', or set existingConfigMap. If nothing shall be wanted any more: helm uninstall, which first removes our edit from every scheduler" -}}
{{- end -}}
{{- end -}}
