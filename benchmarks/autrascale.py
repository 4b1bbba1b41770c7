"""AuTraScale+ on the ground truth under contention: what the paper claims, as far as it can be had.

The truth is ours, built so that the published parallelism of WordCount comes out: the table shows
what the algorithms do, not what the paper measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from benchmarks.autrascale_planner import plan, settle_planner
from benchmarks.autrascale_runs import (
    SETTINGS,
    Backlog,
    Outcome,
    boost,
    score,
    search_by_drs,
    search_latency,
    search_throughput,
)
from benchmarks.departures import Departure
from benchmarks.figures import Figure, at_least, at_most
from weir_policies.application_manager.autrascale.values import Transfer
from weir_simulator.contention import (
    ContendedApplication,
    nexmark_q5,
    nexmark_q11,
    word_count,
    yahoo,
)

ABOUT = "AuTraScale+ under contention: its solvers, transfers and baselines, and the planner"
DURATION = "10 min"

SEEDS = 20
TRANSFER_SEEDS = 10
WORD_COUNT_RATE, WORD_COUNT_BOUND = 350e3, 0.18
TRANSFER_RATE = 300e3
"""Records/s that WordCount is searched at before."""
SCALE_UP, SCALE_DOWN = (1, 3, 12, 2), (36, 32, 24, 20)
REDIS = 34e3
"""Records/s that the key-value store of the Yahoo benchmark bears."""
PUBLISHED_MS = {
    "Algorithm 1": 88,
    "Algorithm 2": 73,
    "traditional transfer": 116,
    "Algorithm 3": 56,
}
"""CPU time with ten operators (Table VI)."""
PUBLISHED_AGAINST_DRS = {"up": 36.7, "down": 66.6}
"""Percent of the replicas that the paper saves by PLO."""
PLANNER_SEEDS, PLANNER_TICKS = 3, 60

CASES = tuple(
    Backlog(records=records, age_bound=age, limit=minutes * 60.0)
    for records, age, minutes in (
        *((records, 0.5, 8) for records in (6e6, 12e6, 16e6)),
        *((12e6, age, 8) for age in (0.25, 1.0)),
        *((12e6, 0.5, minutes) for minutes in (6, 10)),
    )
)
"""One of backlog, age and deadline is varied at a time: three sweeps of three that share a case."""
PUBLISHED_SAVINGS = {"max": 49.5, "exponent": 21.9, "proportion": 9.3}
"""Percent of the replicas that the paper saves by ELO."""
BACKLOG_RATE = 24.2e3
"""Records/s: 40 % of what the application gets through at most."""


def list_departures() -> list[Departure]:
    """Return where this is not the paper's experiment, for the page."""
    return [
        Departure(
            what="pi^t on the way down",
            paper="where the throughput search ends",
            here="what the true rates ask for that are measured where the latency search begins",
            why="Weir's controller measures there; under contention it comes out too high, and "
            "the score with it",
        ),
        Departure(
            what="jobs",
            paper="WordCount, Yahoo and Nexmark Q5 and Q11 on a Flink cluster",
            here="simulated; WordCount, Q5 and Q11 built so that the printed parallelism comes out",
            why="so where TO ends on them says nothing; its number of iterations does",
        ),
        Departure(
            what="transfers",
            paper="four jobs, WordCount from 150k/s to 200k/s at 250 ms",
            here=f"WordCount alone, from {TRANSFER_RATE / 1e3:g}k/s to "
            f"{WORD_COUNT_RATE / 1e3:g}k/s at {1000 * WORD_COUNT_BOUND:g} ms",
            why="the truth is built at the latter rate",
        ),
        Departure(
            what="end of TO",
            paper="the rate is reached, or the same parallelism comes twice",
            here="also where more replicas bring no more throughput",
            why="under contention equation 3 asks for one more each time; chosen after Yahoo "
            "behind Redis took 7 iterations without it",
        ),
        Departure(
            what="rate that equation 3 hands on",
            paper="the capacity upstream",
            here="the rate that is required",
            why="rounding compounds, and selectivity is not known, as printed",
        ),
        Departure(
            what="end of the latency search (Algorithm 1)",
            paper="the latency is kept",
            here="it is at most 5 % over the bound",
            why="a measurement is noisy",
        ),
        Departure(
            what="job, rate and bound of PLO up and down",
            paper="several, each on its own",
            here=f"WordCount at {WORD_COUNT_RATE / 1e3:g}k/s, {1000 * WORD_COUNT_BOUND:g} ms, from "
            f"where TO ends and from {SCALE_DOWN}",
            why="the truth is built at this rate",
        ),
        Departure(
            what="alpha and w of the benefit score",
            paper="not said",
            here=f"{SETTINGS.alpha:g} and {SETTINGS.overallocation:g}",
            why="they give the printed scores and the printed threshold of 0.9",
        ),
        Departure(
            what="margin of the expected improvement, runs at most",
            paper="not said",
            here=f"{SETTINGS.margin:g}, {SETTINGS.runs}, the 10 of the bootstrap not counted",
            why="of 0 to 0.1 this margin needs the fewest runs, so the numbers of runs are tuned "
            "on what they report; Algorithm 1 has no end of its own",
        ),
        Departure(
            what="parallelism from which ELO begins",
            paper="where the latency search ended",
            here="lean, the slowest operator at its most; and from pi^t beside it",
            why="set by hand: under a loose bound the search ends near it",
        ),
        Departure(
            what="backlogs",
            paper="swept one at a time: size, bound on age, deadline",
            here=f"{len(CASES)}",
            why="three sweeps of three share a case",
        ),
        Departure(
            what="seeds",
            paper="not said",
            here=f"{SEEDS} of the latency search, {TRANSFER_SEEDS} of the transfers, "
            f"{PLANNER_SEEDS} of the planner",
            why="measurements are noisy",
        ),
    ]


