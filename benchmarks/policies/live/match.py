"""Weir out of the box against Flink's own autoscaler, on jobs and arrivals that neither has seen.

Three jobs: `trips`; `hotitems`, Nexmark's query 5 with its windows in RocksDB; and `calls`, which
is `trips` with an operator that waits for a slow external service. What burns CPU does so under
cgroup quotas. Three traces, from cold, with one replica of each operator. A pair is a job, a trace
and a repeat, with equal arrivals for both sides. `LIVE_FORM` chooses Weir's:

- `pools`: `weir local` with the default policy and no settings. Its replicas are started when it
  asks for them.
- `in-place`: the job runs as it does for the autoscaler, on the same adaptive scheduler and
  TaskManagers, and Weir sets the parallelism of its vertices: no pools, no agent.

Flink's autoscaler is as published, beside the adaptive scheduler of the same Flink, with all its
defaults. It begins to scale when its first window of metrics is full, as it does anywhere. As many
TaskManagers as Weir's pool may have run from the beginning on, under the same quotas, so it never
waits for a process. Its runs serve both forms.

Time passes `FASTER` times faster for both. Both are judged by the records at a plain sink
(`judging.py`), also while the job is changed. Cost counts what is requested: of Weir with pools,
every TaskManager that lives, even one that does not serve yet or any more; in place and of the
autoscaler, only the slots that Flink is asked for, as if the others cost nothing; the JobManager on
both sides, and on neither the process that decides.

Which side runs first changes from pair to pair. A call makes the runs that are missing, of at most
`LIVE_PAIRS` pairs: every pair once before any is repeated. A run beside which other processes used
more than `MAX_OTHERS` of the processors' time is made again. `benchmarks/results/live` keeps the
runs of one policy, which begins with the first of them: another one is refused there.

`LIVE_SERIES=development` runs other jobs and traces, for whoever changes a policy. Its runs and
their figures are kept in `build/benchmarks/live-development`, and are never reported.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import TypeVar

from benchmarks.figures import Figure, no_records
from benchmarks.flink.flink_autoscaler import build_autoscaler
from benchmarks.policies.live.jobs import (
    APPS,
    DEVELOPMENT,
    DEVELOPMENT_TRACES,
    INTERVAL,
    TRACES,
    App,
    make_rates,
    price_of,
)
from benchmarks.policies.live.judging import Compared, difference, ratio
from benchmarks.policies.live.processors import account
from benchmarks.policies.live.series import (
    chosen,
    max_pairs,
    require_one_policy,
    run_on_a_quiet_machine,
)
from benchmarks.policies.live.sides import judge_run, prepare, run_in_place, run_weir
from benchmarks.results import (
    BUILD,
    begin,
    load_outcomes,
    measured_trees,
    store_outcome,
)
from benchmarks.results import FOLDER as RESULTS
from weir_operator.cluster.process.process import compile_default_policy
from weir_operator.flink.jars import build_example
from weir_operator.loop.run_recorder import read_ledger

WEIR, IN_PLACE, AUTOSCALER = "Weir", "Weir in place", "Flink's autoscaler"
SIDES = (WEIR, IN_PLACE, AUTOSCALER)
FORMS = {"pools": WEIR, "in-place": IN_PLACE}
REPEATS = 3
SECONDS = 300
VIOLATIONS, COST = 0.5, 1.0
"""Goals: at most so much of the autoscaler's."""
LATER_VIOLATIONS, LATER_COST = 1.0, 0.95
"""Goals of the second halves: at most so many points more, and so much of its cost."""
RESTARTS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Pairs that belong together."""

    folder: Path
    """Where the outcomes are kept."""
    apps: Mapping[str, App]
    traces: Sequence[str]
    repeats: int


SERIES: Mapping[str, Series] = {
    "judged": Series(folder=RESULTS / "live", apps=APPS, traces=TRACES, repeats=REPEATS),
    "development": Series(
        folder=BUILD / "live-development" / "outcomes",
        apps=DEVELOPMENT,
        traces=DEVELOPMENT_TRACES,
        repeats=1,
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchOutcome:
    """What came of a run of one side."""

    job: str
    trace: str
    repeat: int
    side: str
    date: str
    commit: str | None
    trees: Mapping[str, str]
    """Git's, of the code that ran."""
    load: float
    """Processes that wanted the machine's processors, mean over the last five minutes: mostly the
    run's own."""
    used: float
    """Share of the processors' time that the run used."""
    others: float
    """That of other processes meanwhile."""
    late: Sequence[bool]
    """Of each interval, whether its mean response time was over the bound."""
    replicas: Sequence[float]
    """Of each interval, those requested on average, source and sink included."""
    restarts: int
    doubled: int
    """Records, or results of windows, that a plain sink got again."""
    missing: int
    """Those that it did not get, although it got a later one."""
    wrong: int | None
    """Records lost or doubled by the job's own state; `None` where it keeps no ledger, or did not
    stop in order."""

    @property
    def pair(self) -> tuple[str, str, int]:
        return self.job, self.trace, self.repeat

    def violations(self, *, later: bool = False) -> float:
        """Return the share of all intervals that were late, or of the second half's, in [0, 1]."""
        return statistics.fmean(_part(self.late, later=later))

    def cost(self, *, later: bool = False) -> float:
        """Return the currency per hour, or that of the second half."""
        return price_of(statistics.fmean(_part(self.replicas, later=later)))


