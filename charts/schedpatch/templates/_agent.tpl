{{/* The agent's command line. */}}
{{- define "schedpatch.args" -}}
{{- $address := .Values.listen.address -}}
{{- if contains ":" $address }}{{ $address = printf "[%s]" $address }}{{ end -}}
{{- $args := list
  "run"
  "--source=/etc/schedpatch/source"
  (printf "--rollout=%s" .Values.rollout)
  (printf "--verify=%s" .Values.verify)
  (printf "--settle=%s" .Values.settle)
  (printf "--verify-timeout=%s" .Values.verifyTimeout)
  (printf "--resync=%s" .Values.resync)
  (printf "--lock-timeout=%s" .Values.lockTimeout)
  (printf "--listen=%s:%v" $address .Values.listen.port)
  (printf "--log-format=%s" .Values.log.format)
  (printf "--log-level=%s" .Values.log.level) -}}
{{- range .Values.accept }}{{ $args = append $args (printf "--accept=%s" .) }}{{ end -}}
{{- with .Values.scheduler -}}
{{- if .image }}{{ $args = append $args (printf "--scheduler-image=%s" .image) }}{{ end -}}
{{- if .version }}{{ $args = append $args (printf "--scheduler-version=%s" .version) }}{{ end -}}
{{- range $name, $value := .args }}{{ $args = append $args (printf "--scheduler-arg=%s=%v" $name $value) }}{{ end -}}
{{- range .mounts }}{{ $args = append $args (printf "--scheduler-mount=%s" .) }}{{ end -}}
{{- if .dnsPolicy }}{{ $args = append $args (printf "--scheduler-dns-policy=%s" .dnsPolicy) }}{{ end -}}
{{- end -}}
{{- concat $args .Values.extraArgs | toYaml -}}
{{- end -}}

{{/* Where the kubelet asks; on the loopback also when we listen everywhere. */}}
{{- define "schedpatch.probe" -}}
host: {{ ternary "::1" "127.0.0.1" (contains ":" .Values.listen.address) | quote }}
port: {{ .Values.listen.port }}
{{- end -}}

{{/* Directories that are only read, those above others first. */}}
{{- define "schedpatch.readPaths" -}}
{{- concat .Values.extraHostPaths .Values.scheduler.mounts | uniq | sortAlpha | toJson -}}
{{- end -}}
