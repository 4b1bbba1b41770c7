"""Standby TaskManagers as pods: a ReplicaSet per pool, whose pods wait for an operator.

A pod that waits listens where a TaskManager listens later, for its configuration. So it is ready,
for Kubernetes too, once it is warm, and binding it takes one request from the controller, which
reaches Flink's pods anyway. Its token is the pod's UID (docs/decisions/0045).

Bound pods stay in their ReplicaSet, which replaces a lost one by one that waits. Labels say which
is which. Binding writes first an annotation, then the request, then the labels, so a controller
that dies in between leaves a pod of which the annotation says that it may be bound: it is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import aiohttp
import structlog

from weir_operator.errors import PermanentError, PodsPendingError, TemporaryError, WeirError
from weir_operator.kubernetes.api.client import Body, NotFoundError
from weir_operator.runtime.kubernetes import manifests
from weir_operator.runtime.kubernetes.configuration import (
    TASK_RPC_PORT,
    config_map,
    standby_files,
    standby_jars,
    task_manager_files,
)
from weir_operator.runtime.kubernetes.deletion_order import mark_first_to_go
from weir_operator.runtime.kubernetes.objects import AppObjects
from weir_operator.runtime.kubernetes.pod_states import (
    condition,
    cpu_of,
    find_refusal,
    is_alive,
    url,
)
from weir_operator.runtime.kubernetes.pods import (
    COMPONENT,
    OPERATOR,
    PLACE,
    POOL,
    REVISION,
    SIZE,
    STANDBY,
    FlinkPods,
)
from weir_operator.runtime.kubernetes.resize import resize
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.runtime.standby import usual_operator
from weir_operator.streamapp.quantities import Cpu

BINDING = "weir.dev/binding"
"""Annotation with the operator that a pod is being bound to; removed once its labels say so."""
WAITING: Mapping[str, str] = {COMPONENT: manifests.STANDBY_TASK_MANAGER}
"""Label of those that wait."""
BINDING_LIMIT = 5.0
"""Seconds in which a pod that waits takes its configuration; it takes some milliseconds."""
_APPS = "apps/v1"

log = structlog.get_logger()


class StandbyPods:
    """Makes, binds and ends the TaskManagers of a StreamApp that wait."""

    def __init__(self, objects: AppObjects) -> None:
        self._objects = objects

    async def keep(self, pods: FlinkPods, wanted: Mapping[str, int]) -> None:
        """Have this many wait per pool; end the others.

        Raises:
            PodsPendingError: The cluster makes no such pods now.
            PermanentError: The agent for it is not installed, or the memory is not enough.
        """
        await self._delete_half_bound(await self._waiting())
        found = await self._objects.replica_sets(WAITING)
        sets = {each["metadata"]["labels"][STANDBY] for each in found}
        refused = []
        for pool in sorted(sets | {name for name, count in wanted.items() if count}):
            refused.append(await self._keep_in(pods, pool, wanted.get(pool, 0)))
        failures = [each for each in refused if each]
        if failures:
            raise PodsPendingError(failures[0], ())

    async def bind(
        self, pods: FlinkPods, wanted: Sequence[ReplicaSpec]
    ) -> tuple[tuple[str, ...], tuple[ReplicaSpec, ...]]:
        """Bind pods that are warm; return their names, and the specs for which there is none."""
        waiting = await self._waiting()
        await self._delete_half_bound(waiting)
        warm = [pod for pod in waiting if _is_ready(pod) and not _may_be_bound(pod)]
        files = _names_of_files(pods, wanted) if warm else {}
        chosen: list[tuple[Body, ReplicaSpec]] = []
        left: list[ReplicaSpec] = []
        for spec in wanted:
            name = files.get((spec.operator, spec.pool), "")
            found = next((pod for pod in warm if _fits(pods, pod, spec, files=name)), None)
            if found is None:
                left.append(spec)
            else:
                warm.remove(found)
                chosen.append((found, spec))
        # One that fails must not end the others' bindings half way.
        bound = await asyncio.gather(
            *(self._bind(pods, pod, spec) for pod, spec in chosen), return_exceptions=True
        )
        for each in bound:
            if isinstance(each, BaseException):
                raise each
        left += [spec for (_, spec), done in zip(chosen, bound, strict=True) if not done]
        names = [
            str(pod["metadata"]["name"])
            for (pod, _), done in zip(chosen, bound, strict=True)
            if done
        ]
        return tuple(names), tuple(left)

    async def _keep_in(self, pods: FlinkPods, pool: str, count: int) -> str:
        """Have this many wait in a pool; return why the cluster makes none, empty if it does."""
        name = pods.standby_workload(pool)
        members = await self.members(pool)
        waiting = [pod for pod in members if _waits(pod)]
        found = await self._objects.find("ReplicaSet", name, group=_APPS)
        replicas = _replicas(members, count)
        if not count:
            if found is not None:
                await self._choose_leaving(members, waiting, replicas)
                await self._scale(name, replicas, found)
            return ""
        operator = _usual(pods, pool)
        files = make_files(pods, operator, pool)
        workload = manifests.standby_task_managers(
            pods,
            operator,
            pool,
            size=str(min(pods.pools[pool].sizes)),
            replicas=replicas,
            config_map=files["metadata"]["name"],
        )
        spec = ReplicaSpec(operator=operator, pool=pool, size="")
        fit = [pod for pod in waiting if _fits(pods, pod, spec, files=files["metadata"]["name"])]
        misfits = [pod for pod in waiting if pod not in fit]
        surplus = sorted(fit, key=_is_ready)[: max(0, len(fit) - count)]
        await self._choose_leaving(members, [*misfits, *surplus], replicas)
        if found is None or not _is_same(found, workload):
            await self._objects.apply(files, workload)
            await self._objects.prune_config_maps()
        for pod in misfits:  # the ReplicaSet makes another in its place
            await self._delete(pod)
        return find_refusal(found) or "" if len(waiting) < count else ""

    async def members(self, pool: str) -> tuple[Body, ...]:
        """Return the pods that a pool's ReplicaSet counts: those that wait, and those bound."""
        return tuple(pod for pod in await self._objects.pods({STANDBY: pool}) if is_alive(pod))

    async def _waiting(self) -> tuple[Body, ...]:
        """Return the pods that wait, ordered by name."""
        found = await self._objects.pods(WAITING)
        alive = [pod for pod in found if is_alive(pod) and STANDBY in _labels(pod)]
        return tuple(sorted(alive, key=lambda pod: str(pod["metadata"]["name"])))

    async def _delete_half_bound(self, waiting: Sequence[Body]) -> None:
        """Delete those that a binding may have reached which was not finished."""
        for pod in waiting:
            if _may_be_bound(pod):
                await self._delete(pod)

    async def _bind(self, pods: FlinkPods, pod: Body, spec: ReplicaSpec) -> bool:
        """Bind a pod; return whether it is bound. One that may be and may not is deleted."""
        name = str(pod["metadata"]["name"])
        try:
            configuration = task_manager_files(pods, spec.operator, spec.pool)["config.yaml"]
            if Cpu(cpu_of(pod)).cores != Cpu(spec.size).cores:
                await resize(self._objects, {name: spec.size})
        except WeirError as error:
            log.info("standby not used", pod=name, reason=str(error))
            return False
        try:
            await self._patch(pod, {"annotations": {BINDING: spec.operator}})
            await send_binding(
                url(pod["status"]["podIP"], TASK_RPC_PORT, "/binding"),
                token=pod["metadata"]["uid"],
                operator=spec.operator,
                configuration=configuration,
            )
            labels = {
                COMPONENT: manifests.TASK_MANAGER,
                OPERATOR: spec.operator,
                POOL: spec.pool,
            }
            annotations = {BINDING: None, SIZE: spec.size}
            await self._patch(pod, {"labels": labels, "annotations": annotations})
        except WeirError as error:
            log.warning("standby not bound", pod=name, reason=str(error))
            with suppress(WeirError):  # its annotation stays, so the next attempt deletes it
                await self._delete(pod)
            return False
        return True

    async def _choose_leaving(
        self, members: Sequence[Body], leaving: Sequence[Body], replicas: int
    ) -> None:
        """Have a ReplicaSet that is about to shrink remove these first."""
        if replicas < len(members):
            names = {str(pod["metadata"]["name"]) for pod in leaving}
            await mark_first_to_go(self._objects, members, names)

    async def _scale(self, name: str, replicas: int, found: Body) -> None:
        if found["spec"]["replicas"] != replicas:
            with suppress(NotFoundError):
                await self._objects.api.patch(
                    self._objects.path("ReplicaSet", name, group=_APPS),
                    {"spec": {"replicas": replicas}},
                )

    async def _patch(self, pod: Body, metadata: Mapping[str, object]) -> None:
        path = self._objects.path("Pod", pod["metadata"]["name"])
        await self._objects.api.patch(path, {"metadata": metadata})

    async def _delete(self, pod: Body) -> None:
        with suppress(NotFoundError):
            await self._objects.api.delete(self._objects.path("Pod", pod["metadata"]["name"]))