def run() -> list[Figure]:
    """Run the five experiments."""
    figures = [*_throughput(), *_latency(), *_transfer(), *_event_time(), *_overhead()]
    return [*figures, *_planner()]


def _throughput() -> Iterator[Figure]:
    """TO from one replica each: four published jobs, and the steps of the published Table V."""
    truths: tuple[tuple[str, ContendedApplication, Sequence[float]], ...] = (
        ("WordCount", word_count(), (350e3, 150e3, 200e3)),
        ("Yahoo behind Redis", yahoo(REDIS), (60e3, 20e3, 30e3)),
        ("Nexmark Q5", nexmark_q5(), (30e3, 8e3, 10e3)),
        ("Nexmark Q11", nexmark_q11(), (100e3, 60e3, 80e3)),
    )
    steps = {}
    for job, truth, rates in truths:
        for rate in rates:
            found = search_throughput(truth, rate, (1,) * len(truth.bounds))
            steps[f"{job} at {rate / 1e3:g}k/s"] = len(found.tried) - 1
    worst = max(steps, key=steps.__getitem__)
    yield Figure(
        figure=f"TO: iterations in the worst of {len(steps)} scenarios ({worst}), with a rule to "
        "stop that the paper has not; published 4",
        value=steps[worst],
        unit="",
    )
    word = search_throughput(word_count(), WORD_COUNT_RATE, (1, 1, 1, 1)).target
    yield Figure(
        figure=f"TO: replicas of WordCount at 350k/s, {word}; built for (3, 4, 12, 10)",
        value=sum(word),
        unit="",
    )
    limited = yahoo(REDIS)
    lean = search_throughput(limited, 60e3, (1,) * 5)
    ds2 = search_throughput(limited, 60e3, (1,) * 5, stop_early=False)
    yield at_most(
        figure=f"TO behind an external limit: replicas, beside DS2's {sum(ds2.target)}; "
        "published 42",
        value=sum(lean.target),
        unit="",
        limit=sum(ds2.target),
    )
    edge = search_throughput(yahoo(), 60e3, (1,) * 5)
    yield Figure(
        figure="TO at 60k/s of the 60.5k/s that Yahoo without Redis bears at most: iterations",
        value=len(edge.tried) - 1,
        unit="",
    )


