"""EDF's Table 1 in a world rebuilt for it: orderings and what the token bucket does, no digits.

Service times and the load's bursts were not published, so the world is calibrated (`edf_world`) and
only shapes are promised: which setting is slower, which restarts more, what the bucket changes.
The paper drops two minutes after each reconfiguration; Q-learning without the bucket restarts so
often that hardly a slot is left then, so what is promised of it is judged on all slots, and both
are in the rows.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 9, Table 1.

The world of EDF's evaluation, rebuilt: its dataflow, its load, its downtime and its bucket.

Service times, the bursts of partialRank and the replicated events were not published. The response
times below are calibrated on the pairs of mean response time and replicas of the paper's Table 1,
the noise on its reconfigurations and the downtime on Q-learning's: its orderings can be reproduced,
its digits cannot. The table comes out best where nothing waits across slots; with `backlog` what
arrives during a reconfiguration, or beyond the capacity, queues at the source and is worked off, as
section 3.3 describes it. Times are milliseconds, rates records/s.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 3.3 and 7 to 9.

EDF's three kinds of operators' managers: thresholds, Q-learning, and full backup.

Thresholds and full backup are the policies `threshold-cheapest` and `full-backup` with one node
type. Q-learning differs from the policy `ql`, which is the later paper's: alpha and epsilon are
constant, and it may learn from what it proposed although that was denied.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 5.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Protocol

import numpy as np
from rich.progress import track

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.papers.departures import Departure
from benchmarks.papers.taas2023 import trace_file
from benchmarks.pictures import Axes, draw_bars, draw_lines
from benchmarks.rows import Row, write_rows
from weir_policies import registry
from weir_policies.application_manager.edf import (
    AdaptationRequest,
    TokenRules,
    Tokens,
    grant,
    prioritise,
    step_of,
)
from weir_policies.kernels.view import Memory, View, empty_view
from weir_policies.model.arrays import Counts, Floats
from weir_policies.operator_manager.full_backup import FullBackupPlan, find_score

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


QUANTUM, LEVELS = 50, 11
GAMMA, ALPHA, EPSILON = 0.99, 0.1, 0.05
SCALE_IN = 0.75
CHANGES = (0, -1, 1)
"""In the order in which the first of equals wins."""

Score = Callable[[int, View, Memory, int], float]
"""How much a change of so many replicas gains an operator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Of the parts of an interval's cost."""

    violation: float
    resources: float
    reconfiguration: float


RESOURCES = Weights(violation=0.4, resources=0.4, reconfiguration=0.2)
RECONFIGURATIONS = Weights(violation=0.4, resources=0.2, reconfiguration=0.4)


class CompiledManagers:
    """A compiled policy for every operator, on one node type."""

    def __init__(
        self, policy: str, parameters: Mapping[str, Any], weights: Weights, score: Score
    ) -> None:
        algorithm = registry.define(policy, parameters)
        if algorithm is None:
            raise TypeError(f"Expected a compiled policy, got {policy}")
        self._algorithm, self._score = algorithm, score
        view = empty_view(operators=len(OPERATORS), node_types=1, max_replicas=int(MOST.max()))
        view.model["max_replicas"] = MOST
        view.speedup[:] = view.price[:] = 1.0
        view.model["top_cost"] = MOST
        view.model["weight_violation"] = weights.violation
        view.model["weight_resources"] = weights.resources
        view.model["weight_reconfiguration"] = weights.reconfiguration
        self._view, self._memory = view, algorithm.prepare(view, 0)
        self._began = False

    def step(self, seen: Seen) -> list[AdaptationRequest]:
        """Let every operator's kernels learn and decide."""
        view, memory = self._view, self._memory
        for o in range(len(OPERATORS)):
            view.before[o] = view.seen[o]
        view.counts_before[:] = view.counts
        view.counts[:, 0] = seen.replicas
        view.seen["rate"], view.seen["busiest"] = seen.rates, seen.busy
        view.seen["time"] = seen.slot * SLOT
        view.cost["violation"] = seen.violated
        requests = []
        for o, name in enumerate(OPERATORS):
            if self._began:
                self._algorithm.learn(o, view, memory)
            self._algorithm.decide(o, view, memory)
            change = int(view.target[o, 0] - view.counts[o, 0])
            if change != 0:
                score = float(self._score(o, view, memory, change))
                requests.append(step_of(name, change, score))
        self._began = True
        return requests


