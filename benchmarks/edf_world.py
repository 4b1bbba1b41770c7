"""The world of EDF's evaluation, rebuilt: its dataflow, its load, its downtime and its bucket.

Service times, the bursts of partialRank and the replicated events were not published. The response
times below are calibrated on the pairs of mean response time and replicas of the paper's Table 1,
the noise on its reconfigurations and the downtime on Q-learning's: its orderings can be reproduced,
its digits cannot. The table comes out best where nothing waits across slots; with `backlog` what
arrives during a reconfiguration, or beyond the capacity, queues at the source and is worked off, as
section 3.3 describes it. Times are milliseconds, rates records/s.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 3.3 and 7 to 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.taas2023 import trace_file
from weir_policies.application_manager.edf import (
    AdaptationRequest,
    TokenRules,
    Tokens,
    grant,
    prioritise,
)
from weir_policies.model.arrays import Counts, Floats

OPERATORS = ("parser", "filter", "route", "count", "partialRank")
SERVICE = np.array([0.5, 0.4, 0.5, 0.6])
"""Milliseconds per record, of all but the last."""
BURST, BURST_LOAD = 1.06, 0.00253
"""partialRank's response time per record/s, ms, and its utilisation per record/s."""
FULL = 0.95
"""Utilisation beyond which the response time grows no more: a slot is too short to show it."""
REST = 8.0
"""Milliseconds in the source, the metronome and the global rank, one replica each."""
REST_REPLICAS = 3
MOST = np.array([3, 3, 3, 3, 6])
BOUNDS = np.array([5.0, 5.0, 5.0, 5.0, 210.0])
"""Milliseconds granted to each operator."""
BOUND = 250.0

SLOT = 30.0
"""Seconds between activations, of operators' managers and of the application's."""
DOWNTIME = 10.0
"""Seconds per round of reconfigurations."""
SUSPENDED = 2
"""Slots without operators' managers after a round."""
WARM_UP, UNSETTLED = 60, 4
"""Slots whose measurements are dropped: half an hour at the start, 2 min after a round."""
NOISE = 0.12
"""Sigma of the lognormal noise of a slot's rate and response time, per operator."""
RULES = TokenRules(low=0.5 * BOUND / 1000, high=0.9 * BOUND / 1000, every=2 * SLOT, size=1)

DAYS, MINUTES_PER_DAY, MINUTES_PER_SLOT = 5, 1440, 5
LOWEST, HIGHEST = 150.0, 500.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What the operators' managers see at one activation; arrays by operator, `(5,)`."""

    slot: int
    replicas: Counts
    rates: Floats
    """Measured, records/s."""
    busy: Floats
    """Utilisation."""
    violated: Floats
    """1 where the operator's bound was missed, else 0."""


class Managers(Protocol):
    """All operators' managers of one kind."""

    def step(self, seen: Seen) -> list[AdaptationRequest]:
        """Learn from what followed the last activation; return what the operators ask for."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What Table 1 tells of a run, over some of its slots."""

    mean: float
    """Of the response time, ms, as the next two."""
    p50: float
    p95: float
    replicas: float
    violations: float
    """% of the slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One run of 12 hours."""

    settled: Measured | None
    """Without the slots that the paper drops; `None` where none is left."""
    unfiltered: Measured
    """With those after a round."""
    downtime: float
    """% of the time."""
    rounds: int
    """Reconfigurations."""
    accepted: float
    """% of the requests that were granted; 100 where there were none."""


def load_rates() -> Floats:
    """Return the source's rate, one per slot of 30 s, records/s `(1440,)`.

    Five days of taxi trips, ten times as fast, stretched to the range that the paper names.
    """
    trips = np.loadtxt(trace_file("taxi"), max_rows=DAYS * MINUTES_PER_DAY)
    slots = trips.reshape(-1, MINUTES_PER_SLOT).mean(axis=1)
    low, high = np.percentile(slots, [1, 99])
    stretched: Floats = LOWEST + (slots - low) * (HIGHEST - LOWEST) / (high - low)
    return stretched.clip(LOWEST, HIGHEST)


