{{/* What Weir may do where its StreamApps are. Secrets are not among it: pods name them, Weir never
reads one. */}}
{{- define "weir.rules" -}}
# StreamApps: read all, add and remove the finalizer, create the canary.
- apiGroups: [weir.dev]
  resources: [streamapps]
  verbs: [get, list, watch, create, patch]
- apiGroups: [weir.dev]
  resources: [streamapps/status]
  verbs: [get, patch, update]
- apiGroups: [weir.dev]
  resources: [streamapps/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# Whether a StreamApp goes with its namespace: then there are no pods left to make a savepoint.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
# Whether another installation of Weir that looks after a StreamApp is alive.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get]
# Flink's pods. Their ReplicaSets make them; Weir resizes, marks and removes.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, create, patch, delete]
# Also what Flink's own pods need for their leader election: nobody can grant more than they hold.
# And, only read, what the Flink Kubernetes Operator's autoscaler keeps of a FlinkDeployment.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [apps]
  resources: [deployments, replicasets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
# Jobs that somebody else runs: patched only in mode Auto, for the parallelism of their vertices.
- apiGroups: [flink.apache.org]
  resources: [flinkdeployments]
  verbs: [get, list, patch]
- apiGroups: [flink.apache.org]
  resources: [flinkbluegreendeployments]
  verbs: [get]
# Other autoscalers of the same job: only read.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [list]
{{- end -}}

{{/* The account that roles are bound to. */}}
{{- define "weir.subjects" -}}
- kind: ServiceAccount
  name: {{ include "weir.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
