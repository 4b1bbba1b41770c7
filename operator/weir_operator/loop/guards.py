"""What forbids scaling now: people, and measurements that contradict a policy. Pure.

Pauses and blocked periods come from people. In addition, no policy may reduce speed while the job
works off a backlog, or if the measured work would make the target too busy: a model may be wrong,
and a job that was scaled in too far pays with another restart.

A guard may leave one direction allowed. Speed decides the direction of a change, not the number of
replicas: two fast replicas for three slow ones may be either. A move to other places that does not
change the speed (to save money) has neither direction, and every guard forbids it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

import numpy as np

from weir_operator.loop.directives import Directives, Pause
from weir_operator.metrics.values import AppMeasurement
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.managers import Allowed, Window
from weir_policies.kernels.wording import format_share
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment, NodeType, speed_of
from weir_policies.model.sharing import predict_utilisation
from weir_policies.policy import Observation, OperatorModel
from weir_simulator.schedules import UTC, Period, find_last_period

_SAME_SPEED = 1e-9
"""Relative difference below which two deployments are equally fast."""
_WORKED_OFF = 0.9
"""Part of what the sources take in below which so much less arrives that a backlog is worked off,
rather than that samples scatter."""


class Cause(StrEnum):
    """Who forbids."""

    PAUSE = "Pause"
    WINDOW = "Window"
    REFUSED = "Refused"
    """Scaling would be wrong here, whatever the manifest says."""


class ScalingDirection(StrEnum):
    """What a change does to an operator's speed."""

    OUT = "scales out"
    IN = "scales in"
    ACROSS = "does not change the speed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """Something that forbids changes now, wholly or but for one direction."""

    cause: Cause
    name: str
    """The annotation, or the blocked period's name."""
    allows: Allowed
    reason: str
    """A clause for people, without a full stop."""


WORKING_OFF = Guard(
    cause=Cause.REFUSED,
    name="backlog",
    allows=Allowed.SCALE_OUT,
    reason="the job is working off a backlog, which allows only scaling out",
)


def find_pauses(directives: Directives, now: float) -> Iterator[Guard]:
    """Yield the annotations that pause scaling."""
    for pause in directives.pauses:
        if pause.until is None or now < pause.until:
            reason = _format_pause(pause)
            yield Guard(cause=Cause.PAUSE, name=pause.source, allows=pause.allows, reason=reason)


def find_blocked_periods(directives: Directives, now: float) -> Iterator[Guard]:
    """Yield the blocked periods that are open."""
    for window in directives.windows:
        blocks = window.allows is not Allowed.EVERYTHING
        period = find_period(window, now) if blocks else None
        if period is not None and now < period.end:
            reason = (
                f"the blocked period {window.name!r} lasts until "
                f"{_format_time(period.end, window.time_zone)} and "
                f"allows {_format_allowed(window.allows)}"
            )
            yield Guard(cause=Cause.WINDOW, name=window.name, allows=window.allows, reason=reason)


def find_other_scaler(directives: Directives, now: float) -> Iterator[Guard]:
    """Yield that somebody else scales the job."""
    if directives.refused:
        reason = directives.refused
        yield Guard(cause=Cause.REFUSED, name="refused", allows=Allowed.NOTHING, reason=reason)


GUARDS = (find_pauses, find_blocked_periods, find_other_scaler)
"""All that the manifest and its surroundings forbid, in the order in which it is reported."""


def guards_at(directives: Directives, now: float) -> tuple[Guard, ...]:
    """Return what forbids scaling at a Unix time."""
    return tuple(guard for find in GUARDS for guard in find(directives, now))


def guards_while_draining(app: AppMeasurement, flow: Dataflow) -> tuple[Guard, ...]:
    """Return what forbids scaling in while the sources' backlog is worked off.

    It counts as one from what an interval takes in: what is gone by the next tick, a restart to
    save money need not wait for.
    """
    sources = [app.operators[name] for name in flow.sources]
    taken = sum(source.processed_rate for source in sources)
    arriving = sum(source.arrival_rate for source in sources)
    drains = arriving < _WORKED_OFF * taken  # false where either is unknown
    if not drains or not app.backlog > taken * (app.end - app.start):
        return ()
    return (WORKING_OFF,)


def find_period(window: Window, until: float) -> Period | None:
    """Return the last period of a window that begins by a Unix time; `None` where none does."""
    return find_last_period(window.schedule, window.time_zone, window.duration.seconds, until)