def use_thresholds(threshold: float) -> CompiledManagers:
    """Return managers that go by utilisation."""

    def score(o: int, view: View, memory: Memory, change: int) -> float:
        busy, size, low = view.seen[o].busiest, view.counts[o, 0], SCALE_IN * threshold
        if change > 0:
            return float((busy - threshold) / (1 - threshold))
        return float((low - busy * size / (size - 1)) / low)

    parameters = {"utilisation": threshold, "scale_in_fraction": SCALE_IN}
    return CompiledManagers("threshold-cheapest", parameters, RESOURCES, score)


def use_full_backup(weights: Weights) -> CompiledManagers:
    """Return managers that learn a model and plan with it."""
    parameters = {
        "levels": LEVELS,
        "max_rate": LEVELS * QUANTUM,
        "alpha": ALPHA,
        "gamma": GAMMA,
    }

    def score(o: int, view: View, memory: Memory, change: int) -> float:
        return find_score(o, view, FullBackupPlan(memory[o]), change)

    return CompiledManagers("full-backup", parameters, weights, score)


class QLearningManagers:
    """A table of Q for every operator."""

    def __init__(self, weights: Weights, *, learns_denied: bool, seed: int) -> None:
        """Begin with Q = 0.

        Args:
            weights: Of the cost.
            learns_denied: Whether a denied change is learned as if it were the action of the
                interval, its cost included; else that action was to stay.
            seed: Of the exploration.
        """
        self._weights, self._learns_denied = weights, learns_denied
        self._rng = np.random.default_rng([seed, 1])
        # A change is a column, and -1 is the last.
        self._q = np.zeros((len(OPERATORS), int(MOST.max()) + 1, LEVELS, len(CHANGES)))
        self._most_gain = np.ones(len(OPERATORS))
        self._last: tuple[Counts, Counts, Counts] | None = None

    def step(self, seen: Seen) -> list[AdaptationRequest]:
        """Update Q with what the last interval cost, then choose by epsilon-greedy."""
        levels = np.minimum(seen.rates / QUANTUM + 0.5, LEVELS - 1).astype(np.int64)
        if self._last is not None:
            self._learn(seen, *self._last)
        changes = np.array([self._choose(o, seen.replicas[o], levels[o]) for o in range(MOST.size)])
        self._last = (seen.replicas, levels, changes)
        return [
            step_of(
                OPERATORS[o],
                int(changes[o]),
                self._score(o, self._q[o, seen.replicas[o], levels[o]], int(changes[o])),
            )
            for o in np.flatnonzero(changes).tolist()
        ]

    def values_of(self, operator: str, *, replicas: int, rate: float) -> dict[int, float]:
        """Return Q of every change that is allowed."""
        o = OPERATORS.index(operator)
        values = self._q[o, replicas, min(int(rate / QUANTUM + 0.5), LEVELS - 1)]
        return {change: float(values[change]) for change in list_changes(o, replicas)}

    def _learn(self, seen: Seen, replicas: Counts, before: Counts, proposed: Counts) -> None:
        changes = proposed if self._learns_denied else seen.replicas - replicas
        weights = self._weights
        costs = (
            weights.reconfiguration * (changes != 0)
            + weights.violation * seen.violated
            + weights.resources * seen.replicas / MOST
        )
        for o, cost in enumerate(costs):
            reached = self.values_of(
                OPERATORS[o], replicas=int(seen.replicas[o]), rate=float(seen.rates[o])
            )
            least = min(reached.values())
            place = (o, replicas[o], before[o], changes[o])
            self._q[place] += ALPHA * (cost + GAMMA * least - self._q[place])

    def _choose(self, o: int, replicas: int, level: int) -> int:
        values, valid = self._q[o, replicas, level], list_changes(o, replicas)
        gains = [values[0] - values[change] for change in valid]
        self._most_gain[o] = max(self._most_gain[o], *gains)
        if self._rng.random() < EPSILON:
            return int(self._rng.choice(valid))
        return min(valid, key=lambda change: values[change])

    def _score(self, o: int, values: Floats, change: int) -> float:
        return float((values[0] - values[change]) / self._most_gain[o])


def list_changes(o: int, replicas: int) -> list[int]:
    """Return the changes that an operator's replicas allow."""
    return [change for change in CHANGES if 1 <= replicas + change <= MOST[o]]


ABOUT = "EDF's Table 1: thresholds, Q-learning, full backup, with and without the token bucket"
DURATION = "2 min"

PUBLISHED = Path(__file__).parent / "published" / "edf_table1.csv"
SEEDS = range(10)
WEIGHTS: Mapping[str, Weights] = {"perf=res": RESOURCES, "perf=rcf": RECONFIGURATIONS}
THRESHOLDS = (0.7, 0.6, 0.5, 0.4, 0.3)
ENACTED = "QL enacted"
"""Q-learning that takes a denied change for the decision to stay."""

