"""Weir on real Flink, with a job that knows nothing of Weir and of which one key brings 30 %.

The job has a source, work by key that takes 5 ms on average, and a file sink; each of seven other
keys brings 10 %. Weir begins from cold, with its default policy and an interval of ten seconds. In
one run the rate rises threefold after 100 seconds; in the other one it is, from the beginning on,
more than any deployment serves. The waiting of the work takes no CPU, so all replicas have a core.

The truth needs no model of Weir's: the share of the fullest replica at each parallelism follows
from the keys by Flink's own formula. A scale-out does not help if it goes beyond the parallelism
beyond which that share falls by no more than 3 %. Response times are those of the rows that a sink
wrote. An interval is settled if neither a change of the job nor one of the rate touches it or the
two before it.

The best fixed deployment in hindsight is computed: the fewest replicas, each with the whole job in
it, at which records take no longer than the bound at the higher rate; each replica a queue M/G/1
with its true share and the service times of the job.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from benchmarks.figures import Figure, at_most, no_records
from benchmarks.flink.response_time import (
    BOUND,
    INTERVAL,
    MAX_REPLICAS,
    build_timed,
    count_wrong,
    is_settled,
    run_timed,
)
from benchmarks.results import BUILD
from weir_operator.loop.gather import WORKED_OFF
from weir_operator.loop.run_record import RecordedRun
from weir_operator.runtime.protocol import Deployments
from weir_policies.model.keys import replica_shares, shares_of_groups

ABOUT = "Weir on real Flink with one key of 30 %: a rate that rises threefold, and one beyond reach"
DURATION = "11 min"

FOLDER = BUILD / "keys-live"
KEYED = "work"
"""Operator of the job that gets its records by key."""
SHARES = (0.3, *[0.1] * 7)
"""Of the keys 0 to 7, as `Timed.hot` deals them."""
GROUPS = 128
SERVICE, SPREAD = 0.005, 0.4
"""Seconds of work for a record, from 0.6 to 1.4 times as long, as in `Timed.work`."""
SECONDS, RISES = 300, 100
LOW, HIGH, BEYOND = 125, 375, 750
"""Records/s."""
NO_HELP = 0.03
"""Part of the fullest replica's share by which a replica that helps makes it smaller, at least."""
IN_TIME = 5
"""Settled intervals within which an objective out of reach is to be named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a run."""

    useless: int
    """Scale-outs of the keyed operator that do not help."""
    settled: int
    """Intervals."""
    over: int
    """Of these, with a mean response time over the bound, by the rows."""
    unnamed: int
    """Settled intervals over the bound before the event that says why no deployment keeps it."""
    reason: str
    """What that event says; empty without one."""
    replicas: float
    """Of all operators, mean over the intervals."""
    restarts: int
    wrong: int
    """Records lost or doubled."""
    load: float
    """Processes that wanted the machine's processors, mean over the last five minutes."""


def run() -> list[Figure]:
    build_timed()  # before a trace begins
    return figures_of(_run_job("rises", LOW, HIGH), _run_job("beyond", BEYOND, BEYOND))


def _run_job(name: str, low: int, high: int) -> Outcome:
    begin = time.time()
    trace = (int(1000 * begin), RISES, 10 * SECONDS, low, high)
    told, [rows] = run_timed(
        FOLDER / name, "hot", trace, ["hot"], seconds=SECONDS, flink={"maxParallelism": GROUPS}
    )
    load = round(os.getloadavg()[1], 1)
    return judge(told, rows, rises=begin + RISES if low < high else -math.inf, load=load)


