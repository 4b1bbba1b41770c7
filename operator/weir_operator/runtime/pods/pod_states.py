"""Interprets a pod's status: whether it runs, what it waits for, why it will be removed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from weir_operator.api.client import Body
from weir_operator.flink.configuration import METRICS_PORT
from weir_operator.runtime.pods.pod_spec import CONTAINER
from weir_operator.runtime.pods.pods import (
    OPERATOR,
    PLACE,
    POOL,
    REVISION,
    SIZE,
    UNBOOSTED,
    FlinkPods,
)
from weir_operator.runtime.protocol import Replica

_CAUSED_BY = "Caused by:"  # before each cause of a Java exception, the innermost last
MOVED_IN_TIME = frozenset(
    {"EvictionByEvictionAPI", "PreemptionByScheduler", "TerminationByKubelet"}
)
"""Reasons of the condition that a pod is given before it is deleted in favour of another one, or of
its node, and while it still works."""
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""What a container waits for in the normal course of things."""
_READY_WITHIN = 60.0
"""Seconds in which a node attaches and mounts a pod's volumes; images are fetched afterwards."""


def is_alive(pod: Body) -> bool:
    """Return whether the pod runs or will run: neither ended nor ending."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def is_held(pod: Body, now: float) -> bool:
    """Return whether the pod has to go but still works, until its operator has been moved.

    Its ReplicaSet has replaced it. One that Weir removed, or that ends for another reason, is not
    held: its slot is free, or nobody moves it.
    """
    deadline = pod["metadata"].get("deletionTimestamp")
    target = condition(pod, "DisruptionTarget")
    return (
        deadline is not None
        and now < _unix(deadline)  # later, only its node could say that it ended, and may be lost
        and target.get("status") == "True"
        and target.get("reason") in MOVED_IN_TIME
        and runs(pod)
    )


def replica(pod: Body, pods: FlinkPods, *, terminating: str, now: float) -> Replica:
    """Return the TaskManager that a pod is at a Unix time.

    `terminating` is why its node is about to go; empty where it is not.
    """
    labels = pod["metadata"]["labels"]
    annotations = pod["metadata"].get("annotations") or {}
    address = pod.get("status", {}).get("podIP")
    return Replica(
        id=pod["metadata"]["name"],
        operator=labels[OPERATOR],
        pool=labels[POOL],
        size=pods.size_of(labels[POOL], annotations.get(UNBOOSTED) or cpu_of(pod)),
        started=_unix(pod["metadata"]["creationTimestamp"]),
        metrics_url=url(address, METRICS_PORT, "/metrics") if address else "",
        # One whose Flink runs has its place, whatever becomes of the user's containers beside it.
        pending="" if runs(pod) else waiting_for(pod, now),
        terminating=_disruption(pod) or terminating,
        evicted="deletionTimestamp" in pod["metadata"],
        revision=labels.get(REVISION, ""),
        place=labels.get(PLACE, ""),
        node=pod["spec"].get("nodeName", ""),
        process=process_of(pod),
        ended=_end_before(pod),
    )


def cpu_of(pod: Body) -> str:
    """Return the CPU that the pod has: what its node gave, or before that what it asks for.

    While a resize is under way the specification says what is wanted, the status what is had.
    """
    given = _main_status(pod).get("resources", {}).get("limits", {}).get("cpu")
    return asked_cpu(pod) if given is None else str(given)


def asked_cpu(pod: Body) -> str:
    """Return the CPU that the pod asks for."""
    for container in pod["spec"]["containers"]:
        limit = container.get("resources", {}).get("limits", {}).get("cpu")
        if container["name"] == CONTAINER and limit is not None:
            return str(limit)
    return str(pod["metadata"].get("annotations", {}).get(SIZE, "1"))


def waiting_for(pod: Body, now: float) -> str:
    """Return why the pod does not run, one sentence; empty where it does, or is on its way."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unscheduled')}: {scheduled.get('message', '')}".strip()
    status = pod.get("status", {})
    init, main = status.get("initContainerStatuses"), status.get("containerStatuses")
    for each in (*(init or ()), *(main or ())):
        if told := obstacle(each):
            return told
    ready = condition(pod, "PodReadyToStartContainers")
    since = _unix(ready.get("lastTransitionTime"))
    if ready.get("status") == "False" and now - since > _READY_WITHIN:
        names = ", ".join(sorted(_foreign_volumes(pod))) or "its network"
        return f"ContainerCreating: not ready on {pod['spec'].get('nodeName')}: {names}"
    return ""


