{{/* The names, labels and derived values that several templates share. */}}

{{- define "silverback.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* At most 52 characters: the controller's hash and the suffixes of the objects have to fit too. */}}
{{- define "silverback.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "silverback.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "silverback.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "silverback.selectorLabels" -}}
app.kubernetes.io/name: {{ include "silverback.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node
{{- end }}

{{- define "silverback.installerSelectorLabels" -}}
app.kubernetes.io/name: {{ include "silverback.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: seccomp-installer
{{- end }}

{{- define "silverback.chartLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "silverback.labels" -}}
{{ include "silverback.selectorLabels" . }}
{{ include "silverback.chartLabels" . }}
{{- end }}

{{- define "silverback.image" -}}
{{- with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}
{{- .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "silverback.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "silverback.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* Named by its content: a container that a rollback starts finds the profile of its own release. */}}
{{- define "silverback.profileName" -}}
silverback-{{ .Files.Get "files/seccomp.json" | sha256sum | trunc 8 }}
{{- end }}

{{- define "silverback.localhostProfile" -}}
{{- if .Values.seccomp.localhostProfile }}
{{- .Values.seccomp.localhostProfile }}
{{- else if eq .Values.seccomp.install "operator" -}}
operator/{{ include "silverback.profileName" . }}.json
{{- else -}}
profiles/{{ include "silverback.profileName" . }}.json
{{- end }}
{{- end }}

{{/* A duration of the node's (1m30s) in whole seconds, rounded up. */}}
{{- define "silverback.seconds" -}}
{{- $unitsMs := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 }}
{{- $totalMs := 0 }}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 }}
{{- $totalMs = add $totalMs (mul (regexFind "^[0-9]+" . | int64) (get $unitsMs (regexFind "[a-z]+$" .))) }}
{{- end }}
{{- div (add $totalMs 999) 1000 }}
{{- end }}

{{/* What comes before a stopped node is killed: the hook, then requests, then the log, each in its time. */}}
{{- define "silverback.checkedGracePeriod" -}}
{{- $timeoutS := include "silverback.seconds" (get .Values.config "shutdown-timeout" | default "30s") | int64 }}
{{- $neededS := add .Values.preStopSeconds (mul 2 $timeoutS) }}
{{- $graceS := int64 .Values.terminationGracePeriodSeconds }}
{{- if le $graceS $neededS }}
{{- fail (printf "terminationGracePeriodSeconds is %d: it has to be more than preStopSeconds and twice config.shutdown-timeout together, %d" $graceS $neededS) }}
{{- end }}
{{- $graceS }}
{{- end }}

{{/* The options as the node reads them; the two that the pod's ports and mounts depend on are the chart's. */}}
{{- define "silverback.config" -}}
listen: ["0.0.0.0:9009"]
data-dir: /var/lib/silverback/data
{{- /* A Prometheus that scrapes the node and reads from it would find everything twice. */}}
{{- if and .Values.serviceMonitor.enabled (not (hasKey .Values.config "self-scrape-interval")) }}
self-scrape-interval: 0s
{{- end }}
{{- with .Values.config }}
{{ toYaml . }}
{{- end }}
{{- end }}