def judge(
    told: RecordedRun, rows: Sequence[Sequence[int]], *, rises: float, load: float
) -> Outcome:
    """Judge a run by its record and by the rows of its sink.

    Args:
        told: What Weir said.
        rows: A record's number, when it was made, and when the row was written, Unix ms.
        rises: When the rate rises, Unix seconds; `-inf` where it does not.
        load: Of the machine.
    """
    claims = [each for each in told.events if each.message.startswith("ObjectiveInfeasible:")]
    named = claims[0].time if claims else math.inf
    settled = over = unnamed = 0
    for before, tick in pairwise(told.ticks):
        written = [at - made for _, made, at in rows if before.time < at / 1000 <= tick.time]
        since = tick.time - (1 + WORKED_OFF) * INTERVAL
        if not is_settled(tick, told) or since <= rises <= tick.time:
            continue
        late = not written or fmean(written) > 1000 * BOUND
        settled += 1
        over += late
        unnamed += late and tick.time < named
    return Outcome(
        useless=sum(
            _work_of(each.after) > max(_work_of(each.before), most_useful())
            for each in told.rescales
        ),
        settled=settled,
        over=over,
        unnamed=unnamed,
        reason=claims[0].message if claims else "",
        replicas=fmean(
            sum(sum(each.replicas.values()) for each in tick.operators) for tick in told.ticks
        ),
        restarts=told.ticks[-1].restarts,
        wrong=count_wrong([number for number, _, _ in rows]),
        load=load,
    )


def _work_of(deployments: Deployments) -> int:
    """Return the parallelism of the keyed work, of its operator or of one that is the whole job."""
    operators: Mapping[str, Mapping[str, int]] = deployments
    found = operators.get(KEYED) or next(iter(operators.values()))
    return sum(found.values())


def true_shares(parallelism: int) -> list[float]:
    """Return the part of the records that each replica gets."""
    return [*map(float, replica_shares(shares_of_groups(SHARES, GROUPS), parallelism))]


def most_useful() -> int:
    """Return the parallelism beyond which the share of the fullest replica falls no more."""
    shares = [max(true_shares(size)) for size in range(1, MAX_REPLICAS + 1)]
    return next(
        size for size, share in enumerate(shares, 1) if min(shares) >= (1 - NO_HELP) * share
    )


def best_fixed(rate: float) -> int | None:
    """Return the fewest replicas that keep the bound at a rate; `None` where none do."""
    square = SERVICE**2 * (1 + SPREAD**2 / 3)
    for size in range(1, MAX_REPLICAS + 1):
        rates = [rate * share for share in true_shares(size) if share > 0]
        if max(rates) * SERVICE >= 1:
            continue
        waits = [each * square / 2 / (1 - each * SERVICE) for each in rates]  # M/G/1
        mean = sum(each * (wait + SERVICE) for each, wait in zip(rates, waits, strict=True)) / rate
        if mean <= BOUND:
            return size
    return None


def figures_of(rises: Outcome, beyond: Outcome) -> list[Figure]:
    fixed = best_fixed(HIGH)
    if fixed is None or best_fixed(BEYOND) is not None:
        raise ValueError(f"Expected {HIGH}/s within reach and {BEYOND}/s beyond, got {fixed}")
    share = 100 * rises.over / rises.settled if rises.settled else None
    unnamed = beyond.unnamed if beyond.reason else None
    return [
        at_most(
            figure="scale-outs that do not help, both runs", unit="", limit=0,
            value=rises.useless + beyond.useless,
        ),
        at_most(
            figure="rate threefold: cost over that of the best fixed deployment", unit="",
            limit=1.1, value=rises.replicas / fixed,
        ),
        at_most(
            figure="rate threefold: settled intervals over the bound", unit="%", limit=0,
            value=share,
        ),
        at_most(
            figure="beyond reach: settled intervals over the bound until that is named",
            unit="", limit=IN_TIME, value=unnamed,
        ),
        Figure(
            figure="beyond reach: the reason names the key", unit="", goal="yes",
            value=float("carries" in beyond.reason), holds="carries" in beyond.reason,
        ),
        no_records("records lost or doubled", rises.wrong + beyond.wrong),
        Figure(figure="best fixed deployment in hindsight", value=fixed, unit="replicas"),
        Figure(figure="parallelism beyond which none helps", value=most_useful(), unit="replicas"),
        *(
            Figure(figure=f"{name}: {figure}", value=value, unit=unit)
            for name, each in (("rate threefold", rises), ("beyond reach", beyond))
            for figure, value, unit in (
                ("replicas, mean", each.replicas, "replicas"),
                ("settled intervals", each.settled, ""),
                ("restarts", each.restarts, ""),
                ("load of the machine", each.load, "processes"),
            )
        ),
    ]  # fmt: skip
