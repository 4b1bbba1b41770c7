"""What bounds every decision, whatever the policy: guards, floors, and a limit on cost. Pure.

A *guard* forbids scaling now. Pauses and blocked periods come from people. In addition, no policy
may reduce speed while the job works off a backlog, or if the measured work would make the target
too busy: a model may be wrong, and a job that was scaled in too far pays with another restart. A
guard may leave one direction allowed. Speed decides the direction of a change, not the number of
replicas: two fast replicas for three slow ones may be either. A move to other places that does not
change the speed (to save money) has neither direction, and every guard forbids it.

*Floors* are the replicas that each operator must have at a time: `minReplicas`, and windows. The
largest counts. One that a window sets holds as soon as a change that is decided now could end after
the window begins, so that its replicas are there when it does. `objective.maxCostPerHour` is
divided among the operators.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

import numpy as np

from weir_operator.loop.directives import Directives, Pause
from weir_operator.loop.proposals import (
    Proposal,
    count_per_pool,
    find_binding,
    find_shortage,
    keep_bounds,
)
from weir_operator.metrics.values import AppMeasurement
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp import world
from weir_operator.streamapp.managers import Allowed, Window
from weir_operator.streamapp.models import StreamApp
from weir_policies.application_manager.cost_cap import CapShares, share_cap
from weir_policies.kernels.bounds import CHEAPER, keep_within
from weir_policies.kernels.wording import format_share
from weir_policies.model.node_types import Deployment, NodeType, speed_of
from weir_policies.model.sharing import predict_utilisation
from weir_policies.policy import Neighbourhood, Observation, OperatorModel
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


_DIRECTION = {Allowed.SCALE_OUT: ScalingDirection.OUT, Allowed.SCALE_IN: ScalingDirection.IN}
"""Which changes a guard allows."""


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


def find_pauses(directives: Directives, now: float, app: AppMeasurement | None) -> Iterator[Guard]:
    """Yield the annotations that pause scaling."""
    for pause in directives.pauses:
        if pause.until is None or now < pause.until:
            reason = _format_pause(pause)
            yield Guard(cause=Cause.PAUSE, name=pause.source, allows=pause.allows, reason=reason)


def find_blocked_periods(
    directives: Directives, now: float, app: AppMeasurement | None
) -> Iterator[Guard]:
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


def find_other_scaler(
    directives: Directives, now: float, app: AppMeasurement | None
) -> Iterator[Guard]:
    """Yield the guard of another autoscaler."""
    if directives.refused:
        reason = directives.refused
        yield Guard(cause=Cause.REFUSED, name="refused", allows=Allowed.NOTHING, reason=reason)


def find_backlog(directives: Directives, now: float, app: AppMeasurement | None) -> Iterator[Guard]:
    """Yield the guard against scaling in while the sources work off a backlog.

    A backlog counts only if it exceeds what the sources take in during one interval: a smaller one
    is gone by the next tick.
    """
    if app is None:
        return
    sources = [app.operators[name] for name in app.sources]
    taken = sum(source.processed_rate for source in sources)
    arriving = sum(source.arrival_rate for source in sources)
    drains = arriving < _WORKED_OFF * taken  # false where either is unknown
    if drains and app.backlog > taken * (app.end - app.start):
        yield WORKING_OFF


GUARDS = (find_pauses, find_blocked_periods, find_other_scaler, find_backlog)
"""All that forbids scaling at a time, in the order in which it is reported."""


def guards_at(
    directives: Directives, now: float, app: AppMeasurement | None = None
) -> tuple[Guard, ...]:
    """Return what forbids scaling at a Unix time, and by what was measured, where that is known."""
    return tuple(guard for find in GUARDS for guard in find(directives, now, app))


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
        if _DIRECTION.get(guard.allows) is not direction:
            return f"Denied: {guard.reason}, and this {direction}"
    return None


def refuse_direction(seen: Observation, target: Deployment, guards: Sequence[Guard]) -> str | None:
    """Return which guard denies an operator's change; `None` where none does."""
    if seen.costs_too_much:  # what is measured forbids nothing that the limit asks
        guards = [each for each in guards if each is not WORKING_OFF]
    return refuse_change(direction_of(seen.deployment, target, seen.model.node_types), guards)


def refuse_overload(seen: Observation, target: Deployment) -> str | None:
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


