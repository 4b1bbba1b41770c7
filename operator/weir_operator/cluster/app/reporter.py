"""Reports everything that happens to one StreamApp: status, events, metrics, records, log.

A status is written for people when something has changed. A change that a person would act on (a
condition, a deployment, a last action) is written at once; figures when one has changed by a tenth;
sentences that repeat them, occasionally. Otherwise, a thousand quiet StreamApps would cause a
thousand writes a minute.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic.types import JsonValue

from weir_operator.advise.advice import Advice
from weir_operator.api.leader import LeaseLostError
from weir_operator.api.objects import Resource
from weir_operator.clock import Clock
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.status.conditions import Aspect, Truth
from weir_operator.cluster.status.store import KubernetesStatusStore, StatusClient
from weir_operator.cluster.status.view import (
    Facts,
    figures_of,
    job_runs,
    note_change,
    note_decisions,
    note_tick,
    note_trouble,
    render_status,
)
from weir_operator.errors import WeirError
from weir_operator.loop.bounds import guards_at
from weir_operator.loop.directives import Directives, LoopSettings
from weir_operator.loop.events import Event
from weir_operator.loop.loop import Trouble
from weir_operator.loop.record import DecisionRecord, JobTick, Record, TolerantRecords
from weir_operator.loop.tick import Tick
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.streamapp.status import StreamAppStatus

log = structlog.get_logger()

MOVED = 0.1
"""Share by which a figure must move to be written at once."""
REFRESH = 300.0
"""Seconds after which smaller changes are written too."""

_OWN = ("rescale", "controller")
"""Fields that are written before each step, by the status store."""


class StatusWriter:
    """Writes one StreamApp's status when something has changed."""

    def __init__(
        self,
        client: StatusClient,
        facts: Facts,
        *,
        clock: Clock,
        on_written: Callable[[StreamAppStatus], None],
    ) -> None:
        self._client = client
        self._on_written = on_written
        self._clock = clock
        self._facts = facts
        self._dirty = asyncio.Event()
        self._dirty.set()
        self._before = _read(client.status)
        self._figures: dict[str, float] = {}
        self._written = -math.inf

    @property
    def facts(self) -> Facts:
        """What is known now."""
        return self._facts

    def note(self, facts: Facts) -> None:
        """Store what is known now; it is written soon if it matters."""
        self._facts = facts
        self._dirty.set()

    async def run(self) -> None:
        """Write what has changed, until another controller does."""
        pause = 1.0
        while True:
            await self._dirty.wait()
            await self._clock.sleep(pause)  # what changes meanwhile goes into the same write
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

    async def flush(self) -> None:
        """Write now, if something has changed.

        Raises:
            LeaseLostError: Another controller is the active one.
            TemporaryError: It could not be written.
        """
        now = self._clock.monotonic()
        figures = figures_of(self._facts)
        wanted = render_status(self._facts, self._before, self._clock.now())
        if not self._is_news(wanted, figures, now):
            return
        await self._client.write(_dump(wanted))
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
    """Return what was written before; what cannot be read is written again."""
    own = {name: value for name, value in status.items() if name not in _OWN}
    try:
        return StreamAppStatus.model_validate_json(json.dumps(own), by_alias=True, by_name=False)
    except ValidationError as error:
        log.info("the old status cannot be read", mistakes=error.error_count())
        return StreamAppStatus()


def _dump(status: StreamAppStatus) -> dict[str, JsonValue]:
    """Return the fields to write; those that are not known any more are taken out."""
    known = status.model_dump(mode="json", by_alias=True, exclude=set(_OWN), exclude_none=True)
    aliases = (field.alias for field in StreamAppStatus.model_fields.values())
    return {str(name): known.get(str(name)) for name in aliases if name not in _OWN}


