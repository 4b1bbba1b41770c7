"""The objects of one StreamApp's Flink cluster. Pure: values in, plain objects out.

JobManager: a Deployment of one, its Service, a NetworkPolicy and a PodDisruptionBudget.
TaskManagers: one ReplicaSet per (operator, pool), see docs/decisions/0009. Both have a service
account with a role for Flink's own leader election. Everything is owned by the StreamApp.

A pod of Flink as restricted pod security wants it, merged with the user's template. Pure.

Three layers, the later wins: Weir's defaults, the user's `spec.flink.podTemplate`, and what Weir
owns (image, command, resources, ports, pool). Lists of named things (containers, volumes,
variables) are merged by their key, other lists are joined, as Kubernetes' own strategic merge does.
The container that Weir writes is `flink-main-container`, as for the Flink Kubernetes Operator, so
that templates can move over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir_operator.kubernetes.api.client import Body
from weir_operator.runtime.kubernetes.configuration import (
    BLOB_PORT,
    METRICS_PORT,
    REST_PORT,
    RPC_PORT,
    TASK_DATA_PORT,
    TASK_RPC_PORT,
)
from weir_operator.runtime.kubernetes.pods import (
    APP,
    CONTROLLER_LABELS,
    PLACE,
    RESULTS,
    REVISION,
    SIZE,
    STATE_MOUNT,
    FlinkPods,
)
from weir_operator.runtime.places import Place
from weir_operator.streamapp.pod_template import ITEM_KEYS

CONTAINER = "flink-main-container"
CONFIG_MOUNT = "/etc/weir/flink"
FLINK_USER = 9999
"""User and group of Flink's own images, which start as root and would be refused as such."""
LEAVE_A_DEAD_NODE_AFTER = 30
"""Seconds; the default of 300 would leave the job without its TaskManager for as long."""

_REPLACED = frozenset({"command", "args"})


def pod_template(
    pods: FlinkPods,
    *,
    component: str,
    operator: str = "",
    pool: str = "",
    place: Place,
    config_map: str,
    container: Body,
    annotations: Mapping[str, str],
    spread: bool = False,
    avoid: Sequence[str] = (),
) -> Body:
    """Return the template of a JobManager's or TaskManager's pods.

    Args:
        pods: What the StreamApp's pods are made of.
        component: `jobmanager` or `taskmanager`.
        operator: The TaskManager's.
        pool: Its pool.
        place: Where it runs.
        config_map: Name of the ConfigMap with `config.yaml` and the start script.
        container: What Weir owns of the main container beside image, configuration and volumes.
        annotations: Of the pod.
        spread: Whether pods of one operator should avoid each other's nodes.
        avoid: Names of nodes that they must not run on.
    """
    labels = pods.labels(component, operator=operator, pool=pool) | {REVISION: pods.revision}
    if operator:
        labels[PLACE] = pods.place_id(operator, pool)
    owned = {
        "metadata": {"labels": labels, "annotations": dict(annotations)},
        "spec": {
            **_placement(place),
            "containers": [_container(pods, container)],
            "volumes": _volumes(pods, component, config_map),
            "restartPolicy": "Always",
        },
    }
    defaults = {
        "spec": {
            **_defaults(pods),
            **_pod_account(pods, is_job_manager=not operator),
            **({"topologySpreadConstraints": [_spread(pods, operator)]} if spread else {}),
        }
    }
    user = {key: pods.make.pod_template.get(key, {}) for key in ("metadata", "spec")}
    wanted = merge(merge(defaults, user), owned)
    if avoid:
        wanted["spec"] = _kept_off(wanted["spec"], avoid)
    return _main_container_first(wanted)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Body:
    """Return both, `above` where they contradict each other."""
    merged: Body = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(under, value)
        elif isinstance(under, list) and isinstance(value, list) and key not in _REPLACED:
            merged[key] = _merge_lists(under, value, ITEM_KEYS.get(key))
        else:
            merged[key] = value
    return merged


