"""The canary: a StreamApp that only shows whether writes come back through the watch.

A watch can end while the process lives, and nothing shows it: no event is also what a quiet cluster
produces. So the controller writes to its canary regularly, and knows the age of the newest write
that the watch has shown. Only writes that the API server accepted count: an unavailable server is
no fault of the watch.
"""

from __future__ import annotations

import structlog

from weir_operator.api.client import ConflictError, KubernetesApi, NotFoundError
from weir_operator.api.objects import CANARY_LABEL, Body, Key, Resource, collection
from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, WeirError
from weir_operator.streamapp.models import API_VERSION, KIND

log = structlog.get_logger()

BEAT = "weir.dev/canary-beat"
"""Annotation that holds the number of the newest writing."""
INTRODUCTION = "None: a canary with which Weir tests its watch"
"""What `kubectl get streamapps` says of it, which lists it among the others."""
WRITE_EVERY = 30.0
"""Seconds between two writings."""


class Canary:
    """Writes to the canary, and hears it from the watch."""

    def __init__(self, api: KubernetesApi, key: Key, *, clock: Clock) -> None:
        self._api = api
        self._key = key
        self._clock = clock
        self._written: dict[str, float] = {}  # writings that were not heard yet, and when
        self._heard = clock.now()
        self._told = ""

    @property
    def silence(self) -> float:
        """Seconds for which a writing has been waiting to be heard; 0 where none waits."""
        return self._clock.now() - min(self._written.values()) if self._written else 0.0

    @property
    def age(self) -> float:
        """Seconds since a writing was heard."""
        return self._clock.now() - self._heard

    def hear(self, resource: Resource) -> None:
        """Process what the watch shows."""
        beat = resource.annotations.get(BEAT, "")
        if resource.key == self._key and beat in self._written:
            # A watch may merge writings: whoever shows one has shown those before it.
            at = self._written[beat]
            self._written = {b: t for b, t in self._written.items() if t > at}
            self._heard = self._clock.now()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            try:
                await self.beat()
                self._told = ""
            except WeirError as error:
                if str(error) != self._told:
                    log.warning("canary not written", failure=str(error))
                self._told = str(error)
            await self._clock.sleep(WRITE_EVERY)

    async def beat(self) -> None:
        """Write once.

        Raises:
            TemporaryError: The API server does not answer.
            PermanentError: It refuses, or a StreamApp of this name is somebody else's.
        """
        beat = f"{self._clock.now():.3f}"
        began = self._clock.now()
        self._written[beat] = began  # before: the watch may be quicker than the answer
        try:
            try:
                self._check_owner(await self._api.get(self._key.path))
                found = await self._api.patch(
                    self._key.path, {"metadata": {"annotations": {BEAT: beat}}}
                )
            except NotFoundError:
                found = await self._create(beat)
        except WeirError:
            self._written.pop(beat, None)  # not accepted, or unknown
            raise
        if found.get("status", {}).get("lastAction") != INTRODUCTION:
            said = {"status": {"lastAction": INTRODUCTION}}
            await self._api.patch(f"{self._key.path}/status", said)

    def _check_owner(self, found: Body) -> None:
        if CANARY_LABEL not in (found["metadata"].get("labels") or {}):
            raise PermanentError(
                f"StreamApp {self._key} has the name of Weir's canary, which Weir needs "
                "to test its watch; give it another name"
            )

    async def _create(self, beat: str) -> Body:
        try:
            return await self._api.create(collection(self._key.namespace), self._body(beat))
        except ConflictError:
            self._written.pop(beat, None)  # another writer was faster: the next beat shows it
            return await self._api.get(self._key.path)

    def _body(self, beat: str) -> Body:
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": self._key.name,
                "namespace": self._key.namespace,
                "labels": {CANARY_LABEL: "true", "app.kubernetes.io/managed-by": "weir"},
                "annotations": {BEAT: beat},
            },
            # The least that the schema takes; no job is ever run for it.
            "spec": {
                "mode": "Off",
                "flink": {"ref": {"kind": "Deployment", "name": "canary"}},
                "objective": {"responseTime": "1s"},
                "nodePools": [{"name": "none", "sizes": ["1"], "memory": "1Gi"}],
            },
        }