Value = TypeVar("Value")


def _part(values: Sequence[Value], *, later: bool) -> Sequence[Value]:
    return values[len(values) // 2 :] if later else values


def run() -> list[Figure]:
    """Make the runs that are missing; return the figures of all."""
    series, ours = SERIES[chosen("LIVE_SERIES", SERIES)], FORMS[chosen("LIVE_FORM", FORMS)]
    kept = load_outcomes(series.folder, MatchOutcome)
    if series is SERIES["judged"]:
        require_one_policy(kept)
    pairs = list(islice(missing_pairs(series, ours, kept), max_pairs()))
    autoscaler = build_autoscaler()
    compile_default_policy()  # as a controller that is installed has
    for app in series.apps.values():
        build_example(app.example)
    for (job, trace, repeat), sides in pairs:
        for side in sides:
            outcome = run_on_a_quiet_machine(
                partial(run_side, side, series.apps[job], trace, repeat, autoscaler=autoscaler)
            )
            path = series.folder / f"{job}-{trace}-{repeat}-{SIDES.index(side)}.json"
            store_outcome(path, asdict(outcome))
    return list(figures_of(load_outcomes(series.folder, MatchOutcome), ours))


def result_path() -> Path:
    """Return where the figures are kept: each form has its own."""
    name = f"live-match-{chosen('LIVE_FORM', FORMS)}.json"
    if chosen("LIVE_SERIES", SERIES) == "judged":
        return RESULTS / name
    return BUILD / "live-development" / name


def missing_pairs(
    series: Series, ours: str, kept: Sequence[MatchOutcome]
) -> Iterator[tuple[tuple[str, str, int], list[str]]]:
    """Yield each pair that lacks a run, with the sides that lack it in the order to run them."""
    done = {(*each.pair, each.side) for each in kept}
    pairs = product(range(1, series.repeats + 1), series.traces, series.apps)
    for number, (repeat, trace, job) in enumerate(pairs):
        order = (ours, AUTOSCALER) if number % 2 == 0 else (AUTOSCALER, ours)
        sides = [side for side in order if (job, trace, repeat, side) not in done]
        if sides:
            yield (job, trace, repeat), sides


def run_side(side: str, app: App, trace: str, repeat: int, *, autoscaler: Path) -> MatchOutcome:
    folder = BUILD / "live-match" / f"{app.name}-{trace}-{repeat}-{SIDES.index(side)}"
    shutil.rmtree(folder, ignore_errors=True)
    arguments = prepare(app, make_rates(trace, SECONDS // INTERVAL), folder, seed=repeat)
    begun = begin()
    with account() as use:
        if side == WEIR:
            samples = run_weir(app, arguments, folder, seconds=SECONDS)
        else:
            jar = None if side == IN_PLACE else autoscaler
            samples = asyncio.run(
                run_in_place(app, arguments, folder, seconds=SECONDS, autoscaler=jar)
            )
        load, used = os.getloadavg()[1], use()
    found = judge_run(app, folder, samples, seconds=SECONDS)
    _, _, lost, doubled = read_ledger(folder / "out")
    return MatchOutcome(
        job=app.name,
        trace=trace,
        repeat=repeat,
        side=side,
        date=begun.date,
        commit=begun.commit,
        trees=measured_trees("policies", "simulator", "operator", "java"),
        load=round(load, 2),
        used=round(used.run, 4),
        others=round(used.others, 4),
        late=found.judged.late,
        replicas=[round(each, 3) for each in found.replicas],
        restarts=found.restarts,
        doubled=found.judged.doubled,
        missing=found.judged.missing,
        wrong=None if lost is None or doubled is None else lost + doubled,
    )


Pair = tuple[MatchOutcome, MatchOutcome]
"""Weir's and the autoscaler's."""


def pairs_of(outcomes: Sequence[MatchOutcome], ours: str) -> list[Pair]:
    """Return the pairs, in order; a run without its other side is left out."""
    sides = [
        {each.pair: each for each in outcomes if each.side == side} for side in (ours, AUTOSCALER)
    ]
    return [(sides[0][pair], sides[1][pair]) for pair in sorted(sides[0].keys() & sides[1].keys())]


GOALS: Sequence[
    tuple[str, Callable[[MatchOutcome], float], Callable[..., Compared], float, str]
] = (
    ("intervals over the bound", lambda each: each.violations(), ratio, VIOLATIONS, ""),
    ("cost of what is requested", lambda each: each.cost(), ratio, COST, ""),
    (
        "intervals over the bound in second halves",
        lambda each: 100 * each.violations(later=True),
        difference,
        LATER_VIOLATIONS,
        "points",
    ),
    (
        "cost of what is requested in second halves",
        lambda each: each.cost(later=True),
        ratio,
        LATER_COST,
        "",
    ),
    ("restarts", lambda each: float(each.restarts), ratio, RESTARTS, ""),
)
"""Each with how a run is measured, how sides are compared, the limit, and the unit."""


def figures_of(outcomes: Sequence[MatchOutcome], ours: str) -> Iterator[Figure]:
    """Yield the goals over all pairs, then what each side came to, by job."""
    pairs = pairs_of(outcomes, ours)
    if not pairs:
        return
    for name, measure, compare, limit, unit in GOALS:
        found = compare(*([measure(pair[place]) for pair in pairs] for place in (0, 1)))
        yield from _compared(f"{name}, {len(pairs)} pairs", found, limit, unit)
    for place, side in enumerate((ours, AUTOSCALER)):
        runs = [pair[place] for pair in pairs]
        wrong = [each.wrong for each in runs if each.wrong is not None]
        figure = f"{side}: lost or doubled by its state, {len(wrong)} runs with a ledger"
        if side == ours:
            yield no_records(figure, sum(wrong))
        else:
            yield Figure(figure, sum(wrong), "records")
        most = 100 * max(each.used for each in runs)
        yield Figure(f"{side}: processors' time that a run used, most", most, "%")
        for job in dict.fromkeys(each.job for each in runs):
            mine = [each for each in runs if each.job == job]
            for figure, unit, values in (
                ("intervals over the bound", "%", [100 * each.violations() for each in mine]),
                ("cost", "currency/h", [each.cost() for each in mine]),
                ("restarts", "", [float(each.restarts) for each in mine]),
                ("doubled at a plain sink", "records", [float(each.doubled) for each in mine]),
                # With several replicas, what still waited at the end counts, too.
                ("missing at a plain sink", "records", [float(each.missing) for each in mine]),
            ):
                yield Figure(f"{job}, {side}: {figure}, mean", statistics.fmean(values), unit)


def _compared(name: str, found: Compared, limit: float, unit: str) -> Iterator[Figure]:
    """Yield a comparison with its goal, and the ends of its interval."""
    relation = "Weir's less the autoscaler's" if unit else "Weir's of the autoscaler's"
    yield Figure(
        f"{name}: {relation}",
        _finite(found.value),
        unit,
        goal=f"at most {limit:g} {unit}".rstrip() + ", with 95 % confidence",
        holds=found.is_at_most(limit),
    )
    for end, value in (("lower", found.low), ("upper", found.high)):
        yield Figure(f"{name}: {end} end of 95 %", _finite(value), unit)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
