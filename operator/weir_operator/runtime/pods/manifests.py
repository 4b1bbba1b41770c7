"""The objects of one StreamApp's Flink cluster. Pure: values in, plain objects out.

JobManager: a Deployment of one, its Service, a NetworkPolicy and a PodDisruptionBudget.
TaskManagers: one ReplicaSet per (operator, pool), see docs/decisions/0009. Both have a service
account with a role for Flink's own leader election. Everything is owned by the StreamApp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kubernetes.utils.quantity import parse_quantity

from weir_operator.api.client import Body
from weir_operator.flink.configuration import METRICS_PORT
from weir_operator.runtime.pods.configuration import (
    BLOB_PORT,
    REST_PORT,
    RPC_PORT,
    TASK_DATA_PORT,
    TASK_RPC_PORT,
    config_map,
    job_manager_files,
    job_manager_jars,
)
from weir_operator.runtime.pods.pod_spec import STATE_VOLUME, pod_template
from weir_operator.runtime.pods.pods import (
    APP,
    CONFIG_MOUNT,
    CONTROLLER_LABELS,
    RESULTS,
    REVISION,
    SIZE,
    STATE_MOUNT,
    FlinkPods,
    fitting,
)

JOB_MANAGER = "jobmanager"
TASK_MANAGER = "taskmanager"
TRIAL = "trial"
"""Component of a JobManager that only shows whether a revision can run."""
_TRIAL_CPU = "100m"
"""What it asks its node for: it takes what nobody else needs."""

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
    group = "rbac.authorization.k8s.io"
    # If nothing outlives the JobManager, Flink elects no leader.
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
    """Return the budget that lets evictions through one at a time.

    Node autoscalers leave a node alone whose pods have a budget of 0. An evicted TaskManager works
    on until Weir has moved its operator, see `configuration.hold_script`.
    """
    return _object(pods, "policy/v1", "PodDisruptionBudget", pods.account) | {
        "spec": {
            "maxUnavailable": 1,
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
    """Return the ReplicaSet of an operator in a pool."""
    identity = {"operator": operator, "pool": pool}
    template = pod_template(
        pods,
        component=TASK_MANAGER,
        **identity,
        place=pods.place_named(pool),
        config_map=config_map,
        annotations={SIZE: size},
        avoid=avoid,
        container={
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
            "lifecycle": {"preStop": {"exec": {"command": ["bash", f"{CONFIG_MOUNT}/hold.sh"]}}},
        },
    )
    name = pods.workload(operator, pool)
    return _replica_set(pods, name, template, TASK_MANAGER, replicas=replicas, **identity)


def trial(pods: FlinkPods) -> tuple[Body, Body]:
    """Return the ConfigMap and the ReplicaSet of a JobManager that is tried, see `trial.py`.

    It is placed like the JobManager, but keeps nothing and has no token of Weir's account. Where
    the job's jar is on the volume with the state, it can read that; elsewhere, it must not wait for
    a volume that only one node can have.
    """
    alone = replace(pods, make=replace(pods.make, claim=None, uri=None), results="")
    name, place = fitting(f"{pods.name}-trial"), pods.make.job_manager
    files = config_map(
        pods,
        name,
        pods.labels(TRIAL),
        job_manager_files(alone, by_own_address=True),
        job_manager_jars(alone),
    )
    cpu = place.cpu or "1"
    resources = _resources(cpu, place.memory)
    resources["requests"]["cpu"] = min(_TRIAL_CPU, cpu, key=parse_quantity)
    template = pod_template(
        alone,
        component=TRIAL,
        place=place,
        config_map=files["metadata"]["name"],
        annotations={},
        container={"resources": resources},
    )
    template["spec"]["terminationGracePeriodSeconds"] = 0
    if pods.make.claim is not None and (pods.make.jar or "").startswith(f"{STATE_MOUNT}/"):
        _show_claim(template["spec"], pods.make.claim)
    return files, _replica_set(pods, name, template, TRIAL, replicas=1)


def _show_claim(spec: Body, claim: str) -> None:
    source = {"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
    spec["volumes"] = [
        {"name": STATE_VOLUME, **source} if each["name"] == STATE_VOLUME else each
        for each in spec["volumes"]
    ]


def _replica_set(
    pods: FlinkPods,
    name: str,
    template: Body,
    component: str,
    *,
    replicas: int,
    operator: str = "",
    pool: str = "",
) -> Body:
    selector = pods.selector(component, operator=operator, pool=pool)
    return _object(
        pods, "apps/v1", "ReplicaSet", name, component=component, operator=operator, pool=pool
    ) | {
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