def refuse_target(seen: Observation, target: Deployment, guards: Sequence[Guard]) -> str | None:
    """Return why an operator may not go to a target, one sentence; `None` where it may."""
    return refuse_direction(seen, target, guards) or refuse_overload(seen, target)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The fewest replicas that an operator must have."""

    replicas: int
    reason: str
    """Who asks for it, and until when, for people."""
    begins: float | None = None
    """Unix seconds; `None` where it holds all the time."""


Floors = Mapping[str, Floor]
"""By operator; those that may have one replica are left out."""


def floors_at(directives: Directives, now: float, *, ahead: float) -> dict[str, Floor]:
    """Return the floors that a decision at a Unix time must keep.

    A change may take `ahead` seconds.
    """
    floors = {
        each.name: Floor(
            replicas=each.min_replicas, reason=f"a floor of {each.min_replicas} by its minReplicas"
        )
        for each in directives.operators
        if each.min_replicas > 1
    }
    for window in directives.windows:
        if not window.min_replicas:
            continue
        period = find_period(window, now)
        if period is None or period.end <= now:  # one that is open comes before the next one
            period = find_period(window, now + ahead)
        if period is None or period.end <= now:
            continue
        for name, count in window.min_replicas.items():
            if count > 1 and (name not in floors or floors[name].replicas < count):
                until = f"until {format_end(window, period.end, now)}"
                if period.begin > now:
                    until = f"from {format_end(window, period.begin, now)} {until}"
                floors[name] = Floor(
                    replicas=count,
                    reason=f"a floor of {count} by the window {window.name} {until}",
                    begins=period.begin,
                )
    return floors


def format_end(window: Window, time: float, now: float) -> str:
    """Return a Unix time on the window's clocks, with its day where that is another than now."""
    zone = ZoneInfo(window.time_zone)
    there, here = datetime.fromtimestamp(time, zone), datetime.fromtimestamp(now, zone)
    pattern = "%H:%M" if there.date() == here.date() else "%Y-%m-%d %H:%M"
    return f"{there.strftime(pattern)} {window.time_zone}"


def keep_all_bounds(
    target: Deployments,
    models: Mapping[str, OperatorModel],
    floors: Floors,
    pool_limits: Mapping[str, int],
    max_prices: Mapping[str, float],
) -> Deployments:
    """Return deployments with what they lack, as far as pools have room and the cost is allowed.

    Args:
        target: Deployments that no policy chose, such as a fallback.
        models: Of each operator that may change.
        floors: What holds now.
        pool_limits: Maximum replicas over all operators, by pool that has a limit.
        max_prices: Maximum currency per hour, by operator that has a limit.
    """
    raised = dict(target)
    for name in models:
        if name not in target:
            continue
        others = count_per_pool(raised[each] for each in raised if each != name)
        types = tuple(
            replace(each, pool_limit=max(pool_limits[each.pool] - others.get(each.pool, 0), 0))
            if each.pool in pool_limits
            else each
            for each in models[name].node_types
        )
        wanted = Deployment.from_named(target[name], types)
        kept = keep_within(
            replace(models[name], node_types=types),
            wanted,
            present=wanted,
            min_replicas=floors[name].replicas if name in floors else 1,
            max_price=max_prices.get(name),
        )
        if kept != wanted:
            raised[name] = kept.named(types)
    return raised


def insist(proposals: Mapping[str, Proposal], guards: Sequence[Guard]) -> dict[str, Proposal]:
    """Return the proposals; one that a guard denies and a floor needs only adds replicas instead.

    A policy may reach a floor with other replicas than those that run, which may be slower.
    """
    kept = dict(proposals)
    for name, proposal in proposals.items():
        seen = proposal.observation
        denied = refuse_target(seen, proposal.decision.target, guards)
        if proposal.is_required and denied is not None:
            kept[name] = keep_bounds(proposal, seen.deployment, {})
    return kept


def refuse_below_floors(target: Deployments, floors: Floors) -> str | None:
    """Return why deployments are denied, one sentence; `None` where they keep all floors."""
    for name, floor in floors.items():
        if name in target and sum(target[name].values()) < floor.replicas:
            return f"Denied: {name} has {floor.reason}"
    return None


def append_limits(
    verdicts: Mapping[str, str],
    proposals: Mapping[str, Proposal],
    *,
    neighbourhoods: Mapping[str, Neighbourhood],
    splits: Mapping[str, float],
    floors: Floors,
    skewed: Mapping[str, str],
) -> dict[str, str]:
    """Return the verdicts, each with what limits its operator.

    That is a bound of the search; a floor that sets the number of replicas, or that pools have no
    room for; and, if the decision does not suffice, why more replicas do not help.

    Args:
        verdicts: By operator; one without a verdict stays.
        proposals: By operator.
        neighbourhoods: How far each operator's policy may move.
        splits: Parts that a source shares among its replicas, by operator; NaN where unknown.
        floors: What the decision had to keep.
        skewed: What can be done about uneven keys, one sentence, by operator that has them.
    """
    extended = dict(verdicts)
    for name, proposal in proposals.items():
        limits = ""
        binding = find_binding(proposal, neighbourhoods[name], splits.get(name, math.nan))
        if binding:
            limits += f"; {binding}"
        floor, size = floors.get(name), proposal.decision.target.size
        if floor is not None and size <= floor.replicas:
            missed = "" if size == floor.replicas else f", of which {size} find room"
            limits += f"; it has {floor.reason}{missed}"
        if name in skewed and find_shortage(proposal):
            limits += f". {skewed[name]}"
        if limits:
            extended[name] = extended.get(name, "Stays") + limits
    return extended


def describe_missed(deployments: Deployments, floors: Floors, now: float) -> str:
    """Return which operators have fewer replicas than they must by now, a sentence, or nothing."""
    missed = []
    for name, floor in floors.items():
        size = sum(deployments.get(name, {}).values())
        if size < floor.replicas and (floor.begins is None or floor.begins <= now):
            noun = "replica" if size == 1 else "replicas"
            missed.append(f"{name} has {size} {noun}, and {floor.reason}")
    return "; ".join(missed)


