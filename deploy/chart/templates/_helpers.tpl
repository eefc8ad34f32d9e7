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

{{/* Nothing routes a series to one of several pods: whoever wants several has to say that they know it. */}}
{{- define "silverback.checkedReplicas" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.unroutedReplicas) }}
{{- fail (printf "replicas is %d, and each pod is a node of its own: samples of one series that are spread over them are nowhere whole, and no read says so. Install a release for each node or, if every sender and reader names its pod, set unroutedReplicas=true" (int .Values.replicas)) }}
{{- end }}
{{- .Values.replicas }}
{{- end }}

{{/* What an Ingress leads to: the one Service that there is for one node. */}}
{{- define "silverback.routedService" -}}
{{- if gt (int .Values.replicas) 1 }}
{{- fail (printf "replicas is %d: an Ingress or HTTPRoute would spread one series over several nodes" (int .Values.replicas)) }}
{{- end }}
{{- include "silverback.fullname" . }}
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

{{/* What comes before a stopped node is killed: the hook, then requests, then what is shipped at the end, where it is, then
the log, each in its time, and the node's margin of five seconds. */}}
{{- define "silverback.checkedGracePeriod" -}}
{{- $timeoutS := include "silverback.seconds" (get .Values.config "shutdown-timeout" | default "30s") | int64 }}
{{- $shipsAtEnd := eq (get .Values.config "ship-on-shutdown" | default "off") "on" }}
{{- $neededS := add .Values.preStopSeconds (mul (ternary 3 2 $shipsAtEnd) $timeoutS) 5 }}
{{- $graceS := int64 .Values.terminationGracePeriodSeconds }}
{{- if le $graceS $neededS }}
{{- fail (printf "terminationGracePeriodSeconds is %d: it has to be more than preStopSeconds and %s config.shutdown-timeout and five seconds together, %d" $graceS (ternary "three times" "twice" $shipsAtEnd) $neededS) }}
{{- end }}
{{- $graceS }}
{{- end }}

{{/* All names of the release's Services and pods, from the shortest that the cluster's DNS completes. */}}
{{- define "silverback.allowedHosts" -}}
{{- $service := include "silverback.fullname" . }}
{{- $svc := printf ".%s.svc" .Release.Namespace }}
{{- range $rest := list "" (printf ".%s" .Release.Namespace) $svc (printf "%s.%s" $svc .Values.clusterDomain) }}
- {{ printf "%s%s" $service $rest | quote }}
- {{ printf "%s-pods%s" $service $rest | quote }}
- {{ printf "*.%s-pods%s" $service $rest | quote }}
{{- end }}
{{- $outside := concat .Values.allowedHosts (ternary .Values.ingress.hosts list .Values.ingress.enabled) (ternary .Values.httpRoute.hostnames list .Values.httpRoute.enabled) }}
{{- range $outside | uniq }}
- {{ quote . }}
{{- end }}
{{- end }}

{{/* Whether the node is asked for a certificate, a user or a token: its probes then have a port of their own. */}}
{{- define "silverback.hasDoors" -}}
{{- if or .Values.tls.secretName (include "silverback.webConfigFile" .) (include "silverback.accessFile" .) }}true{{ end }}
{{- end }}

{{- define "silverback.webConfigFile" -}}
{{- if .Values.access.webConfigKey }}
{{- if not .Values.access.secretName }}{{ fail "access.webConfigKey is a key of access.secretName, which is empty" }}{{ end }}
{{- printf "/etc/silverback-access/%s" .Values.access.webConfigKey }}
{{- else if .Values.tls.secretName }}
{{- "/etc/silverback/web.yml" }}
{{- end }}
{{- end }}

{{- define "silverback.accessFile" -}}
{{- if .Values.access.accessKey }}
{{- if not .Values.access.secretName }}{{ fail "access.accessKey is a key of access.secretName, which is empty" }}{{ end }}
{{- printf "/etc/silverback-access/%s" .Values.access.accessKey }}
{{- end }}
{{- end }}

{{/* Nothing but labels tells blocks of several nodes apart in a bucket. */}}
{{- define "silverback.objstoreFile" -}}
{{- if .Values.objstore.secretName }}
{{- if not (or (get .Values.config "external-labels") (get .Values.config "replica-label")) }}{{ fail "objstore.secretName takes config.external-labels or config.replica-label: what tells a node's blocks from all others in the bucket" }}{{ end }}
{{- printf "/etc/silverback-objstore/%s" .Values.objstore.key }}
{{- end }}
{{- end }}

{{/* The web configuration file where the Secret of certificates is all that there is. */}}
{{- define "silverback.webConfig" -}}
tls_server_config:
  cert_file: /etc/silverback-tls/tls.crt
  key_file: /etc/silverback-tls/tls.key
  client_auth_type: {{ .Values.tls.clientAuthType }}
  {{- if has .Values.tls.clientAuthType (list "VerifyClientCertIfGiven" "RequireAndVerifyClientCert") }}
  client_ca_file: /etc/silverback-tls/ca.crt
  {{- end }}
{{- end }}

{{- define "silverback.probePort" -}}
{{ ternary "probes" "http" (eq (include "silverback.hasDoors" .) "true") }}
{{- end }}

{{/* The options as the node reads them; those that the pod's ports, mounts and names depend on are the chart's. */}}
{{- define "silverback.config" -}}
listen: ["0.0.0.0:9009"]
data-dir: /var/lib/silverback/data
allowed-hosts:
{{- include "silverback.allowedHosts" . | trim | nindent 2 }}
{{- with include "silverback.webConfigFile" . }}
web-config-file: {{ . }}
{{- end }}
{{- with include "silverback.accessFile" . }}
access-file: {{ . }}
{{- end }}
{{- with include "silverback.objstoreFile" . }}
objstore-config-file: {{ . }}
{{- end }}
{{- if include "silverback.hasDoors" . }}
probe-listen: ["0.0.0.0:9010"]
{{- end }}
{{- /* A Prometheus that scrapes the node and reads from it would find everything twice. */}}
{{- if and .Values.serviceMonitor.enabled (not (hasKey .Values.config "self-scrape-interval")) }}
self-scrape-interval: 0s
{{- end }}
{{- with .Values.config }}
{{ toYaml . }}
{{- end }}
{{- end }}
