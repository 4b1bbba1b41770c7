"""One pass over a StreamApp: compute what should be, and move towards it. Level-based.

A pass never waits: slow work is a task per StreamApp (`app.task`, `app.finalizer`). So passes may
come at any rate: from the watch when something changed, from a list of all StreamApps because
events get lost and watches die, and regularly because a task may have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog

from weir_operator.api.objects import Key, Resource
from weir_operator.clock import Clock
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.app.finalizer import finalize_app
from weir_operator.cluster.app.task import AppTask
from weir_operator.errors import WeirError

log = structlog.get_logger()

PASS_EVERY = 30.0
"""Seconds between two passes over a StreamApp that nothing happened to."""


class Reconciler:
    """Looks after all StreamApps of a controller."""

    def __init__(self, context: ControllerContext, *, clock: Clock) -> None:
        self._context = context
        self._clock = clock
        self._apps: dict[Key, AppTask] = {}
        self._passes: dict[Key, float] = {}
        # Not the objects themselves, of which each app holds one already.
        self._seen: dict[Key, tuple[str, int, Mapping[str, str]]] = {}
        self._endings: dict[str, asyncio.Task[None]] = {}
        self._deleted_at: dict[str, float] = {}  # on the clock of the passes, by uid
        self._stopping: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def ages(self) -> Mapping[Key, float]:
        """Seconds since the last pass, by StreamApp; may be asked for in another thread."""
        now = self._clock.now()
        return {key: now - time for key, time in [*self._passes.items()]}

    @property
    def apps(self) -> Mapping[Key, AppTask]:
        """What is managed."""
        return self._apps

    def knows(self, resource: Resource) -> bool:
        """Return whether a pass has seen what people ask of this object, or a later generation.

        Pauses are annotations, which are of no generation.
        """
        uid, generation, annotations = self._seen.get(resource.key, ("", -1, {}))
        if uid != resource.uid or generation != resource.generation:
            return uid == resource.uid and generation > resource.generation
        return annotations == resource.annotations

    async def run(self) -> None:
        """Make a pass over each StreamApp that is managed, regularly and for ever."""
        while True:
            await self._clock.sleep(PASS_EVERY)
            for key in [*self._apps]:
                if key not in self._apps:
                    continue
                try:
                    self.reconcile(self._apps[key].resource)
                except Exception:  # a defect that shows at one keeps no other from its pass
                    log.exception("pass failed", app=str(key))
                    self._context.telemetry.errors.add(key, "defect")

    def reconcile(self, resource: Resource) -> None:
        """Make one pass over a StreamApp."""
        if resource.is_canary:
            # No pass is noted: the watch shows a canary only after Weir's own writes. Where a busy
            # API server delays these, the watchdog would take the canary for neglected.
            return
        key = resource.key
        self._seen[key] = (resource.uid, resource.generation, resource.annotations)
        self._passes[key] = self._clock.now()
        if self._closed or resource.deleting:
            return
        self._context.autoscaler_conflicts.note(resource)
        steered = self._apps.get(key)
        if steered is not None and steered.resource.uid != resource.uid:
            self._stop_in_background(steered)  # of another object of this name, which is gone
            steered = None
        if steered is None:
            steered = self._apps[key] = AppTask(resource, self._context)
        else:
            steered.note(resource)
            if not steered.is_running:
                log.error("a task had ended and is started again", app=str(key))
        steered.start()  # unless it runs
        self._context.telemetry.apps.set(len(self._apps))

    def forget(self, key: Key) -> None:
        """Release a StreamApp whose object is gone."""
        steered = self._apps.pop(key, None)
        if steered is not None:
            self._stop_in_background(steered)
        self._passes.pop(key, None)
        self._seen.pop(key, None)
        self._context.events.forget(key)
        self._context.autoscaler_conflicts.forget(key)
        self._context.telemetry.forget(key)
        self._context.telemetry.apps.set(len(self._apps))

    async def end(self, resource: Resource, deleted: str, *, patience: float) -> bool:
        """Go on with the end of a StreamApp that is being deleted; return whether it is over.

        Args:
            resource: The object.
            deleted: Its deletion timestamp, RFC 3339.
            patience: Seconds to wait for it; it goes on beside.

        Raises:
            WeirError: The last try did not come to the end; the next call tries again.
        """
        if resource.is_canary:
            return True
        self._passes[resource.key] = self._clock.now()
        ending = self._endings.get(resource.uid)
        if ending is None:
            ending = asyncio.create_task(self._end(resource, deleted))
            self._endings[resource.uid] = ending
        await asyncio.wait({ending}, timeout=patience)
        if not ending.done():
            return False
        del self._endings[resource.uid]
        ending.result()
        self._deleted_at.pop(resource.uid, None)
        return True

    async def close(self) -> None:
        """Release everything; the jobs run on."""
        self._closed = True
        for ending in self._endings.values():
            ending.cancel()
        for steered in self._apps.values():
            self._stop_in_background(steered, finish=True)
        waiting = {*self._stopping, *self._endings.values()}
        if waiting:
            await asyncio.wait(waiting)

    async def _end(self, resource: Resource, deleted: str) -> None:
        steered = self._apps.pop(resource.key, None)
        self._context.autoscaler_conflicts.forget(resource.key)
        if steered is not None:
            await steered.stop()
        now = self._clock.now()
        # Only the first look goes by wall time, which may be set while the end is waited for.
        known = max(0.0, self._context.clock.now() - datetime.fromisoformat(deleted).timestamp())
        since = self._deleted_at.setdefault(resource.uid, now - known)
        try:
            await finalize_app(self._context, resource, deleted_for=now - since)
        except WeirError as error:
            self._context.telemetry.errors.add(resource.key, "deletion")
            log.warning("deletion waits", app=str(resource.key), failure=str(error))
            raise

    def _stop_in_background(self, steered: AppTask, *, finish: bool = False) -> None:
        task = asyncio.create_task(steered.stop(finish=finish))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
