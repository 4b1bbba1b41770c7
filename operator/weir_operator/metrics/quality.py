"""The check before every decision: may Weir decide on this measurement, and learn from it?

A chain of pure checks, each of which returns problems with a sentence for people. A problem that
holds stops decisions and learning until it is gone; the others only warn. Values that a job does
not report because it has no helper or no FLIP-33 source are no problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from weir_operator.metrics.measurement import BEHIND_FOR, BUSY, falls_behind_idle
from weir_operator.metrics.rates import source_demand
from weir_operator.metrics.values import AppMeasurement, JobLayout, OperatorMeasurement, ServiceFrom
from weir_policies.kernels.wording import format_rate

BUSY_TIME_LAG = 6.0
"""Seconds by which Flink's busy time may run ahead of the truth: it counts idle time every 5 s
(`rates.settled_rise`), and a busy machine is late."""


class ProblemKind(StrEnum):
    """What is wrong with a measurement."""

    STALE = "Stale"
    """No recent sample."""
    PARTIAL = "Partial"
    """Some replicas do not report."""
    NOT_A_NUMBER = "NotANumber"
    """A required metric is NaN or infinite."""
    IMPOSSIBLE = "Impossible"
    """Values that no job can produce together."""
    CLOCK_JUMP = "ClockJump"
    """Samples from the future, a window that ends before the last one did, or a clock that was set
    within it."""
    UNKNOWN_LAYOUT = "UnknownLayout"
    """Flink has not said for a while which tasks run where."""
    GARBAGE_COLLECTION = "GarbageCollection"
    """A replica is slow because its JVM lacks memory, which more replicas would hide at a price."""
    SOURCE_BUSY_TIME = "SourceBusyTime"
    """A source that falls behind while it calls itself idle: its busy time says nothing."""

    @property
    def holds(self) -> bool:
        """Whether it stops decisions and learning."""
        return self is not ProblemKind.SOURCE_BUSY_TIME


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One reason not to trust a measurement."""

    operator: str | None
    """`None` where it concerns the whole job."""
    kind: ProblemKind
    sentence: str


CLOCK_TOLERANCE = 2.0
"""Seconds that a sample may lie in the future: clocks of two machines differ."""
MAX_UTILISATION = 1.2
"""Above it busy time cannot be true; a little above 1 it may be, as scrapes are not stamped to the
millisecond."""
MAX_GC_SHARE = 0.3
"""Share of time in garbage collection from which a replica's speed is not its own."""


def judge(
    measurement: AppMeasurement,
    previous: AppMeasurement | None,
    layout: JobLayout,
    now: float,
    *,
    stale_after: float,
    set_by: float = 0.0,
) -> tuple[Problem, ...]:
    """Return what is wrong with a measurement, worst first; nothing where it may be used.

    Args:
        measurement: What is to be judged.
        previous: The last measurement that was judged, of whatever run.
        layout: What runs now; a measurement of another run is stale.
        now: Unix seconds on the controller's clock.
        stale_after: Seconds since the newest sample, see `LoopSettings`.
        set_by: Seconds by which the controller's clock was set ahead while it was measured, below
            zero where back.
    """
    if measurement.job_id != layout.job_id:
        other = f"Expected samples of job {layout.job_id}, got {measurement.job_id}."
        return (_of_job(ProblemKind.STALE, other),)
    if abs(set_by) > CLOCK_TOLERANCE:  # samples of before and after do not fit together
        way = "ahead" if set_by > 0 else "back"
        jump = f"The controller's clock was set {way} by {abs(set_by):.0f} s in this interval."
        return (_of_job(ProblemKind.CLOCK_JUMP, jump),)
    problems = [*_clock(measurement, previous, now)]
    if math.isnan(measurement.newest) or now - measurement.newest > stale_after:
        problems.append(_silence(measurement, now, stale_after))
        return tuple(problems)
    for name, operator in measurement.operators.items():
        is_source = layout.is_source(name)
        found = (
            _partial(operator, now, stale_after),
            _not_a_number(operator, is_source=is_source),
            _records_from_nothing(operator, is_source=is_source),
            _busy_with_nothing(operator, measurement, layout),
            _out_of_range(operator),
            _backlog_vanishes(operator, is_source=is_source),
            _garbage_collection(operator),
            _source_busy_time(operator, measurement.end - measurement.start, is_source=is_source),
        )
        problems += [
            Problem(operator=name, kind=kind, sentence=f"Operator {name}: {text}.")
            for kind, text in chain.from_iterable(found)
        ]
    return tuple(problems)


_Found = Iterator[tuple[ProblemKind, str]]
"""What is wrong with an operator, as a clause about it."""


def _clock(app: AppMeasurement, previous: AppMeasurement | None, now: float) -> Iterator[Problem]:
    if app.newest > now + CLOCK_TOLERANCE:
        ahead = app.newest - now
        future = f"The newest sample is {ahead:.1f} s in the future: a clock jumped."
        yield _of_job(ProblemKind.CLOCK_JUMP, future)
    if previous is not None and app.end < previous.end:
        back = previous.end - app.end
        past = f"The window ends {back:.1f} s before the previous one: a clock jumped back."
        yield _of_job(ProblemKind.CLOCK_JUMP, past)


