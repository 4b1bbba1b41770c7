"""Reads what the newest evaluation of a StreamApp has come to from its records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from weir_operator.errors import PermanentError
from weir_operator.loop.cost import cost_per_hour, prices
from weir_operator.loop.decision_records import JobTick, LoopStart, RecordStore
from weir_operator.loop.evaluation import ENDED, TO_BASELINE, EvaluatedInterval
from weir_operator.reporting.evaluation import EvaluationReport, EvaluationTotals
from weir_operator.rescale.journal import Kind, RescaleJournal
from weir_operator.runtime.standby import standby_pools
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring.replay import app_of_start
from weir_simulator.switchback import BlockTotals, Side, estimate

_Judged = tuple[JobTick, EvaluatedInterval, float]
"""An interval, where it lies, and its cost per hour."""


def read_evaluation(path: Path, app: str) -> EvaluationReport:
    """Return what the newest evaluation has come to.

    Args:
        path: The file of the records.
        app: Name of the StreamApp, for people.

    Raises:
        PermanentError: The records hold none.
    """
    records = RecordStore(path, read_only=True)
    try:
        ticks = [tick for tick in records.job_ticks(until=math.inf) if tick.evaluation is not None]
        if not ticks:
            raise PermanentError(
                f"Expected records of an evaluation of {app!r}, found none: add spec.evaluation, "
                f"such as evaluation: {{block: {_usual_block(records)}}}, and wait for the first "
                "block"
            )
        began = max(each.evaluation.began for each in ticks if each.evaluation is not None)

        own = [(t, t.evaluation) for t in ticks if t.evaluation and t.evaluation.began == began]
        starts = [each for each in records.starts() if each.time <= own[-1][0].time]
        changes = [each for each in records.changes(since=began) if _counts(each)]
        ends = [each.message for each in records.events(since=began) if each.reason == ENDED]
    finally:
        records.close()
    if not starts:
        raise PermanentError(
            f"Expected the manifest of the evaluation of {app!r} in {path}, found none: the "
            "records of its start were deleted; evaluate again"
        )
    design = own[-1][1].design
    blocks = _add_up(own, starts, changes)
    written = app_of_start(starts[-1])
    objective = written.spec.objective.response_time
    return EvaluationReport(
        app=app,
        began=began,
        until=own[-1][0].time,
        policy=starts[-1].policy,
        bound=objective.bound.seconds,
        statistic=objective.statistic.value,
        design=design,
        ended=ends[0] if ends else "",
        standby=bool(standby_pools(written)),
        weir=_total(blocks, Side.WEIR),
        baseline=_total(blocks, Side.BASELINE),
        estimate=estimate(blocks, design),
        blocks=blocks,
    )


def _usual_block(records: RecordStore) -> str:
    """Return a block of sixty intervals, as the default is with intervals of a minute."""
    starts = records.starts()
    interval = app_of_start(starts[-1]).spec.operator_manager.interval.seconds if starts else 60
    return f"{60 * interval:.0f}s" if interval < 60 else f"{interval:.0f}m"


def _counts(change: RescaleJournal) -> bool:
    """Return whether a change is a restart that a side decided on."""
    return (
        change.kind is Kind.RESCALE
        and change.has_submitted
        and change.reason != TO_BASELINE
        and change.source.keys() == change.target.keys()
    )


def _add_up(
    ticks: Sequence[tuple[JobTick, EvaluatedInterval]],
    starts: Sequence[LoopStart],
    changes: Sequence[RescaleJournal],
) -> dict[int, BlockTotals]:
    """Return what the judged intervals come to, by block."""
    judged: dict[int, list[_Judged]] = {}
    waiting, app = list(starts), app_of_start(starts[0])
    for tick, evaluated in ticks:
        while waiting and waiting[0].time <= tick.time:
            app = app_of_start(waiting.pop(0))
        place = evaluated.place
        if place.judged:
            cost = _cost_per_hour(app, tick, place.side)
            judged.setdefault(place.block, []).append((tick, evaluated, cost))
    return {block: _add_up_block(intervals, changes) for block, intervals in judged.items()}


def _add_up_block(intervals: Sequence[_Judged], changes: Sequence[RescaleJournal]) -> BlockTotals:
    ticks = [tick for tick, _, _ in intervals]
    measured = [each for each in ticks if each.violated is not None]
    rated = [each for each in ticks if not math.isnan(each.rate)]
    return BlockTotals(
        side=intervals[0][1].place.side,
        seconds=sum(each.seconds for each in ticks),
        cost=sum(cost * tick.seconds / 3600 for tick, _, cost in intervals),
        measured=len(measured),
        measured_seconds=sum(each.seconds for each in measured),
        late=sum(each.violated is True for each in measured),
        # Decided at the tick that begins the interval.
        restarts=sum(
            each.time - each.seconds <= change.created < each.time
            for each in ticks
            for change in changes
        ),
        rate=sum(each.rate * each.seconds for each in rated) / sum(each.seconds for each in rated)
        if rated
        else math.nan,
        refused=sum(evaluated.refused for _, evaluated, _ in intervals),
    )


def _cost_per_hour(app: StreamApp, tick: JobTick, side: Side) -> float:
    """Return the cost of an interval, for the baseline without standby.

    Standby TaskManagers wait for Weir's changes: a job that keeps its deployment has none.
    """
    return cost_per_hour(
        tick.deployments,
        prices(app),
        job_manager=world.job_manager_price(app),
        standby=standby_pools(app) if side is Side.WEIR else {},
    )


def _total(blocks: dict[int, BlockTotals], side: Side) -> EvaluationTotals:
    own = [each for each in blocks.values() if each.side is side and not each.refused]
    hours = sum(each.seconds for each in own) / 3600
    measured = sum(each.measured for each in own)
    return EvaluationTotals(
        blocks=len(own),
        hours=hours,
        cost_per_hour=sum(each.cost for each in own) / hours if hours else math.nan,
        late=sum(each.late for each in own) / measured if measured else math.nan,
        restarts=sum(each.restarts for each in own),
    )