def prices(app: StreamApp) -> dict[str, float]:
    """Return the currency per replica and hour of every node type."""
    return {
        each.name: each.price
        for name in world.operator_names(app)
        for each in world.node_types(app, name)
    }


def cost_per_hour(
    deployments: Deployments, prices: Mapping[str, float], *, job_manager: float
) -> float:
    """Return the currency per hour of all replicas and the JobManager.

    `prices` has the currency per replica and hour by node type, `job_manager` is the JobManager's.
    A replica of a node type that the manifest has no more costs nothing that is known: it is left
    out until the next change has ended it.
    """
    replicas = sum(
        count * prices.get(node_type, 0.0)
        for counts in deployments.values()
        for node_type, count in counts.items()
    )
    return job_manager + replicas


class CostCap:
    """Keeps a StreamApp within `objective.maxCostPerHour`."""

    def __init__(
        self, limit: float | None, *, prices: Mapping[str, float], job_manager: float
    ) -> None:
        """Create it for a limit in currency per hour, everything included; `None` is none."""
        self._limit = limit
        self._prices = dict(prices)
        self._job_manager = job_manager
        self._shares: CapShares | None = None

    def limit_observations(
        self, seen: Mapping[str, Observation], fixed: Collection[str]
    ) -> dict[str, Observation]:
        """Return what operators know, with what each may cost; they share what `fixed` leave."""
        scaled = {name: each for name, each in seen.items() if name not in fixed}
        if self._limit is None or not scaled:
            return dict(seen)
        deployed = {
            name: seen[name].deployment.named(seen[name].model.node_types) for name in fixed
        }
        self._shares = share_cap(
            {name: each.model for name, each in scaled.items()},
            budgets={name: each.budget for name, each in scaled.items()},
            rates={
                name: each.rate if math.isnan(each.offered_rate) else each.offered_rate
                for name, each in scaled.items()
            },
            floors={name: each.min_replicas for name, each in scaled.items()},
            money=self._limit - self.cost_of(deployed),
            before=self._shares,
        )
        limits = self._shares.prices
        return {
            name: replace(each, max_price=limits[name]) if name in limits else each
            for name, each in seen.items()
        }

    def find_limits(
        self, current: Deployments, models: Mapping[str, OperatorModel], floors: Floors
    ) -> Mapping[str, float]:
        """Return what each operator may cost where nothing is measured, by name."""
        if self._limit is None or not models:
            return {}
        if self._shares is None or self._shares.prices.keys() != models.keys():
            self._shares = share_cap(
                models,
                budgets={},
                rates={},
                floors={name: floor.replicas for name, floor in floors.items()},
                money=self._limit
                - self.cost_of(
                    {name: each for name, each in current.items() if name not in models}
                ),
            )
        return self._shares.prices

    def cost_of(self, deployments: Deployments) -> float:
        """Return the currency per hour of deployments and the JobManager."""
        return cost_per_hour(deployments, self._prices, job_manager=self._job_manager)

    def refuse(self, target: Deployments, current: Deployments) -> str | None:
        """Return why a change costs too much, one sentence; `None` where it does not."""
        if self._limit is None:  # the cost of all operators would be added up for each of them
            return None
        cost = self.cost_of(target)
        if cost <= max(self._limit * CHEAPER, self.cost_of(current)):
            return None
        return (
            f"Denied: the StreamApp would cost {cost:.4g} per hour, and objective.maxCostPerHour"
            f" is {self._limit:.4g}"
        )

    def describe(
        self, seen: Mapping[str, Observation], short: Collection[str], floors: Floors
    ) -> str:
        """Return what the limit does not pay for, one sentence; empty where it pays for all."""
        if self._limit is None or self._shares is None:
            return ""
        limit = f"objective.maxCostPerHour = {self._limit:.4g}"
        if not self._shares.is_enough:
            return f"{limit} does not pay for one replica of each operator"
        missed = [
            f"{name} has {floor.reason}"
            for name, floor in floors.items()
            if name in seen and not _pays_for(seen[name], floor.replicas)
        ]
        if missed:
            return f"{limit} does not pay for all floors: {'; '.join(missed)}"
        return f"{limit} does not pay for what {', '.join(short)} would need" if short else ""


def _pays_for(observation: Observation, replicas: int) -> bool:
    """Return whether an operator may cost what a floor costs at least, where its pools have room.

    Replicas that no pool holds cost nothing: it is not the limit that keeps them back.
    """
    if observation.max_price is None:
        return True
    cost, lacking, room = 0.0, replicas, dict[str, int]()
    for each in sorted(observation.model.node_types, key=lambda each: each.price):
        held = replicas if each.pool_limit is None else each.pool_limit
        count = min(lacking, room.setdefault(each.pool, held))
        room[each.pool] -= count
        cost, lacking = cost + count * each.price, lacking - count
    return cost <= observation.max_price * CHEAPER
