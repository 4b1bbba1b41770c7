"""When a status is written for people: when there is news.

News is anything that a person would act on (a condition, a deployment, a last action) and is
written at once; figures are written when one has moved by a tenth, sentences that merely repeat
them now and then. Without this a thousand quiet StreamApps would be a thousand writes a minute.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic.types import JsonValue

from weir_operator.clock import Clock
from weir_operator.cluster.leader import LeaseLostError
from weir_operator.cluster.status_store import StatusDoor
from weir_operator.cluster.status_view import Facts, figures_of, render_status
from weir_operator.errors import WeirError
from weir_operator.streamapp.status import StreamAppStatus

log = structlog.get_logger()

MOVED = 0.1
"""Share by which a figure must move to be news."""
REFRESH = 300.0
"""Seconds after which what is no news is written too."""

_OWN = ("rescale", "controller")
"""Fields that are written before each step, by the status store."""


class StatusWriter:
    """Writes one StreamApp's status when there is news."""

    def __init__(
        self,
        door: StatusDoor,
        facts: Facts,
        *,
        clock: Clock,
        on_written: Callable[[StreamAppStatus], None],
    ) -> None:
        """Begin with what is known before anything was seen.

        Args:
            door: Through which is written.
            facts: What is known.
            clock: The time.
            on_written: Told of every status that was written.
        """
        self._door = door
        self._on_written = on_written
        self._clock = clock
        self._facts = facts
        self._dirty = asyncio.Event()
        self._dirty.set()
        self._before = _read(door.status)
        self._figures: dict[str, float] = {}
        self._written = -math.inf

    @property
    def facts(self) -> Facts:
        """What is known now."""
        return self._facts

    def note(self, facts: Facts) -> None:
        """Take over what is known now; it is written soon, if it is news."""
        self._facts = facts
        self._dirty.set()

    async def run(self) -> None:
        """Write what is news, until another controller does."""
        pause = 1.0
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self.flush()
                pause = 1.0
            except LeaseLostError as error:
                log.info("status is no longer written here", reason=str(error))
                return
            except WeirError as error:
                # Also where it is refused: rights come back, and what was refused is replaced.
                log.warning("status not written", failure=str(error))
                self._dirty.set()
                pause = min(60.0, 2 * pause)
            except Exception:  # a defect of Weir must not end the telling: the next may be right
                log.exception("status not rendered")
                pause = min(60.0, 2 * pause)
            await self._clock.sleep(pause)  # what changes meanwhile goes into the next write

    async def flush(self) -> None:
        """Write now, if there is news.

        Raises:
            LeaseLostError: Another controller is the active one.
            TemporaryError: It could not be written.
        """
        now = self._clock.monotonic()
        figures = figures_of(self._facts)
        wanted = render_status(self._facts, self._before, self._clock.now())
        if not self._is_news(wanted, figures, now):
            return
        await self._door.write(_dump(wanted))
        self._before, self._figures, self._written = wanted, figures, now
        self._on_written(wanted)

    def _is_news(self, wanted: StreamAppStatus, figures: Mapping[str, float], now: float) -> bool:
        if wanted == self._before:
            return False
        if now - self._written >= REFRESH or _essence(wanted) != _essence(self._before):
            return True
        return figures.keys() != self._figures.keys() or any(
            _has_moved(self._figures[name], value) for name, value in figures.items()
        )


def _has_moved(before: float, now: float) -> bool:
    if math.isnan(before) or math.isnan(now):
        return math.isnan(before) != math.isnan(now)
    return (
        abs(now - before) > MOVED * max(abs(before), abs(now))
        if math.isfinite(now)
        else (before != now)
    )


def _essence(status: StreamAppStatus) -> Mapping[str, Any]:
    """Return what a person would act on, without figures and the sentences that hold them."""
    return {
        "conditions": [(each.type, each.status, each.reason) for each in status.conditions],
        "generation": status.observed_generation,
        "replicas": status.replicas,
        "objective": status.objective,
        "cost": status.cost_per_hour,
        "action": status.last_action,
        "window": status.window,
        "restarts": status.restarts_last_day,
        "tuning": status.tuning and status.tuning.version,
        "operators": [
            (each.name, each.deployment, each.target, each.decision and each.decision.outcome)
            for each in status.operators
        ],
    }


def _read(status: Mapping[str, JsonValue]) -> StreamAppStatus:
    """Return what was written before; what cannot be read is written anew."""
    own = {name: value for name, value in status.items() if name not in _OWN}
    try:
        return StreamAppStatus.model_validate_json(json.dumps(own), by_alias=True, by_name=False)
    except ValidationError as error:
        log.info("the old status cannot be read", mistakes=error.error_count())
        return StreamAppStatus()


def _dump(status: StreamAppStatus) -> dict[str, JsonValue]:
    """Return the fields to write; those that are not known any more are taken out."""
    plain: dict[str, JsonValue] = status.model_dump(mode="json", by_alias=True, exclude=set(_OWN))
    return {
        name: _without_none(value) if value is not None else None for name, value in plain.items()
    }


def _without_none(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_none(each) for each in value]
    return value