class StatusReporter:
    """Receives what the loops of one StreamApp report, and passes it on."""

    def __init__(
        self, context: ControllerContext, resource: Resource, writer: StatusClient, facts: Facts
    ) -> None:
        self._context = context
        self._resource = resource
        self._writer = StatusWriter(
            writer,
            facts,
            clock=context.clock,
            on_written=lambda status: context.telemetry.note_status(resource.key, status),
        )
        self._store: KubernetesStatusStore | None = None
        self._records: TolerantRecords | None = None

    @property
    def facts(self) -> Facts:
        """What is known now."""
        return self._writer.facts

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write the status when something has changed, and what is left of it in the end."""
        task = asyncio.create_task(self._writer.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            try:
                await self._writer.flush()
            except WeirError as error:
                log.warning("the last status was not written", failure=str(error))

    def open(self, records: TolerantRecords, store: KubernetesStatusStore) -> None:
        """Begin to keep records; what was applied is read from the status."""
        self._records, self._store = records, store
        self._note(replace(self.facts, change=store.load().rescale))

    def close(self) -> None:
        """Keep no more records."""
        self._records = self._store = None

    def set_spec(self, generation: int, mistake: str, asked: Directives) -> None:
        """Tell of which spec the status speaks, what it asks, and why it cannot be right."""
        guards = guards_at(asked, self._context.clock.now())
        self._note(
            replace(
                self.facts, generation=generation, mistake=mistake, mode=asked.mode, guards=guards
            )
        )

    def set_terms(self, settings: LoopSettings, prices: Mapping[str, float]) -> None:
        """Store settings of the loops that do not follow from the spec alone."""
        self._note(replace(self.facts, settings=settings, prices=prices))

    def set_ready(self, status: Truth, reason: str, message: str) -> None:
        """Tell whether the job runs as the spec says."""
        self._note(replace(self.facts, ready=Aspect("Ready", status, reason, message)))

    def set_refusal(self, sentence: str) -> None:
        """Tell what about the job is too large to be read; empty where nothing is."""
        self._note(replace(self.facts, refusal=sentence))

    def on_tick(self, tick: Tick) -> None:
        """Report a control interval."""
        before, facts = self.facts.tick, note_tick(self.facts, tick)
        self._note(facts)
        if facts.settings is not None:
            if before is not None:
                # Ticks keep their places in time, so one that follows late began late.
                late = tick.snapshot.now - before.snapshot.now - facts.settings.interval
                self._context.telemetry.tick_lag.observe(max(0.0, late))
            self._context.telemetry.note_tick(
                self._resource.key, tick, facts.settings, cost=figures_of(facts)["cost"]
            )

    def on_trouble(self, trouble: Trouble) -> None:
        """Report what is wrong with a loop."""
        self._note(note_trouble(self.facts, trouble))

    def on_decisions(self, decisions: Iterable[DecisionRecord]) -> None:
        """Store what was decided."""
        decided = tuple(decisions)
        for each in decided:
            self._context.telemetry.note_decision(self._resource.key, each)
            if is_news(each, self.facts.decisions.get(each.operator)):
                log.info(
                    "decision",
                    operator=each.operator,
                    decision=each.id,
                    change=each.change,
                    reason=each.decision.reason,
                    verdict=each.verdict,
                )
        self._note(note_decisions(self.facts, decided))

    def on_change(self, change: RescaleJournal) -> None:
        """Store the progress of a change."""
        if self._records is not None:
            self._records.write([change])
        self._context.telemetry.note_change(self._resource.key, change)
        log.info("change", change=change.id, kind=str(change.kind), step=str(change.step))
        self._note(note_change(self.facts, change))

    def on_advice(self, advice: Advice | None) -> None:
        """Report the advice for an external job; `None` withdraws it."""
        self._note(replace(self.facts, advice=advice.message if advice else ""))

    def on_event(self, event: Event) -> None:
        """Report an event."""
        level = 30 if event.severity == "Warning" else 20
        log.log(level, "event", reason=event.reason, fact=event.message)
        self._post(event)

    def report_failure(self, message: str) -> None:
        """Report that a run of the loops failed; the task that runs them has it in the log."""
        now = self._context.clock.now()
        self._post(Event(time=now, reason="ReconcileFailed", message=message))

    def _post(self, event: Event) -> None:
        self._context.telemetry.events.add(self._resource.key, event.reason)
        self._context.events.post(self._resource, event.reason, event.message)

    def report(self, reason: str, message: str) -> None:
        """Tell a fact that the cluster's side has found."""
        now = self._context.clock.now()
        self.on_event(Event(time=now, reason=reason, message=message))

    def _note(self, facts: Facts) -> None:
        if self._records is not None:
            facts = replace(facts, unrecorded=self._records.failure)
        if self._store is not None:
            status = self._store.load()
            stands = status.suspended or status.finished
            facts = replace(
                facts,
                # A job that somebody else runs is in no status: what its last tick saw stands.
                deployments={} if stands else status.deployments or facts.deployments,
                suspended=(status.restore_path or "") if status.suspended else None,
                restarts=tuple(status.restart_tokens.get("restarts", ())),
            )
            if stands and facts.settings is not None:
                cost = facts.settings.job_manager_price
                self._context.telemetry.show_stopped(self._resource.key, cost=cost)
        self._context.telemetry.job_running.set(self._resource.key, job_runs(facts))
        self._writer.note(facts)


def is_news(record: DecisionRecord, before: DecisionRecord | None) -> bool:
    """Return whether the log reports a decision.

    In mode Advise a wish is the same for hours, and would be reported in every interval.
    """
    here, target = record.observation.deployment, record.decision.target
    if target == here:
        return False
    is_same = before is not None and (before.observation.deployment, before.decision.target) == (
        here,
        target,
    )
    return record.change is not None or not is_same


class ReportedRecords(TolerantRecords):
    """Decision records that are reported as they are written."""

    def __init__(self, path: Path, reporter: StatusReporter) -> None:
        super().__init__(path, reporter.report)
        self._reporter = reporter

    def write(self, records: Iterable[Record]) -> None:
        """Write records in one transaction, then report what was decided."""
        given = tuple(records)
        super().write(given)
        for each in given:
            if isinstance(each, JobTick) and each.decisions:
                self._reporter.on_decisions(each.decisions)
