"""Turns ticks, changes and events of a run into records, and ends with a summary."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

from weir_operator.loop.bounds import cost_per_hour
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.events import Event
from weir_operator.loop.proposals import Proposal
from weir_operator.loop.run_record import (
    EventRecord,
    Objective,
    OperatorTick,
    Record,
    RescaleRecord,
    ResponseTime,
    RunSummary,
    TickRecord,
)
from weir_operator.loop.run_record import Step as StepRecord
from weir_operator.loop.tick import Tick
from weir_operator.rescale.journal import Kind, RescaleJournal, Step, gap_of
from weir_policies.model.node_types import NodeType
from weir_policies.policy import ChangeKind

_OUTCOMES = {
    Step.DONE: "done",
    Step.ABANDONED: "abandoned",
    Step.ROLLED_BACK: "rolledBack",
    Step.FAILED: "failed",
}


class Recorder:
    """Turns what the controller reports into records, in order of time."""

    def __init__(
        self,
        settings: LoopSettings,
        prices: dict[str, float],
        *,
        began: float,
        show: Callable[[Record], None],
    ) -> None:
        """Begin an empty run at a Unix time; prices are per replica and hour, by node type."""
        self._settings = settings
        self._prices = prices
        self._began = began
        self._show = show
        self._cost = 0.0
        self._last = began
        self._judged = 0
        self._violated = 0
        self._restarts = 0
        self._resizes = 0
        self._responses: list[tuple[float, float]] = []  # records, mean
        self._gaps: list[float] = []

    def tick(self, tick: Tick) -> None:
        """Record one control interval."""
        paid = self._settings.job_manager_price
        hourly = cost_per_hour(tick.deployments, self._prices, job_manager=paid)
        snapshot = tick.snapshot
        now, flow = snapshot.now, snapshot.dataflow
        length, self._last = max(0.0, now - self._last), now  # the clock may be set back
        self._cost += hourly * length / 3600
        if tick.violated is not None:
            self._judged += 1
            self._violated += tick.violated
        output, app = snapshot.end_to_end, snapshot.app
        if not math.isnan(output.mean):
            records = max(output.throughput, 0.0) * length
            self._responses.append((1.0 if math.isnan(records) else records, output.mean))
        order = flow.order if flow else tuple(tick.deployments)
        objective = self._settings.objective
        problems = tuple(problem.sentence for problem in snapshot.problems)
        self._show(
            TickRecord(
                app=self._settings.app,
                time=now,
                elapsed=now - self._began,
                mode=self._settings.mode.value,
                objective=Objective(
                    bound=objective.response_time,
                    statistic=objective.statistic.word,
                ),
                rate=sum(app.operators[name].arrival_rate for name in app.sources)
                if app
                else math.nan,
                response_time=ResponseTime(mean=output.mean, **output.quantiles),
                violated=tick.violated,
                backlog=app.backlog if app else math.nan,
                cost_per_hour=hourly,
                cost=self._cost,
                healthy=snapshot.healthy,
                problems=problems,
                restarts=self._restarts,
                operators=tuple(self._operator(tick, name) for name in order),
            )
        )

    def change(self, journal: RescaleJournal) -> None:
        """Record the progress of a change; first starts and suspensions are no rescales."""
        if journal.kind not in (Kind.RESCALE, Kind.RESIZE, Kind.RECOVER, Kind.UPGRADE):
            return
        resize = journal.kind is Kind.RESIZE
        gap = gap_of(journal)
        if journal.step.is_end:
            self._resizes += resize
            self._restarts += gap is not None
            self._gaps += [gap] if gap is not None else []
        self._show(
            RescaleRecord(
                id=journal.id,
                kind="resize" if resize else "rescale",
                started=journal.created,
                finished=max(journal.times.values()) if journal.step.is_end else None,
                before=journal.source,
                after=journal.target,
                outcome=_OUTCOMES.get(journal.step, "running"),
                steps=tuple(StepRecord(name=n, time=t) for n, t in journal.times.items()),
                gap=gap if journal.step.is_end else None,
                reason=journal.reason,
            )
        )

    def event(self, event: Event) -> None:
        """Record a fact."""
        self._show(
            EventRecord(
                time=event.time,
                level="warning" if event.severity == "Warning" else "info",
                message=f"{event.reason}: {event.message}",
            )
        )

    def summary(self, now: float, *, p95: float, ledger: Path | None) -> RunSummary:
        """Return the whole run in numbers; records are counted where the job keeps a ledger."""
        weight = sum(records for records, _ in self._responses)
        mean = sum(n * mean for n, mean in self._responses) / weight if weight else math.nan
        emitted, received, lost, doubled = read_ledger(ledger)
        summary = RunSummary(
            app=self._settings.app,
            started=self._began,
            finished=now,
            intervals=self._judged,
            violations=self._violated,
            violation_share=self._violated / self._judged if self._judged else math.nan,
            cost=self._cost,
            response_mean=mean,
            response_p95=p95,
            restarts=self._restarts,
            resizes=self._resizes,
            emitted=emitted,
            received=received,
            lost=lost,
            doubled=doubled,
            gaps=tuple(self._gaps),
        )
        self._show(summary)
        return summary

    def _operator(self, tick: Tick, name: str) -> OperatorTick:
        measured = tick.snapshot.app.operators.get(name) if tick.snapshot.app else None
        proposal = tick.proposals.get(name)
        moves = proposal is not None and proposal.kind is not ChangeKind.NOTHING
        busy = [u for u in (measured.utilisation if measured else ()) if not math.isnan(u)]
        return OperatorTick(
            name=name,
            replicas=tick.deployments.get(name, {}),
            rate=measured.arrival_rate if measured else math.nan,
            utilisation=max(busy, default=math.nan),
            response_time=measured.response_time if measured else math.nan,
            budget=tick.budgets.get(name, math.nan),
            predicted=proposal.decision.expectation.response_time if proposal else math.nan,
            policy=self._settings.policy if proposal else "",
            reason=proposal.decision.reason if proposal else tick.held,
            target=_target(proposal) if proposal and moves else None,
            verdict=tick.verdicts.get(name, ""),
            keys=tick.keys.get(name),
        )


def read_ledger(folder: Path | None) -> tuple[int | None, int | None, int | None, int | None]:
    """Return records (emitted, received, lost, doubled) from a job's ledger.

    The job writes `source.json` and `ledger.json` as of a checkpoint; only where both are of the
    same one can they be compared.
    """
    nothing = None, None, None, None
    if folder is None:
        return nothing
    try:
        source = json.loads((folder / "source.json").read_text())
        ledger = json.loads((folder / "ledger.json").read_text())
        if source["checkpoint"] != ledger["checkpoint"]:
            return nothing
        emitted, received = int(source["emitted"]), int(ledger["distinct"])
        return emitted, received, emitted - received, int(ledger["doubled"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return nothing  # no ledger, or something else under its name


def _target(proposal: Proposal) -> dict[str, int]:
    types: tuple[NodeType, ...] = proposal.observation.model.node_types
    return proposal.decision.target.named(types)