def _merge_lists(under: Sequence[Any], over: Sequence[Any], key: str | None) -> list[Any]:
    if key is None:
        return [*under, *(each for each in over if each not in under)]
    merged = {each[key]: each for each in under}
    for each in over:
        merged[each[key]] = merge(merged.get(each[key], {}), each)
    return list(merged.values())


def _main_container_first(template: Body) -> Body:
    """`kubectl logs` shows the first container."""
    containers: Iterable[Body] = template["spec"]["containers"]
    template["spec"]["containers"] = sorted(
        containers, key=lambda each: each.get("name") != CONTAINER
    )
    return template


def _kept_off(spec: Body, nodes: Sequence[str]) -> Body:
    """Return a pod's specification that nodes do not fit, beside what its own affinity asks.

    By the node's name, which the label `kubernetes.io/hostname` need not be.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = spec.get("affinity") or {}
    for_nodes = affinity.get("nodeAffinity") or {}
    # One term is enough for a node to fit, so each of them has to say it.
    terms = (for_nodes.get(required) or {}).get("nodeSelectorTerms") or [{}]
    others = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    off = {
        "nodeSelectorTerms": [
            {**term, "matchFields": [*(term.get("matchFields") or ()), *others]} for term in terms
        ]
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**for_nodes, required: off}}}


def _defaults(pods: FlinkPods) -> Body:
    return {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": FLINK_USER,
            "runAsGroup": FLINK_USER,
            "fsGroup": FLINK_USER,
            # A volume of many checkpoints would be walked through at every start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "imagePullPolicy": "IfNotPresent",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                # What a JVM says before it dies is then in the pod's status.
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
    }


def _pod_account(pods: FlinkPods, *, is_job_manager: bool) -> Body:
    """Return the service account, and a token only where Flink reads its leader with it."""
    if pods.chosen_account is not None:
        return {}  # what comes with it is the user's business
    return {
        "serviceAccountName": pods.account if is_job_manager else pods.task_manager_account,
        "automountServiceAccountToken": pods.survives,
    }


def _placement(place: Place) -> Body:
    dead_node = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": LEAVE_A_DEAD_NODE_AFTER,
        }
        for state in ("not-ready", "unreachable")
    ]
    return {
        **({"nodeSelector": dict(place.node_selector)} if place.node_selector else {}),
        "tolerations": [*place.tolerations, *dead_node],
    }


def _container(pods: FlinkPods, container: Body) -> Body:
    own = {
        "name": CONTAINER,
        "image": pods.make.image,
        "env": [
            _from_field("POD_NAME", "metadata.name"),
            _from_field("POD_IP", "status.podIP"),
            *({"name": name, "value": value} for name, value in _FLINK_VARIABLES.items()),
        ],
        "volumeMounts": [
            {"name": "weir-config", "mountPath": CONFIG_MOUNT, "readOnly": True},
            {"name": "weir-tmp", "mountPath": "/tmp"},
            *([] if pods.make.uri else [{"name": "weir-state", "mountPath": STATE_MOUNT}]),
        ],
    }
    return merge(own, container)


_FLINK_VARIABLES: Mapping[str, str] = {
    "FLINK_HOME": "/opt/flink",
    "FLINK_PLUGINS_DIR": "/opt/flink/plugins",
    "FLINK_LIB_DIR": "/opt/flink/lib",
}


def _volumes(pods: FlinkPods, component: str, config_map: str) -> list[Body]:
    claim = pods.make.claim
    state: Body = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    return [
        {"name": "weir-config", "configMap": {"name": config_map}},
        {"name": "weir-tmp", "emptyDir": {}},
        *([] if pods.make.uri else [{"name": "weir-state", **state}]),
    ]


def _spread(pods: FlinkPods, operator: str) -> Body:
    labels = pods.selector("taskmanager") | {"weir.dev/operator": operator}
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }


def _from_field(name: str, path: str) -> Body:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


JOB_MANAGER = "jobmanager"
TASK_MANAGER = "taskmanager"

CONTROLLER_RULES: Sequence[Body] = (
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "list", "watch", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {
        "apiGroups": [""],
        "resources": ["services", "serviceaccounts"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    {
        # Also what Flink's pods may do: nobody can grant more than they hold.
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "replicasets"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["networking.k8s.io"],
        "resources": ["networkpolicies"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["policy"],
        "resources": ["poddisruptionbudgets"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
)
"""What the controller may do in the namespaces of its StreamApps, for their pods."""

CLUSTER_RULES: Sequence[Body] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
)
"""What it may do beyond namespaces; without, it does not see that a node is drained."""

JOB_MANAGER_RULES: Sequence[Body] = (
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
)
"""What a JobManager may do in its namespace: it elects itself and remembers its jobs in ConfigMaps,
one per job, whose names are not known before."""


def task_manager_rules(pods: FlinkPods) -> Sequence[Body]:
    """Return what a TaskManager may do: read who leads, in the one ConfigMap that says it."""
    return (
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [f"{pods.cluster_id}-cluster-config-map"],
            "verbs": ["get", "list", "watch"],
        },
    )


def accounts(pods: FlinkPods) -> tuple[Body, ...]:
    """Return the service accounts of Flink's pods, with their roles and bindings."""
    return (
        *_account(pods, pods.account, JOB_MANAGER_RULES),
        *_account(pods, pods.task_manager_account, task_manager_rules(pods)),
    )