Key = tuple[str, bool]
"""A setting, and whether the token bucket is used."""
Slots = Literal["settled", "unfiltered"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of Table 1, published or ours; see `edf_world.Measured` and `Outcome`."""

    settled: Measured
    unfiltered: Measured
    downtime: float
    rounds: float
    accepted: float


def list_departures() -> list[Departure]:
    """Return where this is not the paper's experiment, for the page."""
    return [
        Departure(
            what="service times, bursts, replicated events",
            paper="a real application on Storm; not published",
            here="response times calibrated on the means and replicas of the paper's Table 1",
            why="so means prove nothing: only orderings, and the bucket's effect, can fail",
        ),
        Departure(
            what="noise of rates and response times",
            paper="of the real system",
            here=f"lognormal, sigma {NOISE:g}, calibrated on the table's reconfigurations",
            why="not published",
        ),
        Departure(
            what="downtime of a round of reconfigurations",
            paper="measured",
            here=f"{DOWNTIME:g} s, calibrated on Q-learning's",
            why="not published",
        ),
        Departure(
            what="waiting across slots",
            paper="records queue at the source",
            here="none in the first two tables, a backlog in the third",
            why="the table is closest without; with it, most means are farther off",
        ),
        Departure(
            what="slots after a reconfiguration",
            paper="2 min are left out, and the first 30 min",
            here="the 2 min are dropped in the first table, kept in the others; the first 30 min "
            "are kept in all",
            why="otherwise, Q-learning without the bucket would have hardly a slot left",
        ),
        Departure(
            what="load",
            paper="taxi rides of the DEBS 2015 challenge, 5 days of them ten times as fast, 150 to "
            "500 records/s, replicated",
            here=f"{DAYS} days of the taxi trace, ten times as fast, stretched to {LOWEST:g} to "
            f"{HIGHEST:g} records/s",
            why="not published",
        ),
        Departure(what="seeds", paper="not said", here=str(len(SEEDS)), why="the noise is random"),
    ]


def run() -> list[Figure]:
    """Run all settings, write the rows, draw the pictures; return what is promised."""
    published = read_published()
    rates = load_rates()
    keys = [*published, *((f"{ENACTED} {weights}", True) for weights in WEIGHTS)]
    ours = {
        key: average([run_world(make(key[0], seed), rates, bucket=key[1], seed=seed)
                      for seed in SEEDS])
        for key in track(keys, "EDF", transient=True)
    }  # fmt: skip
    queued = {
        key: average([run_world(make(key[0], seed), rates, bucket=key[1], seed=seed, backlog=True)
                      for seed in SEEDS])
        for key in track([*published], "EDF with backlog", transient=True)
    }  # fmt: skip
    write_rows("edf", [*list_rows(ours, published), *list_queued(queued, published)])
    draw(ours, published)
    return [
        *judge_thresholds(ours),
        *judge_thresholds(queued, slots="unfiltered", among=", with backlog"),
        *judge_bucket(ours),
        *judge_learning(ours),
        *judge_backlog(queued),
        *judge_model(ours),
        Figure(
            figure="thresholds and full backup (perf=res): mean response time off the published, "
            "on which the world is calibrated",
            value=max(
                100 * abs(ours[key].settled.mean / line.settled.mean - 1)
                for key, line in published.items()
                if key[0].startswith("TH") or key[0] == "MB perf=res"
            ),
            unit="%",
        ),
    ]


def read_published() -> dict[Key, Line]:
    """Return Table 1; rounds and accepted requests are not in it."""
    lines = {}
    with PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            measured = Measured(
                mean=float(row["mean"]),
                p50=float(row["p50"]),
                p95=float(row["p95"]),
                replicas=float(row["replicas"]),
                violations=float(row["violations"]),
            )
            lines[row["setting"], row["bucket"] == "yes"] = Line(
                settled=measured,
                unfiltered=measured,
                downtime=float(row["downtime"]),
                rounds=np.nan,
                accepted=np.nan,
            )
    return lines


def make(setting: str, seed: int) -> Managers:
    """Return new managers for a setting such as `TH 0.7` or `QL perf=res`."""
    kind, _, detail = setting.rpartition(" ")
    if kind == "TH":
        return use_thresholds(float(detail))
    if kind == "MB":
        return use_full_backup(WEIGHTS[detail])
    return QLearningManagers(WEIGHTS[detail], learns_denied=kind != ENACTED, seed=seed)


def average(outcomes: Sequence[Outcome]) -> Line:
    """Return the means over seeds."""

    def mean(of: Callable[[Outcome], float]) -> float:
        return fmean(of(outcome) for outcome in outcomes)

    return Line(
        settled=_average([each.settled for each in outcomes if each.settled is not None]),
        unfiltered=_average([each.unfiltered for each in outcomes]),
        downtime=mean(lambda each: each.downtime),
        rounds=mean(lambda each: each.rounds),
        accepted=mean(lambda each: each.accepted),
    )


def _average(measured: Sequence[Measured]) -> Measured:
    return Measured(
        mean=fmean(each.mean for each in measured),
        p50=fmean(each.p50 for each in measured),
        p95=fmean(each.p95 for each in measured),
        replicas=fmean(each.replicas for each in measured),
        violations=fmean(each.violations for each in measured),
    )


def list_rows(ours: Mapping[Key, Line], published: Mapping[Key, Line]) -> list[Row]:
    """Return Table 1 beside ours, once as the paper filters and once on all slots."""
    what = "mean / P50 / P95 (ms) / replicas / downtime (%) / violations (%)"
    tables: dict[Slots, str] = {
        "settled": f"Table 1, without 2 min after each reconfiguration: {what}",
        "unfiltered": f"Table 1, ours on all slots: {what}",
    }
    return [
        Row(
            table=table,
            row=f"{setting}, token bucket" if bucket else setting,
            beside=say_line(published[setting, bucket], slots)
            if (setting, bucket) in published
            else "",
            ours=say_line(line, slots),
            holds=None,
            seeds=len(SEEDS),
        )
        for slots, table in tables.items()
        for (setting, bucket), line in ours.items()
    ]


def list_queued(queued: Mapping[Key, Line], published: Mapping[Key, Line]) -> list[Row]:
    """Return Table 1 beside what comes out where records wait for reconfigurations."""
    return [
        Row(
            table="Table 1, ours on all slots, with the backlog of reconfigurations: the same",
            row=f"{setting}, token bucket" if bucket else setting,
            beside=say_line(published[setting, bucket], "unfiltered"),
            ours=say_line(line, "unfiltered"),
            holds=None,
            seeds=len(SEEDS),
        )
        for (setting, bucket), line in queued.items()
    ]


def say_line(line: Line, slots: Slots) -> str:
    """Return a line as the table has it."""
    over: Measured = getattr(line, slots)
    return (
        f"{over.mean:.0f} / {over.p50:.0f} / {over.p95:.0f} / {over.replicas:.2f} / "
        f"{line.downtime:.2f} / {over.violations:.1f}"
    )


def judge_thresholds(
    ours: Mapping[Key, Line], *, slots: Slots = "settled", among: str = ""
) -> list[Figure]:
    """A lower threshold is faster, breaks the bound less and takes more replicas."""
    swept: list[Measured] = [
        getattr(ours[f"TH {threshold}", False], slots) for threshold in THRESHOLDS
    ]
    steps = list(pairwise(swept))
    return [
        at_most(
            figure=f"thresholds 0.7 to 0.3{among}: greatest rise of the mean response "
            "time at a step",
            value=max(after.mean - before.mean for before, after in steps),
            unit="ms",
            limit=0,
        ),
        at_most(
            figure=f"thresholds 0.7 to 0.3{among}: greatest rise of the violations at a step",
            value=max(after.violations - before.violations for before, after in steps),
            unit="points",
            limit=0,
        ),
        at_least(
            figure=f"thresholds 0.7 to 0.3{among}: least rise of the replicas at a step",
            value=min(after.replicas - before.replicas for before, after in steps),
            unit="replicas",
            limit=0,
        ),
    ]


def judge_bucket(ours: Mapping[Key, Line]) -> list[Figure]:
    """The bucket spares reconfigurations, and spares Q-learning its violations."""
    learners = [f"QL {weights}" for weights in WEIGHTS]
    with_bucket = [setting for setting, bucket in ours if bucket and (setting, False) in ours]

    def compare(settings: Sequence[str], of: Callable[[Line], float]) -> float:
        return max(of(ours[each, True]) / of(ours[each, False]) for each in settings)

    return [
        at_most(
            figure="token bucket, all settings: reconfigurations, of those without it",
            value=compare(with_bucket, lambda line: line.rounds),
            unit="",
            limit=1,
        ),
        at_most(
            figure="token bucket, threshold 0.3: downtime, of that without it",
            value=compare(["TH 0.3"], lambda line: line.downtime),
            unit="",
            limit=0.5,
        ),
        at_most(
            figure="token bucket, threshold 0.3: violations, of those without it; published 0.48",
            value=compare(["TH 0.3"], lambda line: line.settled.violations),
            unit="",
            limit=1,
        ),
        at_most(
            figure="token bucket, Q-learning: downtime, of that without it; published 0.14 at most",
            value=compare(learners, lambda line: line.downtime),
            unit="",
            limit=1,
        ),
        at_most(
            figure="token bucket, Q-learning: violations, of those without it, on all slots; "
            "published 0.07 at most",
            value=compare(learners, lambda line: line.unfiltered.violations),
            unit="",
            limit=1,
        ),
        at_most(
            figure="token bucket, Q-learning: P95 of the response time, of that without it, on all "
            "slots; published 0.31 at most",
            value=compare(learners, lambda line: line.unfiltered.p95),
            unit="",
            limit=1,
        ),
        *(
            Figure(
                figure=f"token bucket, {setting} {weights}: requests granted",
                value=ours[f"{setting} {weights}", True].accepted,
                unit="%",
            )
            for setting in ("QL", ENACTED)
            for weights in WEIGHTS
        ),
    ]


def judge_learning(ours: Mapping[Key, Line]) -> list[Figure]:
    """Q-learning is down the most; a learned model spares that, and follows its weights."""
    q_learning = [ours[f"QL {weights}", False].downtime for weights in WEIGHTS]
    others = [
        line.downtime for (setting, bucket), line in ours.items() if bucket or setting[:2] != "QL"
    ]
    models = {weights: ours[f"MB {weights}", False] for weights in WEIGHTS}
    cheap, steady = models["perf=res"], models["perf=rcf"]
    return [
        Figure(
            figure="Q-learning: least downtime, on whose published value the world is calibrated",
            value=min(q_learning),
            unit="%",
        ),
        Figure(figure="Q-learning: greatest downtime, likewise", value=max(q_learning), unit="%"),
        at_least(
            figure="Q-learning: downtime, of the greatest of the others",
            value=min(q_learning) / max(others),
            unit="",
            limit=1,
        ),
        at_most(
            figure="full backup: downtime, of Q-learning's with the same weights",
            value=max(
                model.downtime / ours[f"QL {weights}", False].downtime
                for weights, model in models.items()
            ),
            unit="",
            limit=1 / 3,
        ),
        at_most(
            figure="full backup, perf=rcf: reconfigurations, of those with perf=res",
            value=steady.rounds / cheap.rounds,
            unit="",
            limit=1,
        ),
        at_least(
            figure="full backup, perf=rcf: replicas more than with perf=res; published 1.87",
            value=steady.settled.replicas - cheap.settled.replicas,
            unit="replicas",
            limit=0,
        ),
    ]


def judge_backlog(queued: Mapping[Key, Line]) -> list[Figure]:
    """Where records wait, what the bucket spares in restarts it spares in response time."""
    return [
        at_most(
            figure=f"with backlog, token bucket, QL {weights}: mean response time, of that without",
            value=queued[f"QL {weights}", True].unfiltered.mean
            / queued[f"QL {weights}", False].unfiltered.mean,
            unit="",
            limit=1,
        )
        for weights in WEIGHTS
    ]


def judge_model(ours: Mapping[Key, Line]) -> list[Figure]:
    """The paper's conclusion: with perf=rcf full backup breaks the bound least of all."""
    rivals = [
        line.settled.violations
        for (setting, bucket), line in ours.items()
        if not bucket and not setting.startswith("MB")
    ]
    model = ours["MB perf=rcf", False].settled.violations
    return [
        at_most(
            figure="full backup, perf=rcf: violations more than the fewest of thresholds and "
            "Q-learning, without the bucket; published -7.5",
            value=model - min(rivals),
            unit="points",
            limit=0,
        )
    ]


def draw(ours: Mapping[Key, Line], published: Mapping[Key, Line]) -> None:
    """Draw the sweep of the threshold, and downtime with and without the bucket."""
    sources = {"published": published, "ours": ours}
    draw_lines(
        "edf-thresholds",
        {
            name: (
                np.array(THRESHOLDS),
                np.array([lines[f"TH {each}", False].settled.mean for each in THRESHOLDS]),
            )
            for name, lines in sources.items()
        },
        Axes(
            title="EDF, thresholds: mean response time",
            across="utilisation above which a replica is added",
            up="ms",
        ),
    )
    settings = [setting for setting, bucket in published if bucket]
    draw_bars(
        "edf-token-bucket",
        [setting.replace(" ", "\n") for setting in settings],
        {
            f"{name}, token bucket" if bucket else name: [
                lines[setting, bucket].downtime for setting in settings
            ]
            for name, lines in sources.items()
            for bucket in (False, True)
        },
        Axes(title="EDF: what the token bucket does to the downtime", across="", up="% of time"),
    )