async def send_binding(address: str, *, token: str, operator: str, configuration: str) -> None:
    """Give a TaskManager that waits its operator.

    Raises:
        TemporaryError: It did not take it, or may not have.
    """
    headers = {"Authorization": f"Bearer {token}", "Weir-Operator": operator}
    timeout = aiohttp.ClientTimeout(total=BINDING_LIMIT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.put(
                address, headers=headers, data=configuration.encode(), allow_redirects=False
            ) as answer,
        ):
            if answer.status != 204:
                raise TemporaryError(f"Expected {address} to take a binding, got {answer.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise TemporaryError(f"{address} does not take a binding: {error!r}") from error


def make_files(pods: FlinkPods, operator: str, pool: str) -> Body:
    """Return the ConfigMap of a pool's standby TaskManagers that have an operator's memory.

    Raises:
        PermanentError: The agent for it is not installed, or the memory is not enough.
    """
    labels = pods.labels(manifests.STANDBY_TASK_MANAGER) | {STANDBY: pool}
    files = standby_files(pods, operator, pool)
    return config_map(pods, pods.standby_workload(pool), labels, files, standby_jars())


def make_usual_files(pods: FlinkPods, pool: str) -> Body:
    """Return the ConfigMap of the TaskManagers that `StandbyPods.keep` has wait in a pool.

    Raises:
        PermanentError: As `make_files`.
    """
    return make_files(pods, _usual(pods, pool), pool)


def _names_of_files(pods: FlinkPods, specs: Sequence[ReplicaSpec]) -> Mapping[tuple[str, str], str]:
    """Return the name of `make_files` by operator and pool, without those that cannot be made."""
    names: dict[tuple[str, str], str] = {}
    for operator, pool in {(spec.operator, spec.pool) for spec in specs}:
        with suppress(PermanentError):  # these start their own, or say why they cannot
            names[operator, pool] = str(make_files(pods, operator, pool)["metadata"]["name"])
    return names


def _fits(pods: FlinkPods, pod: Body, spec: ReplicaSpec, *, files: str) -> bool:
    """Return whether a pod is made as a TaskManager of these files would be."""
    labels = _labels(pod)
    if labels[STANDBY] != spec.pool or labels.get(REVISION, "") != pods.revision:
        return False
    if labels.get(PLACE, "") != pods.place_id(spec.operator, spec.pool):
        return False
    if pod["spec"].get("nodeName", "") in spec.avoid:
        return False
    volumes = pod["spec"].get("volumes") or ()
    return any(each.get("configMap", {}).get("name") == files for each in volumes)


def _replicas(members: Sequence[Body], count: int) -> int:
    """Return how many pods a ReplicaSet is to have, so that `count` of them wait.

    Not fewer than there are while one that is bound is not ready, as after its container has
    restarted: Kubernetes would delete that one first, whatever is marked.
    """
    bound = [pod for pod in members if not _waits(pod)]
    wanted = len(bound) + count
    return wanted if all(_is_ready(pod) for pod in bound) else max(wanted, len(members))


def _usual(pods: FlinkPods, pool: str) -> str:
    """Return the operator for whose TaskManagers others wait in a pool."""
    chosen = usual_operator(
        pods.memory_needs,
        pool,
        lambda name: (pods.place_id(name, pool), standby_files(pods, name, pool)["start.sh"]),
    )
    return chosen or next(iter(pods.memory_needs))


def _is_same(found: Body, wanted: Body) -> bool:
    """Return whether a ReplicaSet has the replicas, and makes the pods, that are wanted."""
    return _compared_parts(found) == _compared_parts(wanted)


def _compared_parts(workload: Body) -> tuple[object, ...]:
    spec = workload["spec"]
    template = spec["template"]
    labels, volumes = template["metadata"]["labels"], template["spec"]["volumes"]
    names = sorted(each["configMap"]["name"] for each in volumes if "configMap" in each)
    size = template["metadata"].get("annotations", {}).get(SIZE)
    return spec["replicas"], labels.get(REVISION, ""), labels.get(PLACE, ""), size, names


def _waits(pod: Body) -> bool:
    return WAITING.items() <= _labels(pod).items()


def _is_ready(pod: Body) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def _may_be_bound(pod: Body) -> bool:
    return BINDING in (pod["metadata"].get("annotations") or {})


def _labels(pod: Body) -> Mapping[str, str]:
    labels: Mapping[str, str] = pod["metadata"]["labels"]
    return labels
