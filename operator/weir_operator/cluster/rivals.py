"""Looks now and then whether somebody else scales the jobs that Weir scales.

What scales something is read once per namespace for all its StreamApps. An API server that does
not answer changes nothing: what was found last holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from weir_operator.clock import Clock
from weir_operator.cluster.adopted_reference import ClusterReader, find_reference
from weir_operator.cluster.objects import Key, Resource
from weir_operator.cluster.other_autoscalers import (
    OtherAutoscaler,
    Scalers,
    find_other_autoscalers,
    foreign_workloads,
    read_scalers,
)
from weir_operator.errors import WeirError
from weir_operator.streamapp.models import StreamApp

log = structlog.get_logger()

LOOK_EVERY = 120.0
"""Seconds between two looks."""

_REPLICA_SETS = "/apis/apps/v1/namespaces/{}/replicasets"


@dataclass(slots=True)
class _Seen:
    """What scales something in a namespace, as it was read last."""

    scalers: Scalers = field(default_factory=Scalers)
    at: float = float("-inf")
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Rivals:
    """Finds the other autoscalers of StreamApps' jobs."""

    def __init__(self, api: ClusterReader, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._references: dict[Key, Mapping[str, str]] = {}

    def note(self, resource: Resource) -> None:
        """Remember which job a StreamApp refers to, if any."""
        reference = (resource.spec.get("flink") or {}).get("ref")
        if reference is None:
            self.forget(resource.key)
        else:
            self._references[resource.key] = dict(reference)

    def forget(self, key: Key) -> None:
        """Forget a StreamApp that is gone."""
        self._references.pop(key, None)

    async def find(self, app: StreamApp) -> tuple[OtherAutoscaler, ...]:
        """Return who scales the job of `app` beside Weir.

        Raises:
            TemporaryError: The API server did not answer.
            PermanentError: It refused, or the job that `flink.ref` names is not there.
        """
        scalers = await self._scalers_of(app.metadata.namespace)
        configuration = None
        workloads = set(foreign_workloads(app))
        if app.spec.flink.ref is not None:
            configuration = (await find_reference(self._api, app)).configuration
        elif scalers.horizontal or scalers.scaled_objects:
            workloads = await self._own_workloads(app)
        return find_other_autoscalers(
            app,
            workloads=workloads,
            scalers=scalers,
            others=self._twins(app),
            configuration=configuration,
        )

    def _twins(self, app: StreamApp) -> set[str]:
        """Return the names of the other StreamApps that refer to the same job."""
        own = Key(app.metadata.namespace, app.metadata.name)
        mine = self._references.get(own)
        return {
            key.name
            for key, reference in self._references.items()
            if mine is not None
            and key != own
            and key.namespace == own.namespace
            and reference == mine
        }

    async def watch(
        self, app: StreamApp, see: Callable[[tuple[OtherAutoscaler, ...]], None]
    ) -> None:
        """Look for ever, and tell `see` of what was found each time."""
        while True:
            try:
                see(await self.find(app))
            except WeirError as error:
                log.info("other autoscalers not looked for", reason=str(error))
            await self._clock.sleep(LOOK_EVERY)

    async def _scalers_of(self, namespace: str) -> Scalers:
        seen = self._seen.setdefault(namespace, _Seen())
        async with seen.reading:
            now = self._clock.monotonic()
            if now - seen.at >= LOOK_EVERY / 2:
                seen.scalers, seen.at = await read_scalers(self._api, namespace), now
            return seen.scalers

    async def _own_workloads(self, app: StreamApp) -> set[tuple[str, str]]:
        name = app.metadata.name
        found = await self._api.list(
            _REPLICA_SETS.format(app.metadata.namespace),
            labels=f"app.kubernetes.io/managed-by=weir,weir.dev/app={name}",
        )
        return {("ReplicaSet", str(each["metadata"]["name"])) for each in found}
