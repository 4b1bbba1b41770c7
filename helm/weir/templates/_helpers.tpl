{{/* Name of all objects. */}}
{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains "weir" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-weir" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of objects that belong to no namespace: two releases must not meet. */}}
{{- define "weir.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "weir.fullname" .) -}}
{{- end -}}

{{/* Labels by which the pods are found. The controller names its own pods to Flink's NetworkPolicies
by app.kubernetes.io/name: it cannot be changed. */}}
{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/component: controller
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/part-of: weir
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{/* Labels by which the pod of `helm test` is found. */}}
{{- define "weir.testLabels" -}}
app.kubernetes.io/name: weir-test
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{/* The image; a digest decides over the tag. */}}
{{- define "weir.image" -}}
{{- include "weir.imageOf" (dict "image" .Values.image "root" .) -}}
{{- end -}}

{{/* One of several images: `image` as in the values, and `root` for the appVersion. */}}
{{- define "weir.imageOf" -}}
{{- $tag := .image.tag | default .root.Chart.AppVersion -}}
{{- with .image -}}
{{- if .digest -}}{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}@{{ .digest }}
{{- else -}}{{ .repository }}:{{ $tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of tunings: not those by which the controller's own pods are found. */}}
{{- define "weir.tunerLabels" -}}
app.kubernetes.io/name: weir-tuner
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/component: tuner
app.kubernetes.io/part-of: weir
{{- end -}}

{{/* Labels of the pipelines: not those by which the controller's own pods are found. */}}
{{- define "weir.pipelinesLabels" -}}
app.kubernetes.io/name: weir-pipelines
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/component: pipelines
app.kubernetes.io/part-of: weir
{{- end -}}

{{- define "weir.pipelinesName" -}}
{{- printf "%s-pipelines" (include "weir.fullname" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "weir.tablesClaim" -}}
{{- .Values.pipelines.tables.existingClaim | default (printf "%s-tables" (include "weir.fullname" .)) -}}
{{- end -}}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "weir.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "weir.claimName" -}}
{{- .Values.state.existingClaim | default (printf "%s-state" (include "weir.fullname" .)) -}}
{{- end -}}

{{/* What a pod must say of itself where pod security is `restricted`. */}}
{{- define "weir.podSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.security }}
{{- if not (kindIs "invalid" .runAsUser) }}
runAsUser: {{ .runAsUser | int64 }}
{{- end }}
{{- if not (kindIs "invalid" .runAsGroup) }}
runAsGroup: {{ .runAsGroup | int64 }}
{{- end }}
{{- if not (kindIs "invalid" .fsGroup) }}
fsGroup: {{ .fsGroup | int64 }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "weir.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Whether cron knows a schedule, and runs by it at least daily. A schema could say the first in
patterns, which nobody can read who is refused, and not that a range must rise. */}}
{{- define "weir.isDaily" -}}
{{- $valid := has . (list "@daily" "@midnight" "@hourly") -}}
{{- if regexMatch `^[^ ]+ +[^ ]+( +\*){3}$` . -}}
{{- $valid = true -}}
{{- $fields := regexSplit " +" . -1 -}}
{{- range $place, $most := list 59 23 -}}
{{- range splitList "," (index $fields $place) -}}
{{- $range := regexReplaceAll `/0*[1-9][0-9]*$` . "" -}}
{{- $ends := splitList "-" $range -}}
{{- if not (or (eq $range "*") (regexMatch `^[0-9]{1,2}(-[0-9]{1,2})?$` $range)) -}}
{{- $valid = false -}}
{{- else if or (gt (atoi (first $ends)) (atoi (last $ends))) (gt (atoi (last $ends)) $most) -}}
{{- $valid = false -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $valid -}}
{{- end -}}

{{/* What no schema can say, one sentence each. */}}
{{- define "weir.validate" -}}
{{- with .Values -}}
{{- if and (gt (int .replicas) 1) .state.enabled (not .state.existingClaim) (not (has "ReadWriteMany" .state.accessModes)) -}}
{{- fail (printf "replicas: %d controllers cannot share a state that one node mounts: set state.accessModes to [ReadWriteMany], or state.enabled to false" (int .replicas)) -}}
{{- end -}}
{{- if and .prometheus.tokenFile .prometheus.tokenSecret.name -}}
{{- fail "prometheus.tokenFile: expected one token, got tokenSecret.name too: remove one of them" -}}
{{- end -}}
{{- if and .pipelines.enabled (not .prometheus.url) -}}
{{- fail "pipelines.enabled: expected a Prometheus server whose history is worked up, got none: set prometheus.url" -}}
{{- end -}}
{{- if ne (include "weir.isDaily" .pipelines.schedule) "true" -}}
{{- fail (printf "pipelines.schedule: expected minute and hour of a run on every day, such as 20 1 * * * or @daily, got %q: a rarer one leaves holes in the history" .pipelines.schedule) -}}
{{- end -}}
{{- if and .pipelines.enabled .prometheus.tokenFile -}}
{{- fail "prometheus.tokenFile: the pods of pipelines do not have the controller's token: give prometheus.tokenSecret in its place" -}}
{{- end -}}
{{- if and .pipelines.tables.readByController (not .pipelines.tables.existingClaim) (not .pipelines.enabled) -}}
{{- fail "pipelines.tables.readByController: expected tables to read, got none: set pipelines.enabled, or name a claim in pipelines.tables.existingClaim" -}}
{{- end -}}
{{- if and .pipelines.tables.readByController (not .pipelines.tables.existingClaim) (not (has "ReadWriteMany" .pipelines.tables.accessModes)) -}}
{{- fail "pipelines.tables.readByController: the controller and the pipelines cannot share tables that one node mounts: set pipelines.tables.accessModes to [ReadWriteMany]" -}}
{{- end -}}
{{- if and .pipelines.enabled (gt (int .pipelines.executors.count) 0) (not .pipelines.tables.existingClaim) (not (has "ReadWriteMany" .pipelines.tables.accessModes)) -}}
{{- fail (printf "pipelines.executors.count: %d executors cannot share tables that one node mounts: set pipelines.tables.accessModes to [ReadWriteMany]" (int .pipelines.executors.count)) -}}
{{- end -}}
{{- if and (not .prometheus.url) (or .prometheus.tokenFile .prometheus.tokenSecret.name .prometheus.caConfigMap.name .prometheus.labels) -}}
{{- fail "prometheus.url: expected the server that the other values of prometheus are for, got none: set it" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Rules of a NetworkPolicy that let a pod out to names. */}}
{{- define "weir.egressToNames" -}}
# Names.
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end -}}

{{/* The same, to the API server. */}}
{{- define "weir.egressToApiServer" -}}
{{- with .Values.networkPolicy.egress -}}
# The API server.
- ports:
    {{- range .apiServerPorts }}
    - {port: {{ . }}}
    {{- end }}
  {{- with .apiServerCIDRs }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* The same, to Prometheus, and nothing where none is named. */}}
{{- define "weir.egressToPrometheus" -}}
{{- if .Values.prometheus.url -}}
# Prometheus, inside the cluster: a policy sees the port of the pod, not that of its Service.
- to: [{namespaceSelector: {}}]
  ports:
    {{- range .Values.networkPolicy.egress.prometheusPorts }}
    - {port: {{ . }}}
    {{- end }}
{{- end -}}
{{- end -}}
