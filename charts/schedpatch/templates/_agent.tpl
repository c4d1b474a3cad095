{{/* The agent's command line: what concerns `run` alone. The rest is in the environment. */}}
{{- define "schedpatch.args" -}}
{{- $address := .Values.listen.address -}}
{{- if contains ":" $address }}{{ $address = printf "[%s]" $address }}{{ end -}}
{{- $args := list
  "run"
  (printf "--on-failure=%s" .Values.rollout.onFailure)
  (printf "--verify=%s" .Values.verify)
  (printf "--settle=%s" .Values.settle)
  (printf "--verify-timeout=%s" .Values.verifyTimeout)
  (printf "--resync=%s" .Values.resync)
  (printf "--listen=%s:%v" $address .Values.listen.port)
  (printf "--log-format=%s" .Values.log.format)
  (printf "--log-level=%s" .Values.log.level) -}}
{{- range .Values.extraArgs }}
{{- $flag := regexFind "^--(source|accept|scheduler-[a-z-]+)" . }}
{{- if $flag }}{{ fail (printf "extraArgs: %s would replace what the chart itself says with it; use the values config or existingConfigMap, accept and scheduler" $flag) }}{{ end }}
{{- end -}}
{{- concat $args .Values.extraArgs | toYaml -}}
{{- end -}}

{{/* What every command in the pod must know to mean the same host and the same revision as the agent. Lists have one value on each line. */}}
{{- define "schedpatch.env" -}}
{{- $schedulerArgs := list -}}
{{- range $name, $value := .Values.scheduler.args }}{{ $schedulerArgs = append $schedulerArgs (printf "%s=%v" $name $value) }}{{ end -}}
{{- $sources := list -}}
{{- $maps := include "schedpatch.configMaps" . | fromJsonArray -}}
{{- range $number, $_ := $maps }}{{ $sources = append $sources (printf "/etc/schedpatch/source-%d" $number) }}{{ end -}}
{{- $variables := list
  (list "HOST_ROOT" "/host")
  (list "PLATFORM" .Values.platform)
  (list "STATE_DIR" .Values.stateDir)
  (list "MANIFEST_DIR" .Values.manifestDir)
  (list "SOURCE" (join "\n" $sources))
  (list "CONFIG_MAP" (join "\n" $maps))
  (list "DAEMON_SET" (include "schedpatch.fullname" .))
  (list "ACCEPT" (join "\n" .Values.accept))
  (list "K3S_METHOD" (ternary .Values.k3s.method "" (eq .Values.platform "k3s")))
  (list "K3S_RESTART" (ternary .Values.k3s.restart "" (eq .Values.platform "k3s")))
  (list "TARGET" (include "schedpatch.k3sTarget" .))
  (list "ALLOW_QUORUM_LOSS" (ternary "true" "" .Values.rollout.allowQuorumLoss))
  (list "LOCK_TIMEOUT" .Values.lockTimeout)
  (list "PREFLIGHT" .Values.preflight)
  (list "PREFLIGHT_TIMEOUT" .Values.preflightTimeout)
  (list "SCHEDULER_IMAGE" .Values.scheduler.image)
  (list "SCHEDULER_VERSION" .Values.scheduler.version)
  (list "SCHEDULER_COMMAND" .Values.scheduler.command)
  (list "SCHEDULER_RUN_AS_USER" (ternary "" (toString (int64 .Values.scheduler.runAsUser)) (kindIs "string" .Values.scheduler.runAsUser)))
  (list "SCHEDULER_IMAGE_ON_UPGRADE" (ternary .Values.scheduler.imageOnUpgrade "" (eq .Values.scheduler.imageOnUpgrade "keep")))
  (list "SCHEDULER_NEED" (join "\n" .Values.scheduler.needs))
  (list "SCHEDULER_ARG" (join "\n" $schedulerArgs))
  (list "SCHEDULER_MOUNT" (join "\n" .Values.scheduler.mounts))
  (list "SCHEDULER_DNS_POLICY" .Values.scheduler.dnsPolicy) -}}
{{- range $variables }}{{ if last . }}
- name: SCHEDPATCH_{{ first . }}
  value: {{ last . | quote }}
{{- end }}{{ end -}}
{{- end -}}

{{/* Capabilities that the agent keeps; a side file for another user than root needs a new owner. */}}
{{- define "schedpatch.capabilities" -}}
{{- $all := .Values.extraCapabilities -}}
{{- if ne (int64 .Values.scheduler.runAsUser) 0 }}{{ $all = append $all "CHOWN" }}{{ end -}}
{{- uniq $all | toJson -}}
{{- end -}}

{{/* Where the kubelet asks; on the loopback also when we listen everywhere. */}}
{{- define "schedpatch.probe" -}}
host: {{ ternary "::1" "127.0.0.1" (contains ":" .Values.listen.address) | quote }}
port: {{ .Values.listen.port }}
{{- end -}}

{{/* Directories that are only read, those above others first. */}}
{{- define "schedpatch.readPaths" -}}
{{- $paths := concat .Values.extraHostPaths .Values.scheduler.mounts -}}
{{- if eq .Values.platform "k3s" -}}
{{- /* the bus as a directory: its socket is another file when it starts anew */ -}}
{{- $other := ternary .Values.k3s.configDir "/etc/systemd/system" (eq .Values.k3s.method "execstart") -}}
{{- $paths = concat $paths (list $other .Values.k3s.binDir "/run/dbus") -}}
{{- end -}}
{{- $paths | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* With another configuration directory the file of the method drop-in is there. */}}
{{- define "schedpatch.k3sTarget" -}}
{{- $is := and (eq .Values.platform "k3s") (eq .Values.k3s.method "drop-in") (ne .Values.k3s.configDir "/etc/rancher/k3s") -}}
{{- if $is }}{{ .Values.k3s.configDir }}/config.yaml.d/90-schedpatch.yaml{{ end -}}
{{- end -}}

{{/* Annotations of the pods; before Kubernetes 1.30 AppArmor is switched off by one. */}}
{{- define "schedpatch.podAnnotations" -}}
{{- $all := .Values.podAnnotations -}}
{{- if and (eq .Values.platform "k3s") (not (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version)) -}}
{{- $all = merge (dict "container.apparmor.security.beta.kubernetes.io/schedpatch" "unconfined") $all -}}
{{- end -}}
{{- $all | toYaml -}}
{{- end -}}

{{/* SELinux keeps usual containers off the host's message bus. */}}
{{- define "schedpatch.seLinuxOptions" -}}
{{- $usual := ternary (dict "type" "spc_t") dict (eq .Values.platform "k3s") -}}
{{- default $usual .Values.seLinuxOptions | toYaml -}}
{{- end -}}
