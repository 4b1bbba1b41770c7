"""AuTraScale+'s policy controller: which solver runs, and what the application runs meanwhile.

    throughput below the rate                          -> TO
    latency above its bound, or benefit score too low  -> PLO (once the throughput is enough)
    age above its bound                                -> ELO: boost, then back

All is a value: a state, and a function that takes the next settled measurement in. What cannot be
measured on the running job without a restart (the bootstrap set, the throughput profile) comes from
a `Profile`, which is a fitted model in the live world.

Source: Zhang et al., IEEE TPDS 2024, sections II-B and IV-A, Figs. 3 and 6. Departures:
1. Where the throughput is enough, pi^t is computed by Eq. 3 and not run: TO would end there.
2. A search that found nothing good enough is not begun again until the rate has changed.
3. A boost ends as soon as the age keeps its bound; the paper waits for the end of the time allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from weir_policies.application_manager.autrascale import event_latency, latency, throughput
from weir_policies.application_manager.autrascale.backlog import find_target_throughput
from weir_policies.application_manager.autrascale.benefit import score_benefit
from weir_policies.application_manager.autrascale.bootstrap import choose_bootstrap
from weir_policies.application_manager.autrascale.latency import LatencySearch
from weir_policies.application_manager.autrascale.settings import AutrascaleSettings, Transfer
from weir_policies.application_manager.autrascale.throughput import ThroughputSearch
from weir_policies.application_manager.autrascale.transfer import (
    find_nearest,
    is_same_rate,
    remember,
)
from weir_policies.application_manager.autrascale.values import (
    Measurement,
    Parallelism,
    Sample,
    Trained,
)

SHORTEST_BOOST = 1.0
"""Seconds that are left of the time allowed at least, however long the restarts take."""


class Profile(Protocol):
    """What an application would do on a parallelism that it does not run."""

    def latency(self, parallelism: Parallelism) -> float:
        """Return its processing latency at the present rate, seconds; may be `inf`."""
        ...

    def throughput(self, parallelism: Parallelism) -> float:
        """Return what it gets through against more input than it takes, records/s."""
        ...


class Phase(StrEnum):
    """What the controller is about."""

    STEADY = "steady"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    BOOST = "boost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to run, why, and everything that was learned on the way."""

    target: Parallelism
    reason: str
    """One sentence for people."""
    phase: Phase = Phase.STEADY
    throughput: ThroughputSearch | None = None
    latency: LatencySearch | None = None
    models: tuple[Trained, ...] = ()
    """By rate, the newest last."""
    settled_rate: float | None = None
    """Rate at which the last search ended, records/s; `None` before the first."""
    back: Parallelism | None = None
    """Where a boost goes back to, pi^p."""
    until: float | None = None
    """When a boost ends at the latest, seconds on the caller's clock."""


def begin(measured: Measurement) -> Plan:
    """Begin with what runs."""
    return Plan(target=measured.parallelism, reason="Stays: nothing is known yet")


def advance(
    plan: Plan,
    measured: Measurement,
    most: Parallelism,
    *,
    bound: float,
    now: float,
    settings: AutrascaleSettings,
    profile: Profile,
    rng: np.random.Generator,
) -> Plan:
    """Take a settled measurement of the target in, and say what to run next.

    Args:
        plan: Where things stand; its target is what was measured.
        measured: What it did.
        most: P_max of every operator.
        bound: L_p, seconds.
        now: Seconds on the caller's clock.
        settings: The settings.
        profile: What other parallelisms would do.
        rng: Draws candidates.
    """
    if plan.phase is Phase.BOOST and plan.back is not None and plan.until is not None:
        return _watch_boost(plan, measured, now, settings)
    if plan.phase is Phase.THROUGHPUT and plan.throughput is not None:
        search = throughput.advance(plan.throughput, measured, most, cap=settings.runs)
        if not search.over:
            return replace(
                plan, throughput=search, target=search.target, reason=_say_short(measured)
            )
        if search.limited:
            reason = "Stays at what got most through: more replicas bring no more throughput"
            return _settle(plan, search.target, measured.rate, reason)
        plan = replace(plan, phase=Phase.STEADY, throughput=None)
    if plan.phase is Phase.LATENCY and plan.latency is not None:
        return _search_on(plan, plan.latency, measured, settings, rng)
    return _judge(plan, measured, most, bound, now, settings, profile, rng)