def _account(pods: FlinkPods, name: str, rules: Sequence[Body]) -> tuple[Body, ...]:
    """Return an account, its role, and the binding to the account that the pods run under."""
    group = "rbac.authorization.k8s.io"
    # Where nothing outlives the JobManager, Flink elects nobody.
    granted = [dict(rule) for rule in rules] if pods.survives else []
    subject = {
        "kind": "ServiceAccount",
        "name": pods.chosen_account or name,
        "namespace": pods.namespace,
    }
    return (
        _object(pods, "v1", "ServiceAccount", name),
        _object(pods, f"{group}/v1", "Role", name) | {"rules": granted},
        _object(pods, f"{group}/v1", "RoleBinding", name)
        | {
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [subject],
        },
    )


def service(pods: FlinkPods) -> Body:
    """Return the JobManager's Service."""
    ports = {"rest": REST_PORT, "rpc": RPC_PORT, "blob": BLOB_PORT, "metrics": METRICS_PORT}
    return _object(pods, "v1", "Service", pods.job_manager) | {
        "spec": {
            "selector": pods.selector(JOB_MANAGER),
            # TaskManagers that start together with it find it the sooner.
            "publishNotReadyAddresses": True,
            "ports": [{"name": name, "port": port} for name, port in ports.items()],
        }
    }


def network_policy(pods: FlinkPods) -> Body:
    """Return who may reach Flink: its own pods, the controller, and everybody the metrics.

    REST starts programs: whoever reaches it runs code with the job's rights.
    """
    own: Body = {"podSelector": {"matchLabels": {APP: pods.name}}}
    controller: Body = {
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": pods.controller_namespace}
        },
        "podSelector": {"matchLabels": dict(CONTROLLER_LABELS)},
    }
    between = (RPC_PORT, BLOB_PORT, TASK_RPC_PORT, TASK_DATA_PORT)
    return _object(pods, "networking.k8s.io/v1", "NetworkPolicy", pods.account) | {
        "spec": {
            "podSelector": {"matchLabels": {APP: pods.name}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [own], "ports": [{"port": port} for port in between]},
                {"from": [own, controller], "ports": [{"port": REST_PORT}]},
                {"ports": [{"port": METRICS_PORT}]},
            ],
        }
    }


