"""Reads the records of a StreamApp and replays them with another policy or objective.

The manifest is the recorded one, as it was at each start of the loops.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from weir_operator.errors import PermanentError
from weir_operator.loop.cost import cost_per_hour, prices
from weir_operator.loop.decision_records import LoopStart, RecordStore
from weir_operator.loop.replay import (
    Coverage,
    Replay,
    ReplayedInterval,
    Replayer,
    Terms,
    Totals,
    add_up,
)
from weir_operator.reporting.standby_advice import DAY, describe_standby, judge_standby
from weir_operator.runtime.standby import standby_pools, standby_prices
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.quantities import Duration
from weir_operator.tuning.store import TUNINGS, read_tunings
from weir_operator.wiring import assembly
from weir_policies import registry
from weir_simulator.reports import wording

MIN_INTERVALS = 3
"""Decided intervals below which there is nothing to compare: a decision is followed only in the
interval after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRequest:
    """What a replay is to do."""

    app: str
    policy: str | None = None
    """`None` for the recorded one."""
    objective: str | None = None
    """The bound on the response time, a duration; `None` for the recorded one."""
    since: float = -math.inf
    """Unix time."""
    until: float = math.inf


def replay_records(
    path: Path,
    request: ReplayRequest,
    *,
    follow_from: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Replay:
    """Decide the recorded intervals again.

    Args:
        path: The file of the records.
        request: What is to be decided how.
        follow_from: Unix time from which on the replay follows its own decisions, infinite for
            never; `None` is `request.since`.
        progress: Told how many intervals are done, and of how many.

    Raises:
        PermanentError: The objective is no duration, or there are too few intervals.
        UnknownPolicyError: No policy has this name.
        ParameterError: The policy cannot decide for these operators together.
    """
    bound = _read_bound(request.objective)
    if request.policy is not None:
        registry.refuse_parameters(request.policy, {})
    records = RecordStore(path, read_only=True)
    try:
        times = records.tick_times(until=request.until)
        starts = [each for each in records.starts() if each.time <= times[-1]] if times else []
        _refuse_without(times, starts, request, records)
        begin = partial(_begin, policy=request.policy, bound=bound, objective=request.objective)
        replayer = Replayer(
            begin, follow_from=request.since if follow_from is None else follow_from
        )
        intervals = _replay_intervals(
            records, starts, replayer, request, lambda done: progress(done, len(times))
        )
        begun, until = intervals[0].time - intervals[0].seconds, intervals[-1].time
        changes = [each for each in records.changes(since=begun) if each.created <= until]
    finally:
        records.close()
    objective = app_of_start(starts[-1]).spec.objective.response_time
    policy = request.policy or starts[-1].policy
    totals = add_up(intervals, changes)
    earlier = sum(time < request.since for time in times)
    return Replay(
        app=request.app,
        since=begun,
        until=until,
        statistic=objective.statistic.value,
        was_policy=" and ".join(replayer.coverage.policies),
        was_bound=objective.bound.seconds,
        policy=policy,
        bound=objective.bound.seconds if bound is None else bound,
        totals=totals,
        notices=(
            *_describe_policy(replayer.coverage, starts, policy, earlier),
            *_describe_objective(replayer.coverage, path, bound, until),
            *_describe_decisions(intervals, policy),
            *_describe_time(replayer.coverage, totals),
            "The model has no gap of a restart and no backlog after it: the restarts of the replay "
            "take no time and delay no record",
        ),
        intervals=tuple(intervals),
    )


def _replay_intervals(
    records: RecordStore,
    starts: Sequence[LoopStart],
    replayer: Replayer,
    request: ReplayRequest,
    progress: Callable[[int], None],
) -> list[ReplayedInterval]:
    """Return the intervals from `request.since` on, each decided again.

    Raises:
        PermanentError: Too few of them have decisions.
    """
    intervals: list[ReplayedInterval] = []
    waiting = list(starts)
    for done, (tick, decided) in enumerate(records.ticks(until=request.until)):
        while waiting and waiting[0].time <= tick.time:
            replayer.start(waiting.pop(0))
        interval = replayer.take(tick, decided)
        if tick.time >= request.since:
            intervals.append(interval)
        progress(done + 1)
    decisive = sum(bool(each.decisions) for each in intervals)
    if decisive < MIN_INTERVALS:
        raise _refuse_few(decisive, request)
    return intervals


def _read_bound(objective: str | None) -> float | None:
    """Return the seconds of an objective.

    Raises:
        PermanentError: It is no duration.
    """
    if objective is None:
        return None
    try:
        return Duration(objective).seconds
    except ValueError as error:
        raise PermanentError(
            f"--objective: expected {Duration.expected}, got {objective!r}"
        ) from error


def _refuse_without(
    times: Sequence[float],
    starts: Sequence[LoopStart],
    request: ReplayRequest,
    records: RecordStore,
) -> None:
    """Refuse records that hold nothing to replay.

    Raises:
        PermanentError: They do not.
    """
    if times and starts and starts[0].time <= times[-1]:
        return
    if not times and request.until == math.inf and records.decisions():
        raise PermanentError(
            f"Expected recorded intervals of {request.app!r}, got decisions of an older version of "
            "Weir alone, which did not record the job's dataflow; let this version run the job for "
            "a while"
        )
    raise _refuse_few(0, request)


def _refuse_few(number: int, request: ReplayRequest) -> PermanentError:
    where = "" if request.since == -math.inf and request.until == math.inf else " in that time"
    remedy = (
        "choose an earlier --since or a later --until" if where else "let the job run for longer"
    )
    return PermanentError(
        f"Expected at least {MIN_INTERVALS} intervals with decisions of {request.app!r}{where}, "
        f"got {number}; {remedy}"
    )


def _begin(
    start: LoopStart, *, policy: str | None, bound: float | None, objective: str | None
) -> Terms:
    """Return with what is decided after a start of the loops."""
    app = app_of_start(start, objective)
    name = policy or start.policy
    assembly.refuse_operators(app, policy=name)
    return Terms(
        managers=assembly.operator_managers(app, policy=name),
        am=assembly.application_manager(app),
        bound=app.spec.objective.response_time.bound.seconds,
        shares=bound is not None
        and bound != app_of_start(start).spec.objective.response_time.bound.seconds,
        cost=partial(
            cost_per_hour,
            prices=prices(app),
            job_manager=world.job_manager_price(app),
            standby=standby_pools(app),
        ),
        most_replicas=assembly.most_replicas(app, name),
    )


def advise_standby(records: RecordStore, *, until: float) -> str:
    """Return what standby TaskManagers would have saved in the last day, see `describe_standby`.

    Empty where no change has added replicas, and where Weir does not run the job.

    Args:
        records: Of the StreamApp.
        until: Unix seconds.
    """
    starts = [each for each in records.starts() if each.time <= until]
    if not starts:
        return ""
    app = app_of_start(starts[-1])
    if app.spec.flink.ref is not None:
        return ""
    since = until - DAY
    advice = judge_standby(
        (each for each in records.changes(since=since) if each.created <= until),
        (each for each in records.job_ticks(until=until) if each.time > since),
    )
    counts = {name: pool.count for name, pool in standby_pools(app).items()}
    return describe_standby(advice, standby_prices(app), counts)


def app_of_start(start: LoopStart, objective: str | None = None) -> StreamApp:
    """Return the StreamApp of a start, as far as it was recorded, with another objective.

    Raises:
        PermanentError: This version of Weir does not understand it, or the objective contradicts
            the rest of it.
    """
    written: dict[str, Any] = json.loads(json.dumps(start.app))
    # The program is not recorded, because no decision depends on it; but a StreamApp has one.
    if "ref" not in written["spec"]["flink"]:
        written["spec"]["flink"]["image"] = "not/recorded"
    if objective is not None:
        goal = written["spec"]["objective"]
        given = goal["responseTime"]
        statistic = {} if isinstance(given, str) else {"statistic": given.get("statistic", "mean")}
        goal["responseTime"] = {"bound": objective, **statistic}
    try:
        return StreamApp.model_validate_json(json.dumps(written))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"])
        raise PermanentError(
            f"Expected the recorded StreamApp of {wording.time_of_day(start.time)} to be valid, "
            f"got a mistake in {place}: {first['msg']}; choose a later --since, or another "
            "--objective"
        ) from error


def _describe_policy(
    coverage: Coverage,
    starts: Sequence[LoopStart],
    policy: str,
    earlier: int,
) -> list[str]:
    """Return what is not known of what the policy had learned."""
    said = []
    before = (
        f"; before the replay begins, it learns from {wording.counted(earlier, 'interval')}"
        if earlier
        else ""
    )
    if policy != starts[0].policy:
        said.append(
            f"Policy {policy} starts untrained and with its default settings, because the recorded "
            f"policy is {starts[0].policy}{before}"
        )
    elif coverage.starts_untrained:
        said.append(
            f"What Weir had learned before the records begin is not known: policy {policy} starts "
            f"untrained{before}"
        )
    if coverage.dropped:
        said.append(
            f"What policy {policy} had learned of {', '.join(coverage.dropped)} did not fit after "
            "a start of the controller: it starts untrained there"
        )
    if registry.learns_by_trying(policy):
        said.append(
            f"Policy {policy} explores. A live job uses it only after training in a simulator; "
            "here it learns from the recorded intervals alone"
        )
    stood_in = [name for name in coverage.policies if name not in {each.policy for each in starts}]
    if stood_in:
        said.append(
            f"Some recorded decisions are those of {' and '.join(stood_in)}, which stood in for "
            f"{starts[-1].policy}"
        )
    return said


def _describe_objective(
    coverage: Coverage, path: Path, bound: float | None, until: float
) -> list[str]:
    said = []
    tunings = read_tunings(path.with_name(TUNINGS))
    tuned = tunings is not None and any(each.since <= until for each in tunings.versions)
    if tuned and bound is not None:
        said.append(
            "The job was tuned for its recorded objective: the replay uses the tuned weights, and "
            "divides the other objective among the operators without tuning"
        )
    elif tuned:
        said.append("Weights and latency budgets are those that the recorded tunings had set")
    if coverage.infeasible:
        said.append(
            f"The objective cannot be met ({coverage.infeasible}); the replay aims at the closest "
            "one that can"
        )
    return said


def _describe_decisions(intervals: Sequence[ReplayedInterval], policy: str) -> list[str]:
    """Say so where the policy kept its deployment all the time, and why it last did."""
    choices = [each.would for interval in intervals for each in interval.decisions]
    if not choices or any(each.changes for each in choices):
        return []
    return [
        f"Policy {policy} proposed another deployment in 0 of "
        f"{wording.counted(len(choices), 'decision')}, so the differences are those of the "
        f"deployment in which the replay began. Its last reason: {choices[-1].reason}"
    ]


def _describe_time(coverage: Coverage, totals: Totals) -> list[str]:
    """Return which times and operators the replay does not cover."""
    said = []
    if totals.undecided:
        said.append(
            f"Nothing could be decided in {wording.counted(totals.undecided, 'interval')} of "
            f"{totals.intervals} (a change under way, or measurements missing): both deployments "
            "stay as they are, and cost"
        )
    if coverage.gaps:
        said.append(
            f"Nothing was recorded for {wording.clock(coverage.gap_seconds)} in "
            f"{wording.counted(coverage.gaps, 'gap')}: that time counts on neither side"
        )
    if coverage.appeared:
        names = ", ".join(
            f"{name} ({wording.time_of_day(time)})" for name, time in coverage.appeared.items()
        )
        gone = f", {', '.join(coverage.gone)} disappeared" if coverage.gone else ""
        said.append(
            f"The job got other operators: {names} appeared{gone}. The replay takes them when they "
            "appear and as they are deployed then; the restart counts on neither side"
        )
    if totals.predicted < totals.intervals - totals.undecided:
        said.append(
            f"The response time is predicted in {totals.predicted} of "
            f"{totals.intervals - totals.undecided} decided intervals: in the others, the model "
            "has not measured every operator yet"
        )
    return said
