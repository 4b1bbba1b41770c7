"""Gives new pods more CPU while they start, by a resize in place.

Flink's JVM needs several seconds of CPU before it does any work, and the quota of a small size
spreads them over a multiple of that. So Weir raises request and limit of a new pod together, as far
as its node has room, and takes the rest back once the change has ended. The pod stays Guaranteed.
Its template keeps the size, so the scheduler, node autoscalers and whoever replaces the pod know
only that. While a pod of the StreamApp waits for a node, none is boosted: it may need that room. If
it finds none, boosts are taken back, such as that of a JobManager that started before it was made.

An annotation has the size from before the boost until after it: a controller that starts finds what
an earlier one left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

import structlog

from weir_operator.api.client import Body, ConflictError, NotFoundError
from weir_operator.errors import PermanentError, ResizeRefusedError, TemporaryError
from weir_operator.runtime.pods.changes import Mark
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_states import asked_cpu, condition, is_alive, runs
from weir_operator.runtime.pods.pods import UNBOOSTED
from weir_operator.runtime.pods.resize import ask_for_cpu, wait_for_cpu
from weir_operator.streamapp.quantities import Cpu

BOOSTED = "1"
"""CPU of a pod that starts. A start is mostly one thread."""
START_LIMIT = 60.0
"""Seconds after the last pod was made for which pods that begin to run are boosted."""
ROOM_LIMIT = 3.0
"""Seconds that a node has to find room; meanwhile, nobody else gets it."""
_POLL = 0.2

log = structlog.get_logger()


class Boosts:
    """Boosts the pods of one StreamApp."""

    def __init__(self, objects: AppObjects) -> None:
        self._objects = objects
        self._task: asyncio.Task[None] | None = None
        self._until = 0.0
        self._is_known = False  # what an earlier controller boosted
        self._boosted: set[str] = set()
        self._given: set[str] = set()  # those of them that have it by now

    def begin(self) -> None:
        """Boost, from now on and in the background, the pods that begin to run."""
        self._until = _now() + START_LIMIT
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._boost_new(), name="boost")

    async def end(self) -> None:
        """Boost no more, and give every pod its size again.

        A node that does not answer is asked again by the next call.
        """
        await self.stop()
        if self._is_known and not self._boosted:
            return
        try:
            pods = await self._objects.pods({})
        except (TemporaryError, PermanentError) as error:
            log.warning("boosts not ended", reason=str(error))
            return
        sizes = _sizes_before(pod for pod in pods if is_alive(pod))
        has_ended = await asyncio.gather(*(self._take_back(*each) for each in sizes.items()))
        self._boosted = {name for name, ended in zip(sizes, has_ended, strict=True) if not ended}
        self._is_known = True

    async def stop(self) -> None:
        """Boost no more; those that are boosted stay so until `end`."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _boost_new(self) -> None:
        seen: set[str] | None = None
        known: Mark | None = None
        async with asyncio.TaskGroup() as group:
            while _now() < self._until:
                mark = self._objects.mark()
                # While no pod has changed, none is listed again.
                alive = await self._find_alive() if mark is None or mark != known else None
                if alive is not None:
                    known = mark
                    running = {pod["metadata"]["name"]: pod for pod in alive if runs(pod)}
                    if seen is None:
                        seen = {*running}  # they have started
                    if any("nodeName" not in pod["spec"] for pod in alive):
                        running = {}
                    if any(map(_found_no_node, alive)):
                        await self._make_room(alive)
                    for name in running.keys() - seen:
                        seen.add(name)
                        group.create_task(self._boost(running[name]), name=f"boost {name}")
                await asyncio.sleep(_POLL)

    async def _make_room(self, alive: Sequence[Body]) -> None:
        """Take back what pods have been given; not from those that are just being asked."""
        sizes = _sizes_before(pod for pod in alive if pod["metadata"]["name"] in self._given)
        self._given -= sizes.keys()
        await asyncio.gather(*(self._take_back(*each) for each in sizes.items()))

    async def _find_alive(self) -> tuple[Body, ...] | None:
        try:
            pods = await self._objects.pods({})
        except (TemporaryError, PermanentError) as error:
            log.info("pods not seen", reason=str(error))
            return None
        return tuple(pod for pod in pods if is_alive(pod))

    async def _boost(self, pod: Body) -> None:
        name, size = pod["metadata"]["name"], asked_cpu(pod)
        if Cpu(size).cores >= Cpu(BOOSTED).cores:
            return
        self._boosted.add(name)
        try:
            await self._annotate(name, size)
            await ask_for_cpu(self._objects, name, BOOSTED)
            await wait_for_cpu(self._objects, name, BOOSTED, deferred=ROOM_LIMIT)
            self._given.add(name)
        except (ResizeRefusedError, TemporaryError, PermanentError) as error:
            log.info("not boosted", pod=name, reason=str(error))
            await self._take_back(name, size)

    async def _take_back(self, name: str, size: str) -> bool:
        """Give a pod its size again; return whether it has it, or is gone."""
        try:
            await ask_for_cpu(self._objects, name, size)
            await wait_for_cpu(self._objects, name, size)
            await self._annotate(name, None)
        except ResizeRefusedError:
            return True  # it is gone
        except (TemporaryError, PermanentError) as error:
            log.info("boost not ended", pod=name, reason=str(error))
            return False
        return True

    async def _annotate(self, name: str, size: str | None) -> None:
        with suppress(NotFoundError, ConflictError):  # it may end by itself
            await self._objects.api.patch(
                self._objects.path("Pod", name), {"metadata": {"annotations": {UNBOOSTED: size}}}
            )


def _sizes_before(pods: Iterable[Body]) -> dict[str, str]:
    """Return the sizes by name of those of these pods that are boosted."""
    notes = {pod["metadata"]["name"]: pod["metadata"].get("annotations") or {} for pod in pods}
    return {name: each[UNBOOSTED] for name, each in notes.items() if UNBOOSTED in each}


def _found_no_node(pod: Body) -> bool:
    return condition(pod, "PodScheduled").get("status") == "False"


def _now() -> float:
    return asyncio.get_running_loop().time()