def _silence(app: AppMeasurement, now: float, stale_after: float) -> Problem:
    age = "none" if math.isnan(app.newest) else f"the newest {now - app.newest:.1f} s old"
    expected = f"Expected samples not older than {stale_after:g} s, got {age}."
    return _of_job(ProblemKind.STALE, expected)


def _of_job(kind: ProblemKind, sentence: str) -> Problem:
    return Problem(operator=None, kind=kind, sentence=sentence)


def _partial(operator: OperatorMeasurement, now: float, stale_after: float) -> _Found:
    """A replica that is silent, or was heard too seldom for a rate."""
    silent = [
        replica.tm_id
        for replica in operator.replicas
        if not replica.reports or now - replica.last_sample > stale_after
    ]
    if not operator.replicas or silent:
        expected = operator.expected
        text = f"{expected - len(silent)} of {expected} replicas report"
        waiting = f", silent: {', '.join(silent)}" if silent else ""
        yield (ProblemKind.PARTIAL, text + waiting)


def _not_a_number(operator: OperatorMeasurement, *, is_source: bool) -> _Found:
    for replica in operator.replicas:
        if not replica.reports:
            continue
        if replica.poisoned:
            series = ", ".join(replica.poisoned)
            yield (ProblemKind.NOT_A_NUMBER, f"{replica.tm_id} reports no number for {series}")
        elif math.isnan(replica.utilisation) and not is_source:
            yield (ProblemKind.NOT_A_NUMBER, f"{replica.tm_id} reports no usable busy time")


def _records_from_nothing(operator: OperatorMeasurement, *, is_source: bool) -> _Found:
    if not is_source and operator.processed_rate == 0 and operator.emitted_rate > 0:
        yield (
            ProblemKind.IMPOSSIBLE,
            f"emits {format_rate(operator.emitted_rate)} but receives nothing",
        )


def _busy_with_nothing(
    operator: OperatorMeasurement, app: AppMeasurement, layout: JobLayout
) -> _Found:
    """Zero input while busy.

    An idle task looks busy for up to `BUSY_TIME_LAG`, so busy time alone is believed only when it
    is longer; in a shorter window somebody else must witness the records: the helper's counters,
    or a feeder of only this operator.
    """
    if layout.is_source(operator.name) or operator.processed_rate != 0:
        return
    flow = layout.flow
    fed = any(
        app.operators[edge.source].emitted_rate > 0 and len(flow.out_of(edge.source)) == 1
        for edge in flow.into(operator.name)
    )
    for replica in operator.replicas:
        served = replica.service_from is ServiceFrom.HELPER and replica.served > 0
        longer = replica.utilisation * replica.span > BUSY_TIME_LAG
        if replica.utilisation > BUSY and (fed or served or longer):
            yield (
                ProblemKind.IMPOSSIBLE,
                f"{replica.tm_id} is {replica.utilisation:.0%} busy but receives no record",
            )


def _out_of_range(operator: OperatorMeasurement) -> _Found:
    maximum = MAX_UTILISATION
    for replica in operator.replicas:
        if replica.utilisation > maximum:
            yield (
                ProblemKind.IMPOSSIBLE,
                f"{replica.tm_id} is {replica.utilisation:.0%} busy, but the maximum is "
                f"{maximum:.0%}",
            )
        for what, value in (
            ("processed rate", replica.processed_rate),
            ("emitted rate", replica.emitted_rate),
            ("utilisation", replica.utilisation),
            ("service time", replica.service_mean),
        ):
            if value < 0:
                yield (
                    ProblemKind.IMPOSSIBLE,
                    f"{replica.tm_id} has a negative {what}, {value:.3g}",
                )
    if operator.backlog < 0:
        yield (ProblemKind.IMPOSSIBLE, f"reports a negative backlog, {operator.backlog:.3g}")


def _backlog_vanishes(operator: OperatorMeasurement, *, is_source: bool) -> _Found:
    """A backlog that falls faster than it can be worked off, which says nothing of the demand."""
    taken, growth = operator.processed_rate, operator.backlog_growth
    known = not math.isnan(taken) and not math.isnan(growth)
    if is_source and known and math.isnan(source_demand(taken, growth, operator.back_pressure)):
        yield (
            ProblemKind.IMPOSSIBLE,
            f"its backlog fell by {format_rate(-growth)} while it read "
            f"{format_rate(taken)}: records were deleted before it read them, offsets "
            "were reset, or the backlog is reported late",
        )


def _garbage_collection(operator: OperatorMeasurement) -> _Found:
    for replica in operator.replicas:
        if replica.gc_share > MAX_GC_SHARE:
            yield (
                ProblemKind.GARBAGE_COLLECTION,
                f"{replica.tm_id} spends {replica.gc_share:.0%} of its time on garbage "
                "collection; give its TaskManagers more memory",
            )


def _source_busy_time(operator: OperatorMeasurement, seconds: float, *, is_source: bool) -> _Found:
    if is_source and falls_behind_idle(operator, seconds):
        busiest = max(operator.utilisation)
        yield (
            ProblemKind.SOURCE_BUSY_TIME,
            f"falls behind by {format_rate(operator.backlog_growth)} while {busiest:.0%} "
            f"busy, so its busy time cannot be right; after {BEHIND_FOR} such intervals, Weir "
            "assumes that a replica cannot read more than it does now",
        )
