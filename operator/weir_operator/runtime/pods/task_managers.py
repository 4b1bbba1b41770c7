"""The TaskManagers of one StreamApp: ReplicaSets per (operator, pool), sized by Weir.

A ReplicaSet replaces lost pods without Weir. When it shrinks, Weir chooses which of its pods are
removed, by `controller.kubernetes.io/pod-deletion-cost`. Kubernetes deletes pods that do not run
first, then those that are not ready, and only then goes by that annotation, so Weir checks what was
deleted. Weir counts the existing pods, not the number in the ReplicaSet, so repeating a step does
no harm.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from weir_operator.api.client import Body, ConflictError, NotFoundError
from weir_operator.errors import PodsPendingError, TemporaryError
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.configuration import config_map, task_manager_files
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_states import (
    find_refusal,
    is_alive,
    is_held,
    replica,
)
from weir_operator.runtime.pods.pods import (
    COMPONENT,
    OPERATOR,
    PLACE,
    POOL,
    SIZE,
    FlinkPods,
)
from weir_operator.runtime.protocol import Replica, ReplicaSpec

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FIRST_TO_GO = "-2147483647"
LIKE_ANY = "0"
CREATION_LIMIT = 15.0
"""Seconds in which the cluster makes the pods of a ReplicaSet, wherever they are to run then."""
CHOICE_LIMIT = 2.0
"""Seconds after which a pod that was chosen to go and was passed over is deleted by name."""
DELETION_LIMIT = 30.0
"""Seconds in which pods get the signal to end."""
_POLL = 0.1

Group = tuple[str, str]
"""Operator and pool of a ReplicaSet."""


class TaskManagerPods:
    """Starts, finds and ends the TaskManagers of a StreamApp."""

    def __init__(self, objects: AppObjects, nodes: NodeNotices) -> None:
        self._objects = objects
        self._nodes = nodes

    async def replicas(self, pods: FlinkPods) -> tuple[Replica, ...]:
        """Return those that are alive or about to be, and those that are held, ordered by id."""
        going, now = await self._nodes.going(), time.time()
        return tuple(
            replica(pod, pods, terminating=going.get(pod["spec"].get("nodeName", ""), ""), now=now)
            for pod in await self._all()
            if is_alive(pod) or is_held(pod, now)
        )

    async def start(self, pods: FlinkPods, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        """Start one per spec and return their ids, once the cluster has made the pods."""
        if not wanted:
            return ()
        before = {pod["metadata"]["name"] for pod in await self._alive()}
        grouped: dict[Group, list[ReplicaSpec]] = {}
        for spec in wanted:
            grouped.setdefault((spec.operator, spec.pool), []).append(spec)
        started = await asyncio.gather(
            *(self._start_group(pods, group, specs) for group, specs in grouped.items()),
            return_exceptions=True,
        )
        failures = [each for each in started if isinstance(each, BaseException)]
        if failures:
            new = [
                pod["metadata"]["name"]
                for pod in await self._alive()
                if pod["metadata"]["name"] not in before
            ]
            await self.stop(pods, new)
            raise failures[0]
        await self._objects.prune_config_maps()
        return tuple(
            name for each in started if not isinstance(each, BaseException) for name in each
        )

    async def prepare_stop(self, ids: Iterable[str]) -> None:
        """Mark these as the first of their groups to go.

        A second or more before they do: a kubelet that has just seen any change of a pod, a mark
        included, acts on its deletion up to a second later.
        """
        chosen = set(ids)
        alive = await self._alive()
        for group in {_group(pod) for pod in alive if pod["metadata"]["name"] in chosen}:
            await self._mark_first_to_go(await self._members(group), chosen)

    async def stop(self, pods: FlinkPods, ids: Iterable[str]) -> None:
        """End these through their ReplicaSets, and wait until they are ending."""
        chosen = set(ids)
        alive = await self._alive()
        groups = {_group(pod) for pod in alive if pod["metadata"]["name"] in chosen}
        members = {group: await self._members(group) for group in groups}
        await asyncio.gather(
            *(self._shrink(pods, group, each, chosen) for group, each in members.items())
        )

    async def remember_sizes(self, sizes: Mapping[Group, str], pods: FlinkPods) -> None:
        """Give these sizes to replacements of lost replicas from now on."""
        for (operator, pool), size in sizes.items():
            found = await self._set(pods, operator, pool)
            if found is not None:
                await self._apply_set(pods, (operator, pool), size, found["spec"]["replicas"])

    async def _start_group(
        self, pods: FlinkPods, group: Group, specs: Sequence[ReplicaSpec]
    ) -> tuple[str, ...]:
        """Start replicas of one group, size by size: the template has one at a time."""
        started: list[str] = []
        for (size, avoid), count in sorted(Counter((s.size, s.avoid) for s in specs).items()):
            before = {pod["metadata"]["name"] for pod in await self._members(group)}
            replicas = len(before) + count
            await self._apply_set(pods, group, size, replicas, avoid)
            try:
                present = await self._wait_for(pods, group, replicas)
            except PodsPendingError:
                await self._apply_set(pods, group, size, len(before))
                raise
            if avoid:
                # Only these: what replaces a lost one may run wherever there is room.
                await self._apply_set(pods, group, size, replicas)
            started += sorted(present - before)
        return tuple(started)

    async def _apply_set(
        self,
        pods: FlinkPods,
        group: Group,
        size: str,
        replicas: int,
        avoid: Sequence[str] = (),
    ) -> None:
        operator, pool = group
        files = make_files(pods, operator, pool)
        workload = manifests.task_managers(
            pods,
            operator,
            pool,
            size=size,
            replicas=replicas,
            config_map=files["metadata"]["name"],
            avoid=avoid,
        )
        await self._objects.apply(files, workload)

    async def _wait_for(self, pods: FlinkPods, group: Group, replicas: int) -> set[str]:
        deadline = _now() + CREATION_LIMIT
        while True:
            present = {pod["metadata"]["name"] for pod in await self._members(group)}
            if len(present) >= replicas:
                return present
            failure = find_refusal(await self._set(pods, *group))
            if failure is not None:
                raise PodsPendingError(
                    f"The cluster rejects {group[0]} on {group[1]}: {failure}",
                    (group,),
                )
            if _now() >= deadline:
                raise PodsPendingError(
                    f"The cluster created no pod of {group[0]} on {group[1]} within "
                    f"{CREATION_LIMIT:g} s; check its controller manager",
                    (group,),
                )
            await asyncio.sleep(_POLL)

    async def _shrink(
        self, pods: FlinkPods, group: Group, members: Sequence[Body], chosen: set[str]
    ) -> None:
        leaving = [pod for pod in members if pod["metadata"]["name"] in chosen]
        await self._mark_first_to_go(members, chosen)
        name, staying = _owner(leaving[0]), len(members) - len(leaving)
        if any(_is_made_otherwise(pod, pods, group) for pod in leaving):
            # What replaces a lost one must not be made as those that leave.
            found = await self._set(pods, *group)
            if found is not None:
                await self._apply_set(pods, group, _size(found), staying)
        elif name is not None:
            # Where somebody deleted the ReplicaSet, its pods are deleted by name below.
            with suppress(NotFoundError):
                await self._objects.api.patch(
                    self._objects.path("ReplicaSet", name),
                    {"spec": {"replicas": staying}},
                )
        await self._wait_until_told(group, {pod["metadata"]["name"] for pod in leaving})

    async def _mark_first_to_go(self, members: Sequence[Body], chosen: Collection[str]) -> None:
        """Mark only the chosen pods (by name) of a ReplicaSet as the first to delete.

        Marks of earlier changes, which may have been withdrawn, are taken off the others.
        """
        if all(pod["metadata"]["name"] in chosen for pod in members):
            return  # there is nothing to choose
        for pod in members:
            name = pod["metadata"]["name"]
            cost = FIRST_TO_GO if name in chosen else LIKE_ANY
            annotations = pod["metadata"].get("annotations") or {}
            if annotations.get(DELETION_COST, LIKE_ANY) == cost:
                continue
            # It may have gone by itself, or change while it goes.
            with suppress(NotFoundError, ConflictError):
                await self._objects.api.patch(
                    self._objects.path("Pod", name),
                    {"metadata": {"annotations": {DELETION_COST: cost}}},
                )

    async def _wait_until_told(self, group: Group, names: set[str]) -> None:
        began = _now()
        named: set[str] = set()
        while left := names & {pod["metadata"]["name"] for pod in await self._members(group)}:
            waited = _now() - began
            if waited >= DELETION_LIMIT:
                raise TemporaryError(
                    f"The cluster did not end {', '.join(sorted(left))} within {DELETION_LIMIT:g} s"
                )
            if waited >= CHOICE_LIMIT and left - named:
                # It prefers pods that do not run yet, whatever they cost. The count stays right:
                # a pod more of the same make takes the place of the one that is deleted here.
                for name in left - named:
                    await self._objects.api.delete(self._objects.path("Pod", name))
                named |= left
            await asyncio.sleep(_POLL)

    async def _alive(self) -> tuple[Body, ...]:
        return tuple(pod for pod in await self._all() if is_alive(pod))

    async def _members(self, group: Group) -> tuple[Body, ...]:
        operator, pool = group
        labels = {OPERATOR: operator, POOL: pool}
        return tuple(
            pod for pod in await self._all(labels) if is_alive(pod) and _group(pod) == group
        )

    async def _all(self, labels: Mapping[str, str] = MappingProxyType({})) -> tuple[Body, ...]:
        labels = {COMPONENT: manifests.TASK_MANAGER, **labels}
        found = [pod for pod in await self._objects.pods(labels) if _is_ours(pod)]
        return tuple(sorted(found, key=lambda pod: str(pod["metadata"]["name"])))

    async def _set(self, pods: FlinkPods, operator: str, pool: str) -> Body | None:
        return await self._objects.find("ReplicaSet", pods.workload(operator, pool))


def make_files(pods: FlinkPods, operator: str, pool: str) -> Body:
    """Return the ConfigMap of a group's TaskManagers."""
    labels = pods.labels(manifests.TASK_MANAGER, operator=operator, pool=pool)
    files = task_manager_files(pods, operator, pool)
    return config_map(pods, pods.workload(operator, pool), labels, files)


def _is_made_otherwise(pod: Body, pods: FlinkPods, group: Group) -> bool:
    """Return whether a pod was made for another place than its group has now, if it has one."""
    labels = pod["metadata"]["labels"]
    return group[1] in pods.places and labels.get(PLACE, "") != pods.place_id(*group)


def _size(workload: Body) -> str:
    return str(workload["spec"]["template"]["metadata"]["annotations"][SIZE])


def _is_ours(pod: Body) -> bool:
    """Return whether a pod says whose replica it is: anybody may give one the other labels."""
    labels: Mapping[str, str] = pod["metadata"]["labels"]
    return OPERATOR in labels and POOL in labels


def _group(pod: Body) -> Group:
    labels = pod["metadata"]["labels"]
    return labels[OPERATOR], labels[POOL]


def _owner(pod: Body) -> str | None:
    for each in pod["metadata"].get("ownerReferences") or ():
        if each["kind"] == "ReplicaSet":
            return str(each["name"])
    return None


def _now() -> float:
    return asyncio.get_running_loop().time()