def _latency() -> Iterator[Figure]:
    """PLO and DRS, up from a small parallelism and down from a large one."""
    truth, rate, bound = word_count(), WORD_COUNT_RATE, WORD_COUNT_BOUND
    floor = search_throughput(truth, rate, SCALE_UP).target
    starts = {"up": floor, "down": SCALE_DOWN}
    for way, start in starts.items():
        runs = [search_latency(truth, rate, bound, start, seed=seed) for seed in range(SEEDS)]
        yield at_least(
            figure=f"PLO {way}: seeds that keep rate and latency (5 % over it at most)",
            value=100 * fmean(each.met for each in runs),
            unit="%",
            limit=100,
        )
        yield Figure(
            figure=f"PLO {way}: seeds that reach the benefit score of {SETTINGS.threshold:g} too, "
            "by the pi^t measured where they began",
            value=100 * fmean(each.scored for each in runs),
            unit="%",
        )
        scores = [score(truth, rate, bound, each.parallelism, floor) for each in runs]
        yield at_least(
            figure=f"PLO {way}: the same by the pi^t that TO ends at",
            value=100 * fmean(each >= SETTINGS.threshold for each in scores),
            unit="%",
            limit=100,
        )
        yield Figure(figure=f"PLO {way}: runs, 10 of them bootstrap", value=_runs(runs), unit="")
        yield Figure(figure=f"PLO {way}: replicas", value=_replicas(runs), unit="")
        for kind, true_rates in (("observed", False), ("true", True)):
            began = SCALE_UP if way == "up" else start
            found = [
                search_by_drs(truth, rate, bound, began, true_rates=true_rates, seed=seed)
                for seed in range(SEEDS)
            ]
            share = 100 * fmean(each.met for each in found)
            if share == 100:
                yield at_least(
                    figure=f"PLO {way}: replicas saved against DRS on {kind} rates; published "
                    f"{PUBLISHED_AGAINST_DRS[way]:g}",
                    value=100 * (1 - _replicas(runs) / _replicas(found)),
                    unit="%",
                    limit=0,
                )
            yield Figure(
                figure=f"DRS on {kind} rates, {way}: replicas (targets kept in {share:.0f} %)",
                value=_replicas(found),
                unit="",
            )


def _transfer() -> Iterator[Figure]:
    """WordCount from 300k/s to 350k/s: a search anew, and both transfers."""
    truth, bound = word_count(), WORD_COUNT_BOUND
    floors = {
        rate: search_throughput(truth, rate, (1,) * 4).target
        for rate in (TRANSFER_RATE, WORD_COUNT_RATE)
    }
    outcomes: dict[str, list[Outcome]] = {"anew": [], "traditional": [], "lightweight": []}
    for seed in range(TRANSFER_SEEDS):
        old = search_latency(
            truth, TRANSFER_RATE, bound, floors[TRANSFER_RATE], seed=seed + 100
        ).learned
        for name, found in outcomes.items():
            way = Transfer.NONE if name == "anew" else Transfer(name)
            found.append(
                search_latency(
                    truth,
                    WORD_COUNT_RATE,
                    bound,
                    floors[WORD_COUNT_RATE],
                    seed=seed,
                    settings=replace(SETTINGS, transfer=way),
                    old=None if name == "anew" else old,
                )
            )
    for name in outcomes:
        figure, value = f"Transfer, {name}: runs until met", _runs(outcomes[name])
        if name == "traditional":
            yield at_most(figure=figure, value=value, unit="", limit=_runs(outcomes["anew"]))
        else:
            yield Figure(figure=figure, value=value, unit="")
        yield Figure(figure=f"Transfer, {name}: replicas", value=_replicas(outcomes[name]), unit="")


def _event_time() -> Iterator[Figure]:
    """ELO on the backlogs of the Yahoo truth, and the three straw men, from two beginnings."""
    truth = yahoo()
    lean = search_throughput(truth, BACKLOG_RATE, (1,) * 5).target
    # The slowest operator at its most is where the benefit search may end under a loose bound.
    beginnings = {"the slowest operator at its most": (*lean[:-1], truth.most), "pi^t": lean}
    for name, here in beginnings.items():
        total, missed = {}, {}
        for method in ("autrascale", *PUBLISHED_SAVINGS):
            found = [boost(method, truth, BACKLOG_RATE, here, case) for case in CASES]
            total[method] = fmean(sum(each[0]) for each in found)
            missed[method] = sum(not each[1] for each in found)
        yield at_most(
            figure=f"ELO from {name} {here}: deadlines missed of {len(CASES)}",
            value=missed["autrascale"],
            unit="",
            limit=0,
        )
        for method, published in PUBLISHED_SAVINGS.items():
            yield Figure(
                figure=f"ELO from {name}: replicas saved against {method.title()}, which misses "
                f"{missed[method]}; published {published:g} %",
                value=100 * (1 - total["autrascale"] / total[method]),
                unit="%",
            )