def disruption_budget(pods: FlinkPods) -> Body:
    """Return the budget that makes a drain wait until Weir has replaced the TaskManager."""
    return _object(pods, "policy/v1", "PodDisruptionBudget", pods.account) | {
        "spec": {
            "maxUnavailable": 0,
            "selector": {"matchLabels": pods.selector(TASK_MANAGER)},
            # One that never came to run protects nothing.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
    }


def job_manager(pods: FlinkPods, config_map: str) -> Body:
    """Return the JobManager's Deployment."""
    place = pods.make.job_manager
    resources = _resources(place.cpu or "1", place.memory)
    annotations = {RESULTS: pods.results} if pods.results else {}
    template = pod_template(
        pods,
        component=JOB_MANAGER,
        place=place,
        config_map=config_map,
        annotations=annotations,
        container={
            "command": ["sh", f"{CONFIG_MOUNT}/start.sh"],
            "resources": resources,
            "ports": _ports(rest=REST_PORT, rpc=RPC_PORT, blob=BLOB_PORT, metrics=METRICS_PORT),
            "readinessProbe": _listens(REST_PORT),
            "livenessProbe": _alive(RPC_PORT),
        },
    )
    found = _object(pods, "apps/v1", "Deployment", pods.job_manager, component=JOB_MANAGER)
    found["metadata"]["labels"][REVISION] = pods.revision
    if annotations:
        found["metadata"]["annotations"] = annotations
    return found | {
        "spec": {
            "replicas": 1,
            # Two at once would compete for one job.
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": pods.selector(JOB_MANAGER)},
            "template": template,
        }
    }


def task_managers(
    pods: FlinkPods,
    operator: str,
    pool: str,
    *,
    size: str,
    replicas: int,
    config_map: str,
    avoid: Sequence[str] = (),
) -> Body:
    """Return the ReplicaSet of an operator in a pool.

    Args:
        pods: What the StreamApp's pods are made of.
        operator: Whose replicas.
        pool: Where.
        size: What new replicas get.
        replicas: How many there are to be.
        config_map: Name of the ConfigMap with their configuration.
        avoid: Names of nodes that new replicas must not run on.
    """
    identity = {"operator": operator, "pool": pool}
    selector = pods.selector(TASK_MANAGER, **identity)
    template = pod_template(
        pods,
        component=TASK_MANAGER,
        **identity,
        place=pods.place_named(pool),
        config_map=config_map,
        annotations={SIZE: size},
        spread=True,
        avoid=avoid,
        container={
            "command": ["sh", f"{CONFIG_MOUNT}/start.sh"],
            "resources": _resources(size, pods.place_named(pool).memory),
            # Named for what it says: a resize changes the CPU and nothing else, without a restart.
            "resizePolicy": [
                {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                {"resourceName": "memory", "restartPolicy": "RestartContainer"},
            ],
            "ports": _ports(rpc=TASK_RPC_PORT, data=TASK_DATA_PORT, metrics=METRICS_PORT),
            "env": [
                {"name": "WEIR_OPERATOR", "value": operator},
                {"name": "WEIR_POOL", "value": pool},
            ],
            "readinessProbe": _listens(TASK_RPC_PORT),
            "livenessProbe": _alive(TASK_RPC_PORT),
        },
    )
    name = pods.workload(operator, pool)
    found = _object(pods, "apps/v1", "ReplicaSet", name, component=TASK_MANAGER, **identity)
    return found | {
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": template,
        }
    }


def _object(
    pods: FlinkPods,
    api_version: str,
    kind: str,
    name: str,
    *,
    component: str = JOB_MANAGER,
    operator: str = "",
    pool: str = "",
) -> Body:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": pods.namespace,
            "labels": pods.labels(component, operator=operator, pool=pool),
            "ownerReferences": [pods.owner.reference()],
        },
    }


def _resources(cpu: str, memory: int) -> Body:
    """Return requests and limits that are equal: the size is what is paid for and what is had."""
    amounts: Mapping[str, str] = {"cpu": cpu, "memory": f"{memory}Mi"}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def _ports(**ports: int) -> list[Body]:
    return [{"name": name, "containerPort": port} for name, port in ports.items()]


def _listens(port: int) -> Body:
    """Return a probe that begins once a JVM may listen: each failure before is an event."""
    return {"tcpSocket": {"port": port}, "initialDelaySeconds": 4, "periodSeconds": 2}


def _alive(port: int) -> Body:
    """Return a probe that only a JVM fails that does not even listen: work takes its time."""
    return {
        "tcpSocket": {"port": port},
        "initialDelaySeconds": 60,
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": 6,
    }
