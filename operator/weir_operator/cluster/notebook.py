"""Where everything that happens to one StreamApp is told: status, events, metrics, records, log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from weir_operator.cluster.adopted_advice import Advice
from weir_operator.cluster.conditions import Aspect, Truth
from weir_operator.cluster.objects import Resource
from weir_operator.cluster.office import Office
from weir_operator.cluster.status_store import KubernetesStatusStore, StatusDoor
from weir_operator.cluster.status_view import (
    Facts,
    figures_of,
    job_runs,
    see_change,
    see_decisions,
    see_tick,
    see_trouble,
)
from weir_operator.cluster.status_writer import StatusWriter
from weir_operator.controller.directives import Directives
from weir_operator.controller.events import Event
from weir_operator.controller.guards import guards_at
from weir_operator.controller.looping import Trouble
from weir_operator.controller.records import DecisionRecord
from weir_operator.controller.settings import LoopSettings
from weir_operator.controller.tick import Tick
from weir_operator.controller.tolerant_records import TolerantRecords
from weir_operator.errors import WeirError
from weir_operator.rescale.journal import RescaleJournal

log = structlog.get_logger()


class Notebook:
    """Takes what the loops of one StreamApp tell, and passes it on to whoever listens."""

    def __init__(self, office: Office, resource: Resource, door: StatusDoor, facts: Facts) -> None:
        """Begin with what is known before anything was seen.

        Args:
            office: Who listens.
            resource: The StreamApp.
            door: Through which its status is written.
            facts: What is known.
        """
        self._office = office
        self._resource = resource
        self._writer = StatusWriter(
            door,
            facts,
            clock=office.clock,
            on_written=lambda status: office.telemetry.see_status(resource.key, status),
        )
        self._store: KubernetesStatusStore | None = None
        self._records: TolerantRecords | None = None

    @property
    def facts(self) -> Facts:
        """What is known now."""
        return self._writer.facts

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write the status when there is news, and what is left of it in the end."""
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
        """Tell of which spec the status speaks, what it asks, and why it cannot be right.

        Args:
            generation: Of the spec.
            mistake: Why it cannot be right; empty where it can.
            asked: What the last right one asks of the loops.
        """
        guards = guards_at(asked, self._office.clock.now())
        self._note(
            replace(
                self.facts, generation=generation, mistake=mistake, mode=asked.mode, guards=guards
            )
        )

    def set_terms(self, settings: LoopSettings, prices: Mapping[str, float]) -> None:
        """Take over by what the loops reckon, where that does not follow from the spec alone."""
        self._note(replace(self.facts, settings=settings, prices=prices))

    def set_ready(self, status: Truth, reason: str, message: str) -> None:
        """Tell whether the job runs as the spec says."""
        self._note(replace(self.facts, ready=Aspect("Ready", status, reason, message)))

    def on_tick(self, tick: Tick) -> None:
        """Take over a control interval."""
        before, facts = self.facts.tick, see_tick(self.facts, tick)
        self._note(facts)
        if facts.settings is not None:
            if before is not None:
                # Ticks keep their places in time, so one that follows late began late.
                late = tick.now - before.now - facts.settings.interval
                self._office.telemetry.tick_lag.observe(max(0.0, late))
            self._office.telemetry.see_tick(
                self._resource.key, tick, facts.settings, cost=figures_of(facts)["cost"]
            )

    def on_trouble(self, trouble: Trouble) -> None:
        """Take over what is wrong with a loop."""
        self._note(see_trouble(self.facts, trouble))

    def on_decisions(self, decisions: Iterable[DecisionRecord]) -> None:
        """Take over what was decided."""
        decided = tuple(decisions)
        for each in decided:
            self._office.telemetry.see_decision(self._resource.key, each)
            if is_news(each, self.facts.decisions.get(each.operator)):
                log.info(
                    "decision",
                    operator=each.operator,
                    decision=each.id,
                    change=each.change,
                    reason=each.decision.reason,
                    verdict=each.verdict,
                )
        self._note(see_decisions(self.facts, decided))

    def on_change(self, change: RescaleJournal) -> None:
        """Take over how far a change has come."""
        if self._records is not None:
            self._records.note(change=change)
        self._office.telemetry.see_change(self._resource.key, change)
        log.info("change", change=change.id, kind=str(change.kind), step=str(change.step))
        self._note(see_change(self.facts, change))

    def on_advice(self, advice: Advice | None) -> None:
        """Take over what is advised for a job that somebody else runs; `None` takes it back."""
        self._note(replace(self.facts, advice=advice.message if advice else ""))

    def on_policies(self, found: Aspect) -> None:
        """Take over whether the network enforces NetworkPolicies."""
        before = self.facts.policies
        if found.status == "False" and (before is None or before.status != "False"):
            self.tell("NetworkPolicyNotEnforced", found.message)
        self._note(replace(self.facts, policies=found))

    def on_event(self, event: Event) -> None:
        """Take over a fact."""
        if self._records is not None:
            self._records.note(events=[event])
        severity = event.severity
        key = self._resource.key
        self._office.telemetry.events.labels(key.namespace, key.name, event.reason).inc()
        level = 30 if severity == "Warning" else 20
        log.log(level, "event", reason=event.reason, fact=event.message)
        self._office.events.post(self._resource, severity, event.reason, event.message)

    def tell(self, reason: str, message: str) -> None:
        """Tell a fact that the cluster's side has found."""
        now = self._office.clock.now()
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
                self._office.telemetry.see_standstill(self._resource.key, cost=cost)
        self._office.telemetry.see_job(self._resource.key, runs=job_runs(facts))
        self._writer.note(facts)


def is_news(record: DecisionRecord, before: DecisionRecord | None) -> bool:
    """Return whether the log is to tell of a decision.

    In mode Advise a wish is the same for hours, and would be told in every interval.

    Args:
        record: What was decided.
        before: What had been decided for the operator in the interval before.
    """
    here, target = record.observation.deployment, record.decision.target
    if target == here:
        return False
    is_same = before is not None and (before.observation.deployment, before.decision.target) == (
        here,
        target,
    )
    return record.change is not None or not is_same


class ToldRecords(TolerantRecords):
    """Decision records that are told as they are written."""

    def __init__(self, path: Path, notebook: Notebook) -> None:
        super().__init__(path, notebook.tell)
        self._notebook = notebook

    def write(
        self,
        decisions: Iterable[DecisionRecord],
        *,
        events: Iterable[Event] = (),
        change: RescaleJournal | None = None,
    ) -> None:
        """Write one tick's records in one transaction, then tell what was decided."""
        decided = tuple(decisions)
        super().write(decided, events=events, change=change)
        if decided:
            self._notebook.on_decisions(decided)
