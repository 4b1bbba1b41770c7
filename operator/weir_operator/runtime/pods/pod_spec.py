"""A pod of Flink as restricted pod security wants it, merged with the user's template. Pure.

Three layers, the later wins: Weir's defaults, the user's `spec.flink.podTemplate`, and what Weir
owns (image, command, resources, ports, pool). Lists of named things (containers, volumes,
variables) are merged by their key, other lists are joined, as Kubernetes' own strategic merge does.
The container that Weir writes is `flink-main-container`, as for the Flink Kubernetes Operator, so
that templates can move over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir_operator.api.client import Body
from weir_operator.errors import PermanentError
from weir_operator.runtime.places import Place
from weir_operator.runtime.pods.pods import (
    CONFIG_MOUNT,
    PLACE,
    REVISION,
    STATE_MOUNT,
    FlinkPods,
)
from weir_operator.runtime.revision import AgentImage
from weir_operator.streamapp.pod_template import ITEM_KEYS, find_lost_protection, without_nulls
from weir_operator.streamapp.sentences import sentence

CONTAINER = "flink-main-container"
STATE_VOLUME = "weir-state"
AGENT_MOUNT = "/opt/weir-agent"
AGENT_JAR = "weir-agent.jar"
_AGENT_RESOURCES: Mapping[str, str] = {"cpu": "100m", "memory": "32Mi"}
"""Of the container that copies it, which ends before Flink's begins: the pod asks for no more."""
AGENT_IN_IMAGE = f"/opt/weir/share/weir/{AGENT_JAR}"
"""Where Weir's image has it, as the Dockerfile says."""
FLINK_USER = 9999
"""User and group of Flink's own images, which start as root and would be refused as such."""
HELD_FOR = 300
"""Seconds for which a TaskManager that is evicted goes on working, at most."""
LEAVE_A_DEAD_NODE_AFTER = 30
"""Seconds; the default of 300 would leave the job without its TaskManager for as long."""
_RESTRICTED: Mapping[str, Any] = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
    # What a JVM says before it dies is then in the pod's status.
    "terminationMessagePolicy": "FallbackToLogsOnError",
}
"""Of every container that Weir writes."""
_REPLACED = frozenset({"command", "args"})
_ONE_OF = (
    frozenset({"exec", "grpc", "httpGet", "sleep", "tcpSocket"}),
    frozenset({"value", "valueFrom"}),
)
"""Fields of which Kubernetes takes one: what a probe or a hook does, and a variable's value."""


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
        avoid: Names of nodes that they must not run on.

    Raises:
        PermanentError: With the user's template, a pod would have more rights than the profile.
    """
    labels = pods.labels(component, operator=operator, pool=pool) | {REVISION: pods.revision}
    if operator:
        labels[PLACE] = pods.place_id(operator, pool)
    owned = {
        "metadata": {"labels": labels, "annotations": dict(annotations)},
        "spec": {
            **_placement(place),
            **({} if pods.agent is None else {"initContainers": [_provide_agent(pods.agent)]}),
            "containers": [_container(pods, container)],
            "volumes": _volumes(pods, config_map),
            "restartPolicy": "Always",
        },
    }
    defaults = {
        "spec": {
            **_defaults(is_job_manager=not operator),
            **_pod_account(pods, is_job_manager=not operator),
            **({"topologySpreadConstraints": [_spread(pods, operator)]} if operator else {}),
        }
    }
    template = {key: without_nulls(each) for key, each in pods.make.pod_template.items()}
    user = {key: template.get(key, {}) for key in ("metadata", "spec")}
    wanted = merge(merge(defaults, user), owned)
    lost = find_lost_protection(wanted["spec"], CONTAINER, ("spec", "flink", "podTemplate", "spec"))
    if mistakes := [sentence(each) for each in lost]:
        raise PermanentError("; ".join(mistakes))
    if avoid:
        wanted["spec"] = _kept_off(wanted["spec"], avoid)
    return _main_container_first(wanted)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Body:
    """Return both, `above` where they contradict each other.

    Also where Kubernetes takes one of several fields, such as the handlers of a probe.
    """
    instead = {key for group in _ONE_OF if group & above.keys() for key in group - above.keys()}
    merged: Body = {key: each for key, each in below.items() if key not in instead}
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
    """Return a pod's specification that excludes nodes, in addition to its own affinity.

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


def _defaults(*, is_job_manager: bool) -> Body:
    return {
        "enableServiceLinks": False,
        # A TaskManager first waits until its slot is free; what is left is for its JVM.
        "terminationGracePeriodSeconds": 30 if is_job_manager else HELD_FOR + 30,
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
                **_RESTRICTED,
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
        "command": ["sh", f"{CONFIG_MOUNT}/start.sh"],
        "env": [
            _from_field("POD_NAME", "metadata.name"),
            _from_field("POD_IP", "status.podIP"),
            *({"name": name, "value": value} for name, value in _FLINK_VARIABLES.items()),
        ],
        "volumeMounts": [
            {"name": "weir-config", "mountPath": CONFIG_MOUNT, "readOnly": True},
            {"name": "weir-tmp", "mountPath": "/tmp"},
            *([] if pods.make.uri else [{"name": STATE_VOLUME, "mountPath": STATE_MOUNT}]),
            *([] if pods.agent is None else [_agent_mount(read_only=True)]),
        ],
    }
    return merge(own, container)


def _provide_agent(agent: AgentImage) -> Body:
    """Return the container that puts the agent where Flink's JVMs find it.

    A jar that is not the one that the controller knows is left out: Flink then runs without.
    """
    copied = f"{AGENT_MOUNT}/{AGENT_JAR}"
    script = (
        f"cp {AGENT_IN_IMAGE} {copied}.part"
        f" && echo '{agent.digest}  {copied}.part' | sha256sum -c"
        f" && mv {copied}.part {copied}"
        " || echo 'The agent is not the one of the controller: Flink starts without it' >&2"
    )
    return {
        "name": "weir-agent",
        "image": agent.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        # A quota of the namespace may demand limits. They equal the requests, because a single
        # container with others would cost the pod the QoS class Guaranteed.
        "resources": {"requests": dict(_AGENT_RESOURCES), "limits": dict(_AGENT_RESOURCES)},
        **_RESTRICTED,
        "volumeMounts": [_agent_mount(read_only=False)],
    }


def _agent_mount(*, read_only: bool) -> Body:
    return {"name": "weir-agent", "mountPath": AGENT_MOUNT, "readOnly": read_only}


_FLINK_VARIABLES: Mapping[str, str] = {
    "FLINK_HOME": "/opt/flink",
    "FLINK_PLUGINS_DIR": "/opt/flink/plugins",
    "FLINK_LIB_DIR": "/opt/flink/lib",
}


def _volumes(pods: FlinkPods, config_map: str) -> list[Body]:
    claim = pods.make.claim
    state: Body = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    return [
        {"name": "weir-config", "configMap": {"name": config_map}},
        {"name": "weir-tmp", "emptyDir": {}},
        *([] if pods.make.uri else [{"name": STATE_VOLUME, **state}]),
        *([] if pods.agent is None else [{"name": "weir-agent", "emptyDir": {}}]),
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