def direction_of(
    current: Deployment, target: Deployment, node_types: Sequence[NodeType]
) -> ScalingDirection:
    """Return what going from `current` to `target` does to the operator's speed."""
    before, after = speed_of(current, node_types), speed_of(target, node_types)
    if math.isclose(before, after, rel_tol=_SAME_SPEED):
        return ScalingDirection.ACROSS
    return ScalingDirection.OUT if after > before else ScalingDirection.IN


def refuse_change(direction: ScalingDirection, guards: Sequence[Guard]) -> str | None:
    """Return why a change in this direction is denied, one sentence; `None` where it is not."""
    for guard in guards:
        if not _allows(guard.allows, direction):
            return f"Denied: {guard.reason}, and this {direction}"
    return None


def refuse_direction(seen: Observation, target: Deployment, guards: Sequence[Guard]) -> str | None:
    """Return which guard denies an operator's change; `None` where none does."""
    if seen.costs_too_much:  # what is measured forbids nothing that the limit asks
        guards = [each for each in guards if each is not WORKING_OFF]
    return refuse_change(direction_of(seen.deployment, target, seen.model.node_types), guards)


def refuse_overload(seen: Observation, target: Deployment, guards: Sequence[Guard]) -> str | None:
    """Return why the measured work does not fit into a slower target; `None` where it does."""
    model = seen.model
    if seen.costs_too_much:
        return None
    if direction_of(seen.deployment, target, model.node_types) is not ScalingDirection.IN:
        return None
    speeds = [
        node_type.speedup
        for node_type, count in zip(model.node_types, seen.deployment, strict=True)
        for _ in range(count)
    ]
    # What was not measured counts as no work: the rest alone may be too much.
    work = sum(
        min(busy, 1.0) * speed
        for busy, speed in zip(seen.utilisation, speeds, strict=False)
        if not math.isnan(busy)
    )
    # Seconds of work a second, shared as the records are: at unit service time they are its rate.
    unit = replace(model, service_mean=1.0)
    needed = float(predict_utilisation(unit, np.array([target.counts]), work)[0])
    if needed <= 1:
        return None
    return (
        f"Denied: at the measured utilisation of {format_share(work / sum(speeds))}, "
        f"the target would be {format_share(needed)} busy, regardless of the "
        "prediction"
    )


REFUSALS = (refuse_direction, refuse_overload)
"""All that may deny what an operator wants; the first that does gives the reason."""


def refuse_target(seen: Observation, target: Deployment, guards: Sequence[Guard]) -> str | None:
    """Return why an operator may not go to a target, one sentence; `None` where it may."""
    found = (refuse(seen, target, guards) for refuse in REFUSALS)
    return next((refusal for refusal in found if refusal is not None), None)


def refuse_move(
    current: Deployments,
    target: Deployments,
    models: Mapping[str, OperatorModel],
    guards: Sequence[Guard],
    observations: Mapping[str, Observation] | None = None,
) -> str | None:
    """Return why going from deployments to deployments is denied; `None` where it is not."""
    for name, model in models.items():
        before = Deployment.from_named(current.get(name, {}), model.node_types)
        after = Deployment.from_named(target.get(name, {}), model.node_types)
        if before == after:
            continue
        seen = (observations or {}).get(name)
        refusal = (
            refuse_change(direction_of(before, after, model.node_types), guards)
            if seen is None
            else refuse_target(seen, after, guards)
        )
        if refusal is not None:
            return refusal
    return None


def _allows(allowed: Allowed, direction: ScalingDirection) -> bool:
    return (allowed, direction) in {
        (Allowed.SCALE_OUT, ScalingDirection.OUT),
        (Allowed.SCALE_IN, ScalingDirection.IN),
    }


def _format_pause(pause: Pause) -> str:
    until = "" if pause.until is None else f" until {_format_time(pause.until)}"
    remark = f" ({pause.remark})" if pause.remark else ""
    return f"{pause.source} is set{until}{remark} and allows {_format_allowed(pause.allows)}"


def _format_allowed(allowed: Allowed) -> str:
    return {
        Allowed.NOTHING: "no scaling",
        Allowed.SCALE_OUT: "only scaling out",
        Allowed.SCALE_IN: "only scaling in",
        Allowed.EVERYTHING: "all scaling",
    }[allowed]


def _format_time(time: float, zone: str = UTC) -> str:
    return f"{datetime.fromtimestamp(time, ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone}"