def obstacle(container: Body) -> str:
    """Return what keeps a container from running, one sentence; empty without."""
    waiting = container.get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "")
    if not reason or reason in _STARTING:
        return ""
    last = container.get("lastState", {}).get("terminated", {})
    told = _cause(last.get("message", "")) or waiting.get("message", "")
    whose = "" if container["name"] == CONTAINER else f"Container {container['name']}: "
    return f"{whose}{reason}: {told}".rstrip(": ")


def _foreign_volumes(pod: Body) -> Iterator[str]:
    """Yield the objects that a pod mounts, as the user knows them."""
    for volume in pod["spec"].get("volumes") or ():
        for kind, key in (
            ("persistentVolumeClaim", "claimName"),
            ("secret", "secretName"),
            ("configMap", "name"),
        ):
            if name := volume.get(kind, {}).get(key):
                yield f"{kind} {name}"


def runs(pod: Body) -> bool:
    """Return whether the process of the pod's main container runs."""
    return "running" in _main_status(pod).get("state", {})


def cannot_take_up(pod: Body) -> bool:
    """Return whether the pod's Flink ended because it cannot make sense of an ended job's result.

    Flink 2.3.0 writes that a job has ended before it writes the same of the application that the
    job is. A JobManager that is killed between the two leaves a result which every later one
    refuses, by an `IllegalStateException` without a message (`Dispatcher.onStart`).
    """
    last = _last_end(pod)
    message = last.get("message", "")
    return "Dispatcher.onStart" in message and "IllegalStateException" in message


def process_of(pod: Body) -> str:
    """Return which process the pod's main container runs; empty while its node does not say."""
    container = _main_status(pod).get("containerID")
    return f"{pod['metadata'].get('uid', '')}/{container}" if container else ""


def _last_end(pod: Body) -> Mapping[str, Any]:
    """Return how the main container's process before the present one ended; empty without one."""
    found: Mapping[str, Any] = _main_status(pod).get("lastState", {}).get("terminated", {})
    return found


def _end_before(pod: Body) -> str:
    last = _last_end(pod)
    return f"{last.get('reason', 'Ended')}, exit code {last.get('exitCode')}" if last else ""


def condition(thing: Body, kind: str) -> Mapping[str, Any]:
    """Return a condition of an object's status, empty where it has none of this kind."""
    for each in thing.get("status", {}).get("conditions") or ():
        if each["type"] == kind:
            found: Mapping[str, Any] = each
            return found
    return {}


def find_refusal(workload: Body | None) -> str | None:
    """Return why the cluster makes no pods for a ReplicaSet as it is now, if it says so."""
    if workload is None:
        return None
    seen = workload.get("status", {}).get("observedGeneration")
    failure = condition(workload, "ReplicaFailure")
    if failure.get("status") != "True" or seen != workload["metadata"].get("generation"):
        return None  # a refusal of an earlier wish says nothing of this one
    return str(failure.get("message", ""))


def url(address: str, port: int, path: str = "") -> str:
    """Return a URL, of IPv6 too."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}{path}"


def node_is_going(node: Body) -> str:
    """Return why a node is about to go, one sentence; empty where nothing says so."""
    name = node["metadata"]["name"]
    for taint in node["spec"].get("taints") or ():
        key = taint["key"]
        if any(key.startswith(sign) for sign in _NOTICES):
            return f"Node {name} will be removed: {key}"
    if node["spec"].get("unschedulable"):
        return f"Node {name} is cordoned"
    return ""


_NOTICES = (
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "kubernetes.azure.com/scheduledevent",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/out-of-service",
)
"""Taints by which nodes announce their end, spot notices among them."""


def _disruption(pod: Body) -> str:
    target = condition(pod, "DisruptionTarget")
    if target.get("status") != "True":
        return ""
    return f"{target.get('reason', 'Disrupted')}: {target.get('message', '')}".rstrip(": ")


def _main_status(pod: Body) -> Mapping[str, Any]:
    for each in pod.get("status", {}).get("containerStatuses") or ():
        if each["name"] == CONTAINER:
            found: Mapping[str, Any] = each
            return found
    return {}


def _cause(text: str) -> str:
    """Return what a container's last words are about: the innermost cause, else the last line."""
    lines = [line.strip() for line in text.strip().splitlines()]
    causes = [line for line in lines if line.startswith(_CAUSED_BY)]
    return causes[-1].removeprefix(_CAUSED_BY).strip() if causes else "".join(lines[-1:])


def _unix(time: str | None) -> float:
    return math.nan if time is None else datetime.fromisoformat(time).timestamp()