def _overhead() -> Iterator[Figure]:
    """CPU time of the longest decision, for chains of two to ten operators."""
    ways: dict[str, Callable[[int], float]] = {
        "Algorithm 1": lambda size: _time_latency(size, Transfer.NONE),
        "Algorithm 2": lambda size: _time_latency(size, Transfer.LIGHTWEIGHT),
        "traditional transfer": lambda size: _time_latency(size, Transfer.TRADITIONAL),
        "Algorithm 3": _time_boost,
    }
    longest = {
        name: 1000 * max(measure(size) for size in (2, 4, 6, 8, 10))
        for name, measure in ways.items()
    }
    for name, milliseconds in longest.items():
        yield Figure(
            figure=f"{name}: longest decision, 2 to 10 operators, CPU time; published "
            f"{PUBLISHED_MS[name]} with 10",
            value=milliseconds,
            unit="ms",
        )
    yield at_most(
        figure="longest decision of Algorithm 2, of that of the traditional transfer; published "
        f"{PUBLISHED_MS['Algorithm 2'] / PUBLISHED_MS['traditional transfer']:.2g}",
        value=longest["Algorithm 2"] / longest["traditional transfer"],
        unit="",
        limit=1,
    )


def _time_latency(size: int, transfer: Transfer) -> float:
    chain = _chain(size)
    floor = search_throughput(chain, 300e3, (1,) * size).target
    settings = replace(SETTINGS, overallocation=0.0, transfer=transfer)  # goes on to the cap
    old = None
    if transfer is not Transfer.NONE:
        old = search_latency(chain, 280e3, 0.1, floor, seed=1, settings=settings).learned
    found = search_latency(chain, 300e3, 0.1, floor, seed=2, settings=settings, old=old)
    return max(found.seconds)


def _time_boost(size: int) -> float:
    chain = _chain(size)
    floor = search_throughput(chain, 150e3, (1,) * size).target
    case = Backlog(records=30e6, age_bound=0.5, limit=240.0)
    return boost("autrascale", chain, 150e3, floor, case)[2]


def _chain(size: int) -> ContendedApplication:
    """Return WordCount's operators again and again."""
    word = word_count()
    order = [place % 4 for place in range(size)]
    return replace(
        word,
        base=word.base[order],
        serial=word.serial[order],
        crosstalk=word.crosstalk[order],
    )


def _planner() -> Iterator[Figure]:
    """The planner on the same scenarios, with the same measurements."""
    truth, rate, bound = word_count(), WORD_COUNT_RATE, WORD_COUNT_BOUND
    floor = search_throughput(truth, rate, SCALE_UP).target
    for way, start in (("up", floor), ("down", SCALE_DOWN)):
        theirs = [
            search_latency(truth, rate, bound, start, seed=seed) for seed in range(PLANNER_SEEDS)
        ]
        ours = settle_planner(
            [
                plan(truth, rate, bound, start, seed=seed, ticks=PLANNER_TICKS)
                for seed in range(PLANNER_SEEDS)
            ]
        )
        figure = f"planner {way}: replicas, {ours.runs} changes, budgets not tuned"
        kept = at_most(figure=figure, value=ours.replicas, unit="", limit=_replicas(theirs))
        yield replace(kept, holds=kept.holds and ours.met, goal=f"{kept.goal}, targets kept")


def _runs(outcomes: Sequence[Outcome]) -> float:
    return fmean(each.runs for each in outcomes)


def _replicas(outcomes: Sequence[Outcome]) -> float:
    return fmean(each.replicas for each in outcomes)