def _judge(
    plan: Plan,
    measured: Measurement,
    most: Parallelism,
    bound: float,
    now: float,
    settings: AutrascaleSettings,
    profile: Profile,
    rng: np.random.Generator,
) -> Plan:
    """Return what a steady application needs: the Scaling Manager's trigger."""
    searched = plan.settled_rate is not None and is_same_rate(plan.settled_rate, measured.rate)
    if not measured.keeps_up and not searched:
        to = throughput.begin(measured, most)
        if to.target != measured.parallelism:
            return replace(
                plan,
                phase=Phase.THROUGHPUT,
                throughput=to,
                target=to.target,
                reason=_say_short(measured),
            )
    # Where the throughput is enough, no operator needs more than it has.
    needed = throughput.count_needed(measured, most)
    floor = tuple(min(pair) for pair in zip(needed, measured.parallelism, strict=True))
    score = score_benefit(
        measured.parallelism,
        floor,
        latency=measured.latency,
        latency_bound=bound,
        alpha=settings.alpha,
    )
    late = measured.latency > bound
    if (late or score < settings.threshold) and not searched and measured.keeps_up:
        search = _begin_latency(plan, measured, floor, most, bound, settings, profile)
        return _search_on(plan, search, measured, settings, rng)
    too_old = settings.event_time is not None and measured.age > settings.event_time
    if too_old and not late:
        return _boost(plan, measured, most, now, settings, profile, rng)
    reason = (
        f"Stays: latency {measured.latency * 1000:.3g} ms of {bound * 1000:.3g} ms, benefit score "
        f"{score:.3f}"
    )
    return replace(plan, target=measured.parallelism, phase=Phase.STEADY, reason=reason)


def _begin_latency(
    plan: Plan,
    measured: Measurement,
    floor: Parallelism,
    most: Parallelism,
    bound: float,
    settings: AutrascaleSettings,
    profile: Profile,
) -> LatencySearch:
    bootstrap = choose_bootstrap(floor, most, settings.uniform)
    old = None if settings.transfer is Transfer.NONE else find_nearest(plan.models, measured.rate)
    estimates = tuple(
        Sample(
            parallelism=each,
            score=score_benefit(
                each,
                floor,
                latency=profile.latency(each),
                latency_bound=bound,
                alpha=settings.alpha,
            ),
        )
        for each in bootstrap
    )
    return latency.begin(
        measured, floor, most, bound=bound, bootstrap=bootstrap, estimates=estimates, old=old
    )


def _search_on(
    plan: Plan,
    search: LatencySearch,
    measured: Measurement,
    settings: AutrascaleSettings,
    rng: np.random.Generator,
) -> Plan:
    """Take a measurement into a latency search; what it learned outlives it."""
    search = latency.advance(search, measured, settings, rng)
    if not search.over:
        reason = (
            f"Tries what its model expects most of, after {len(search.runs)} runs at this rate: "
            f"latency {measured.latency * 1000:.3g} ms of {search.bound * 1000:.3g} ms"
        )
        return replace(
            plan, phase=Phase.LATENCY, latency=search, target=search.target, reason=reason
        )
    plan = replace(plan, models=remember(plan.models, search.summarise()))
    ending = "keeps latency and rate" if search.met else "is the best that was found"
    reason = f"Stays after {len(search.runs)} runs at this rate: the parallelism {ending}"
    return _settle(plan, search.target, measured.rate, reason)


def _settle(plan: Plan, target: Parallelism, rate: float, reason: str) -> Plan:
    return replace(
        plan,
        phase=Phase.STEADY,
        target=target,
        reason=reason,
        throughput=None,
        latency=None,
        settled_rate=rate,
    )


def _boost(
    plan: Plan,
    measured: Measurement,
    most: Parallelism,
    now: float,
    settings: AutrascaleSettings,
    profile: Profile,
    rng: np.random.Generator,
) -> Plan:
    """Find what works the backlog off in time, on the profile, and go there."""
    allowed = max(settings.catch_up - settings.gap, SHORTEST_BOOST)
    wanted = find_target_throughput(
        rate=measured.rate,
        lag=measured.lag,
        latency=measured.latency,
        age_bound=settings.event_time or 0.0,
        limit=allowed,
    )
    here = tuple(min(pair) for pair in zip(measured.parallelism, most, strict=True))
    search = event_latency.begin(
        wanted, here, most, bootstrap=choose_bootstrap(here, most, settings.uniform)
    )
    while not search.over:  # ends: `event_latency` is capped by `settings.runs`
        found = profile.throughput(search.target)
        search = event_latency.advance(search, found, settings, rng)
    aim = f"works {measured.lag:,.0f} waiting records off at {wanted:,.0f} records/s"
    if search.target == measured.parallelism:
        reason = f"Stays: nothing {aim}" if search.late else f"Stays: the parallelism {aim}"
        return replace(plan, target=search.target, reason=reason)
    late = ", later than allowed: nothing is faster" if search.late else ""
    return replace(
        plan,
        phase=Phase.BOOST,
        target=search.target,
        back=measured.parallelism,
        until=now + allowed,
        reason=f"Goes up for at most {allowed:.0f} s, which {aim}{late}",
    )


def _watch_boost(
    plan: Plan, measured: Measurement, now: float, settings: AutrascaleSettings
) -> Plan:
    in_time = settings.event_time is None or measured.age <= settings.event_time
    ended = plan.until is None or now >= plan.until
    if plan.back is None or not (in_time or ended):
        return plan
    why = "the backlog is worked off" if in_time else "the time allowed is over"
    return replace(
        plan,
        phase=Phase.STEADY,
        target=plan.back,
        back=None,
        until=None,
        reason=f"Goes back to what it had before the boost: {why}",
    )


def _say_short(measured: Measurement) -> str:
    return (
        f"Goes to what the true rates ask for: {measured.throughput:,.0f} of {measured.rate:,.0f} "
        "records/s get through"
    )
