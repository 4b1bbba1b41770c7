{{/* Name of all objects. */}}
{{- define "weir.fullname" -}}
{{- $name := .Values.nameOverride | default "weir" -}}
{{- /* A release may have dots in its name, a service may not. */ -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name $release -}}
{{- $release | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" $release $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Namespaces that are watched, as a JSON list; empty: all. */}}
{{- define "weir.watched" -}}
{{- if has "*" .Values.watchNamespaces -}}
[]
{{- else -}}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | toJson -}}
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

{{/* Labels of all objects of the controller. */}}
{{- define "weir.labels" -}}
{{- include "weir.labelsWith" (dict "root" . "more" dict) -}}
{{- end -}}

{{/* The same with `more`, which give way to the chart's own; `root` is the context. */}}
{{- define "weir.labelsWith" -}}
{{- $own := include "weir.selectorLabels" .root | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/part-of" "weir" -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- merge $own .more .root.Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Labels by which the pod of `helm test` is found. */}}
{{- define "weir.testSelectorLabels" -}}
app.kubernetes.io/name: weir-test
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{/* Labels of that pod. */}}
{{- define "weir.testLabels" -}}
{{- $own := include "weir.testSelectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- merge $own .Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Labels of what `helm uninstall` runs first. */}}
{{- define "weir.removalLabels" -}}
{{- $own := dict
    "app.kubernetes.io/name" "weir-removal"
    "app.kubernetes.io/instance" (.Release.Name | trunc 63 | trimSuffix "-")
    "app.kubernetes.io/managed-by" .Release.Service -}}
{{- merge $own .Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Annotations of the same; the argument is its place in the order. */}}
{{- define "weir.removalHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
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
{{- $own := dict
    "app.kubernetes.io/name" "weir-tuner"
    "app.kubernetes.io/instance" (.Release.Name | trunc 63 | trimSuffix "-")
    "app.kubernetes.io/component" "tuner"
    "app.kubernetes.io/part-of" "weir" -}}
{{- merge $own .Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Labels by which the pods of the pipelines are found: not those of the controller's own. */}}
{{- define "weir.pipelinesSelectorLabels" -}}
app.kubernetes.io/name: weir-pipelines
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/component: pipelines
app.kubernetes.io/part-of: weir
{{- end -}}

{{/* Labels of everything that belongs to the pipelines. */}}
{{- define "weir.pipelinesLabels" -}}
{{- merge (include "weir.pipelinesSelectorLabels" . | fromYaml) .Values.commonLabels | toYaml -}}
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
{{- if and (not $place) (regexMatch `^(\*|0{1,2}-59)(/0*1)?$` .) -}}
{{- $valid = false -}}
{{- else if and (eq $range "*") (or $place (contains "/" .)) -}}
{{- else if not (regexMatch `^[0-9]{1,2}(-[0-9]{1,2})?$` $range) -}}
{{- $valid = false -}}
{{- else if or (gt (atoi (first $ends)) (atoi (last $ends))) (gt (atoi (last $ends)) $most) -}}
{{- $valid = false -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $valid -}}
{{- end -}}

{{/* A value that a section lacks is its default, but a whole section that is not there is of an older
chart: Helm then has none of the defaults, and fails in the middle of a template. */}}
{{- define "weir.refuseOldValues" -}}
{{- $values := .Values -}}
{{- range $path := list
  "image" "agent" "tuner" "tuner.image" "pipelines" "pipelines.image" "pipelines.prometheus"
  "pipelines.prometheus.tokenSecret" "pipelines.prometheus.basicAuthSecret"
  "pipelines.prometheus.caConfigMap" "pipelines.executors" "pipelines.tables" "prometheus"
  "prometheus.tokenSecret" "prometheus.basicAuthSecret" "prometheus.caConfigMap" "state" "crds"
  "rbac" "serviceAccount" "security" "service" "podDisruptionBudget" "networkPolicy"
  "networkPolicy.egress" "monitoring" "monitoring.podMonitor" "monitoring.flinkPodMonitor"
  "monitoring.prometheusRule" "monitoring.dashboards"
-}}
{{- $at := $values -}}
{{- range $name := splitList "." $path -}}
{{- if not (hasKey $at $name) -}}
{{- fail (printf "%s: expected a section, got nothing: these values are of an older chart; use --reset-then-reuse-values in the place of --reuse-values" $path) -}}
{{- end -}}
{{- $at = get $at $name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What no schema can say, one sentence each. */}}
{{- define "weir.validate" -}}
{{- with .Values -}}
{{- if and (has "*" .watchNamespaces) (gt (len .watchNamespaces) 1) -}}
{{- fail (printf "watchNamespaces: expected names of namespaces, or \"*\" alone for all of them, got %s" (join ", " .watchNamespaces)) -}}
{{- end -}}
{{- if and (gt (int .replicas) 1) .state.enabled (not .state.existingClaim) (not (has "ReadWriteMany" .state.accessModes)) -}}
{{- fail (printf "replicas: %d controllers cannot share a state that one node mounts: set state.accessModes to [ReadWriteMany], or state.enabled to false" (int .replicas)) -}}
{{- end -}}
{{- if and .prometheus.tokenFile .prometheus.tokenSecret.name -}}
{{- fail "prometheus.tokenFile: expected one token, got tokenSecret.name too: remove one of them" -}}
{{- end -}}
{{- if and .prometheus.basicAuthSecret.name (or .prometheus.tokenFile .prometheus.tokenSecret.name) -}}
{{- fail "prometheus.basicAuthSecret: expected a password or a token, got both: remove one of them" -}}
{{- end -}}
{{- if and .pipelines.enabled (not .prometheus.url) (not .pipelines.prometheus.url) -}}
{{- fail "pipelines.enabled: expected a Prometheus server whose history is processed, got none: set prometheus.url or pipelines.prometheus.url" -}}
{{- end -}}
{{- if ne (include "weir.isDaily" .pipelines.schedule) "true" -}}
{{- fail (printf "pipelines.schedule: expected minute and hour of a run on every day, such as 20 1 * * * or @daily, got %q: a rarer one leaves holes in the history, one in every minute leaves no pause" .pipelines.schedule) -}}
{{- end -}}
{{- if and .pipelines.enabled .prometheus.tokenFile (not .pipelines.prometheus.url) -}}
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
{{- if and (not .prometheus.url) (or .prometheus.tokenFile .prometheus.tokenSecret.name .prometheus.basicAuthSecret.name .prometheus.headers .prometheus.caConfigMap.name .prometheus.labels) -}}
{{- fail "prometheus.url: expected the server that the other values of prometheus are for, got none: set it" -}}
{{- end -}}
{{- with .pipelines.prometheus -}}
{{- if and .tokenSecret.name .basicAuthSecret.name -}}
{{- fail "pipelines.prometheus.basicAuthSecret: expected a password or a token, got both: remove one of them" -}}
{{- end -}}
{{- if and (not .url) (or .tokenSecret.name .basicAuthSecret.name .headers .caConfigMap.name .labels) -}}
{{- fail "pipelines.prometheus.url: expected the server that the other values of pipelines.prometheus are for, got none: set it" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Rules of a NetworkPolicy that let a pod out to names. */}}
{{- define "weir.egressToNames" -}}
# Names. Pods of OpenShift's DNS listen on 5353.
- ports:
    {{- range $port := list 53 5353 }}
    - {port: {{ $port }}, protocol: UDP}
    - {port: {{ $port }}, protocol: TCP}
    {{- end }}
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

{{/* The server that the pipelines ask, as JSON: their own, or that of the controller. */}}
{{- define "weir.pipelinesPrometheus" -}}
{{- ternary .Values.pipelines.prometheus .Values.prometheus (ne .Values.pipelines.prometheus.url "") | toJson -}}
{{- end -}}

{{/* Rules that let a pod out to a Prometheus server (`url`, `root`); nothing where none is named. */}}
{{- define "weir.egressToPrometheus" -}}
{{- $root := .root -}}
{{- with .url -}}
{{- $url := urlParse . -}}
{{- $port := regexFind `[0-9]+$` (regexFind `:[0-9]+$` $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) -}}
# Prometheus, where its URL says.
- ports: [{port: {{ $port }}}]
# Inside the cluster a policy sees the port of the pod, not that of its Service.
- to: [{namespaceSelector: {}}]
  ports:
    {{- range $root.Values.networkPolicy.egress.prometheusPorts }}
    - {port: {{ . }}}
    {{- end }}
{{- end -}}
{{- end -}}
