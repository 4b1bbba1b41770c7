"""AuTraScale+'s solvers and its baselines, run against the ground truth under contention.

Every measurement counts as a run of the job: a restart, and minutes to settle. Nothing here knows
how the truth is made.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.application_manager.autrascale import event_latency, latency, throughput
from weir_policies.application_manager.autrascale.baselines import (
    allocate,
    double,
    scale_in_proportion,
)
from weir_policies.application_manager.autrascale.policy import choose_bootstrap
from weir_policies.application_manager.autrascale.throughput import (
    ThroughputSearch,
    find_target_throughput,
)
from weir_policies.application_manager.autrascale.values import (
    AutrascaleSettings,
    Parallelism,
    Trained,
    score_benefit,
)
from weir_simulator.contention import ContendedApplication

SETTINGS = AutrascaleSettings()
CAP = 12
"""Rounds of a method that has no end of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Where a search for the processing latency ended."""

    parallelism: Parallelism
    runs: int
    met: bool
    """Whether, without noise, rate and latency are kept, the latency within 5 %."""
    scored: bool = False
    """Whether, without noise, the benefit score reaches its threshold too."""
    seconds: tuple[float, ...] = ()
    """CPU time of each decision."""
    learned: Trained | None = None

    @property
    def replicas(self) -> int:
        """Replicas in all."""
        return sum(self.parallelism)


def search_throughput(
    truth: ContendedApplication, rate: float, start: Parallelism, *, stop_early: bool = True
) -> ThroughputSearch:
    """Run TO, or DS2 where it does not stop early."""
    state = throughput.begin(truth.measure(start, rate), truth.bounds)
    while not state.over:
        state = throughput.advance(
            state,
            truth.measure(state.target, rate),
            truth.bounds,
            cap=CAP,
            stop_early=stop_early,
        )
    return state


def search_latency(
    truth: ContendedApplication,
    rate: float,
    bound: float,
    start: Parallelism,
    *,
    seed: int,
    settings: AutrascaleSettings = SETTINGS,
    old: Trained | None = None,
    bootstrap_runs: bool = True,
) -> Outcome:
    """Run PLO from a parallelism that carries the rate, the bootstrap set run for real."""
    rng = np.random.default_rng([seed, 11])
    measured = truth.measure(start, rate, rng=rng)
    floor = tuple(
        min(pair)
        for pair in zip(throughput.count_needed(measured, truth.bounds), start, strict=True)
    )
    state = latency.begin(
        measured,
        floor,
        truth.bounds,
        bound=bound,
        bootstrap=choose_bootstrap(floor, truth.bounds, settings.uniform) if bootstrap_runs else (),
        old=old,
    )
    seconds = []
    while not state.over:
        seen = truth.measure(state.target, rate, rng=rng)
        began = time.process_time()
        state = latency.advance(state, seen, settings, rng)
        seconds.append(time.process_time() - began)
    judged = judge(truth, rate, bound, state.target, len(state.runs))
    reached = score(truth, rate, bound, state.target, floor, settings)
    return replace(
        judged,
        scored=judged.met and reached >= settings.threshold,
        seconds=tuple(seconds),
        learned=state.summarise(),
    )


def search_by_drs(
    truth: ContendedApplication,
    rate: float,
    bound: float,
    start: Parallelism,
    *,
    true_rates: bool,
    seed: int,
) -> Outcome:
    """Allocate, run, measure, and again, until the measured latency keeps the bound."""
    rng = np.random.default_rng([seed, 12])
    here, runs = start, 0
    while runs < CAP:
        seen = truth.measure(here, rate, rng=rng)
        rates = seen.true_rates if true_rates else tuple(seen.throughput / count for count in here)
        following = allocate(seen.demands, rates, bound=bound, most=truth.bounds)
        if runs > 0 and (seen.latency <= bound or following == here):
            break
        here, runs = following, runs + 1
    return judge(truth, rate, bound, here, runs)


def judge(
    truth: ContendedApplication, rate: float, bound: float, found: Parallelism, runs: int
) -> Outcome:
    """Return what a parallelism is worth by the truth."""
    in_time = truth.find_latency(found, rate) <= 1.05 * bound
    enough = truth.find_throughput(found) >= 0.99 * rate
    return Outcome(parallelism=found, runs=runs, met=in_time and enough)


def score(
    truth: ContendedApplication,
    rate: float,
    bound: float,
    found: Parallelism,
    floor: Parallelism,
    settings: AutrascaleSettings = SETTINGS,
) -> float:
    """Return the benefit score of a parallelism by the truth, without noise, against a floor."""
    return score_benefit(
        found,
        floor,
        latency=truth.find_latency(found, rate),
        latency_bound=bound,
        alpha=settings.alpha,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """A backlog to be worked off."""

    records: float
    age_bound: float
    """L_e, seconds."""
    limit: float
    """T_limit, seconds."""


def boost(
    method: str, truth: ContendedApplication, rate: float, here: Parallelism, case: Backlog
) -> tuple[Parallelism, bool, float]:
    """Return what a method runs for the backlog, whether it does in time, and its longest decision.

    Args:
        method: `autrascale`, `max`, `exponent` or `proportion`.
        truth: The application.
        rate: Records/s that arrive.
        here: pi^p.
        case: The backlog.

    Returns:
        The parallelism; whether what waits has come down to what may; CPU seconds.
    """
    steady = truth.find_latency(here, rate)
    wanted = find_target_throughput(
        rate=rate, lag=case.records, latency=steady, age_bound=case.age_bound, limit=case.limit
    )
    longest = 0.0
    if method == "max":
        found = truth.bounds
    elif method == "proportion":
        reached = truth.find_throughput(here)
        found = scale_in_proportion(here, throughput=reached, wanted=wanted, most=truth.bounds)
    elif method == "exponent":
        found = here
        while truth.find_throughput(found) < wanted and found != truth.bounds:
            found = double(found, truth.bounds)
    else:
        settings = replace(SETTINGS, beta=10e3, margin=0.05)
        rng = np.random.default_rng(13)
        search = event_latency.begin(
            wanted, here, truth.bounds, bootstrap=choose_bootstrap(here, truth.bounds, 6)
        )
        while not search.over:
            reached = truth.find_throughput(search.target)
            began = time.process_time()
            search = event_latency.advance(search, reached, settings, rng)
            longest = max(longest, time.process_time() - began)
        found = search.target
    left = truth.work_off(found, rate, case.records, case.limit)
    return found, left <= rate * max(case.age_bound - steady, 0.0) * 1.001, longest