def respond(per_replica: Floats) -> tuple[Floats, Floats]:
    """Return response times, ms, and utilisations of the operators; `(5,)` each."""
    busy = per_replica * np.append(SERVICE / 1000, BURST_LOAD)
    work = np.append(SERVICE, BURST * per_replica[-1])
    return work / (1 - np.minimum(busy, FULL)), np.minimum(busy, 1.0)


def work_off(before: float, rate: float, replicas: Counts, gap: float) -> tuple[float, float]:
    """Return the records that wait after a slot, and how long one waited in it on average, s.

    The backlog rises while the job stands still and changes at an even rate afterwards; the mean
    waiting time is its mean over the slot by Little's law, as in `weir_simulator.dynamics`.

    Args:
        before: Records that waited before the slot.
        rate: Records/s that arrive.
        replicas: Of the operators, `(5,)`.
        gap: Seconds at the slot's beginning in which nothing is processed.
    """
    capacity = float((replicas / np.append(SERVICE / 1000, BURST_LOAD)).min())
    working = SLOT - gap
    most = before + rate * gap
    after = max(0.0, most + (rate - capacity) * working)
    emptied = most / (capacity - rate) if capacity > rate else np.inf
    area = gap * (before + most) / 2
    area += emptied * most / 2 if emptied < working else working * (most + after) / 2
    return after, area / (before + rate * SLOT - after)


def run_world(
    managers: Managers, rates: Floats, *, bucket: bool, seed: int, backlog: bool = False
) -> Outcome:
    """Return the outcome of 12 hours.

    Args:
        managers: New ones.
        rates: Of the source, `(t,)`.
        bucket: Whether the token bucket stands between requests and rounds; else all are granted.
        seed: Of the noise.
        backlog: Whether records wait from slot to slot.
    """
    rng = np.random.default_rng(seed)
    noise = np.exp(rng.normal(0, NOISE, (rates.size, 2, len(OPERATORS))))
    replicas, tokens = np.ones(len(OPERATORS), dtype=np.int64), Tokens()
    times, sizes = np.zeros(rates.size), np.zeros(rates.size)
    kept = np.arange(rates.size) >= WARM_UP
    active_from, rounds, asked, given = 0, 0, 0, 0
    waiting, gap = 0.0, 0.0
    for slot, rate in enumerate(rates):
        response_times, busy = respond(rate * noise[slot, 0] / replicas)
        response_times = response_times * noise[slot, 1]
        times[slot], sizes[slot] = response_times.sum() + REST, replicas.sum() + REST_REPLICAS
        if backlog:
            waiting, late = work_off(waiting, rate, replicas, gap)
            times[slot] += 1000 * late
        gap = 0.0
        tokens = tokens.generate(
            RULES, response_time=times[max(slot - 1, 0) : slot + 1].mean() / 1000, now=slot * SLOT
        )
        if slot < active_from:
            continue
        requests = managers.step(
            Seen(
                slot=slot,
                replicas=replicas.copy(),
                rates=rate * noise[slot, 0],
                busy=busy,
                violated=(response_times > BOUNDS).astype(np.float64),
            )
        )
        asked += len(requests)
        if bucket:
            granted, tokens = grant(requests, tokens)
        else:
            granted = prioritise(requests)
        given += len(granted)
        if granted:
            for request in granted:
                replicas[OPERATORS.index(request.operator)] += request.change
            rounds += 1
            gap = DOWNTIME
            active_from = slot + 1 + SUSPENDED
            kept[slot + 1 : slot + 1 + UNSETTLED] = False
    return Outcome(
        settled=measure(times[kept], sizes[kept]) if kept.any() else None,
        unfiltered=measure(times[WARM_UP:], sizes[WARM_UP:]),
        downtime=100 * rounds * DOWNTIME / (rates.size * SLOT),
        rounds=rounds,
        accepted=100 * given / asked if asked else 100.0,
    )


def measure(times: Floats, sizes: Floats) -> Measured:
    """Return what response times, ms, and replicas of slots come to."""
    return Measured(
        mean=float(times.mean()),
        p50=float(np.percentile(times, 50)),
        p95=float(np.percentile(times, 95)),
        replicas=float(sizes.mean()),
        violations=100 * float((times > BOUND).mean()),
    )
