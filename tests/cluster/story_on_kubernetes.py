"""One StreamApp as its user sees it on a cluster: its status, and the few things one does to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.cluster.live_app import LiveApp
from benchmarks.cluster.place import Place, is_gone
from tests.cluster.trips_on_kubernetes import NAME
from weir_operator.clock import SystemClock, wait_until

Status = Mapping[str, Any]

_CLOCK = SystemClock()


class Story(LiveApp):
    """A StreamApp, trips unless another is named; remembers how long each chapter took."""

    def __init__(self, place: Place, name: str = NAME) -> None:
        super().__init__(place.api, place.namespace, name)
        self._chapter_began = _CLOCK.now()
        self.chapters: dict[str, float] = {}
        """Seconds that each chapter took."""

    async def until(self, what: Callable[[Status], object], *, within: float) -> Status:
        """Return the first status of which `what` holds.

        Raises:
            AssertionError: None did within so many seconds; shows the last one.
        """

        async def look() -> Status | None:
            now = await self.status()
            return now if what(now) else None

        found = await wait_until(look, clock=_CLOCK, timeout=within, period=0.5)
        assert found is not None, json.dumps(await self.status(), indent=1)
        return found

    async def delete(self, *, within: float) -> None:
        await self.api.delete(self.path)

        async def gone() -> bool | None:
            return True if await is_gone(self.api, self.path) else None

        left = await wait_until(gone, clock=_CLOCK, timeout=within, period=0.5)
        assert left, json.dumps(await self.status(), indent=1)

    async def until_no_pods(self, component: str, *, within: float) -> None:
        """Wait until all pods of a component are about to go.

        Raises:
            AssertionError: One stays.
        """

        async def none_left() -> bool | None:
            return True if not await self.pods(component) else None

        left = await wait_until(none_left, clock=_CLOCK, timeout=within, period=0.5)
        assert left, [pod["metadata"]["name"] for pod in await self.pods(component)]

    async def events(self) -> dict[str, str]:
        """Return the message of the last event of each reason."""
        found = await self.api.list(f"/api/v1/namespaces/{self.namespace}/events")
        return {each["reason"]: each["message"] for each in found}

    async def until_told(self, reason: str, text: str, *, within: float) -> None:
        """Wait for an event.

        Raises:
            AssertionError: None of this reason has this text within so many seconds.
        """

        async def is_told() -> bool | None:
            return text in (await self.events()).get(reason, "") or None

        told = await wait_until(is_told, clock=_CLOCK, timeout=within, period=0.5)
        assert told, await self.events()

    def close_chapter(self, name: str) -> None:
        """Note how long it took since the last one."""
        now = _CLOCK.now()
        self.chapters[name] = now - self._chapter_began
        self._chapter_began = now


def condition(status: Status, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition; empty where there is none."""
    found = (each for each in status.get("conditions", ()) if each["type"] == kind)
    return next(((each["status"], each["reason"]) for each in found), ("", ""))


def is_ready(status: Status) -> bool:
    """Return whether the job runs and no change is under way."""
    ready, progressing = condition(status, "Ready"), condition(status, "Progressing")
    return ready[0] == "True" and progressing[0] == "False"


def deployment(status: Status, operator: str) -> dict[str, int]:
    """Return replicas per pool and size; empty before the job runs."""
    return next((each.get("deployment") or {} for each in _operators(status, operator)), {})


def target(status: Status, operator: str) -> dict[str, int]:
    """Return what the last decision asks for; empty before there was one."""
    return next((each.get("target") or {} for each in _operators(status, operator)), {})


def outcome(status: Status, operator: str) -> str:
    """Return what became of the last decision; empty before there was one."""
    decisions = (each.get("decision") or {} for each in _operators(status, operator))
    return next((each.get("outcome", "") for each in decisions), "")


def _operators(status: Status, name: str) -> list[dict[str, Any]]:
    return [each for each in status.get("operators", ()) if each["name"] == name]
