"""The TO solver: the minimum parallelism whose throughput reaches the input rate.

    v_i  = records processed / useful time of a replica, mean over the replicas      (Eq. 2)
    p'_1 = ceil(lambda / v_1),  p'_i = ceil(v_{i-1} p'_{i-1} / v_i)                  (Eq. 3)

Run p', measure, repeat; stop where the throughput reaches the rate, or where the same parallelism
comes twice in a row: something outside limits it, and more replicas would be wasted. Then the best
of what was tried is taken. DS2 has neither the second condition nor the choice.

Source: Zhang et al., IEEE TPDS 2024, section IV-B; Kalavri et al., OSDI 2018, for DS2. Departures:
1. Eq. 3 as printed hands on the *capacity* upstream, which compounds its rounding and knows no
   selectivity. Here, the rate that is required is handed on, as DS2 does.
2. Throughputs within 2 % of the greatest count as equal to it: they are measured.
3. It also ends where more replicas brought no more throughput: under contention the true rate falls
   with every replica, so Eq. 3 asks for one more each time and repeats itself only at the most.
4. An operator that processed nothing has no true rate and keeps its replicas.
5. A search that begins where the throughput is enough goes down (`lean`): under contention the true
   rates of a large parallelism ask for more replicas than a small one needs. It goes on from each
   parallelism that keeps up as long as Eq. 3 asks for fewer there, and up again from one that does
   not keep up.

How fast a backlog must be worked off, and how well a throughput does it.

    l_w = l_e - l_p,   R_s = lambda (L_e - l_p),   R_t = R_c - R_s         (Eq. 9-11, Little's law)
    V_t = lambda + R_t / T_limit                                           (Eq. 12)
    F_tp = beta / (|v - V_t| + beta)                                       (Eq. 13)

Source: Zhang et al., IEEE TPDS 2024, section IV-E.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weir_policies.application_manager.autrascale.values import Measurement, Parallelism

EQUAL = 0.02
"""Part of the greatest throughput within which others are equal to it."""
ROUNDING = 1e-9
"""A capacity short by less than this part is enough: 3.0000000001 replicas are 3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputTrial:
    """What one parallelism got through."""

    parallelism: Parallelism
    throughput: float
    """Records/s."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputSearch:
    """The state of the search."""

    target: Parallelism
    """What to run next; the answer once it is over."""
    tried: tuple[ThroughputTrial, ...] = ()
    over: bool = False
    limited: bool = False
    """Whether it ended because something outside limits the throughput, or the cap was reached."""
    lean: bool = False
    """Whether it began where the throughput was enough, and looks for fewer replicas."""


def count_needed(measured: Measurement, most: Parallelism) -> Parallelism:
    """Return the replicas that Eq. 3 asks for, within the most that there may be."""
    needed: list[int] = []
    for place, true_rate in enumerate(measured.true_rates):
        if true_rate <= 0:
            needed.append(measured.parallelism[place])
            continue
        count = math.ceil(min(measured.demands[place] / true_rate, 1e9) * (1 - ROUNDING))
        needed.append(min(max(count, 1), most[place]))
    return tuple(needed)


def begin(measured: Measurement, most: Parallelism) -> ThroughputSearch:
    """Begin a search from what runs now."""
    needed = count_needed(measured, most)
    return ThroughputSearch(
        target=_no_more_than(needed, measured) if measured.keeps_up else needed,
        tried=(ThroughputTrial(parallelism=measured.parallelism, throughput=measured.throughput),),
        lean=measured.keeps_up,
    )


def advance(
    search: ThroughputSearch,
    measured: Measurement,
    most: Parallelism,
    *,
    cap: int,
    stop_early: bool = True,
) -> ThroughputSearch:
    """Take in what the target was measured to do.

    Args:
        search: Where the search stands.
        measured: What its target did.
        most: Replicas at most, per operator.
        cap: Iterations after which it ends in any case.
        stop_early: Whether it ends where replicas bring nothing more; DS2 goes on to the cap.
    """
    last = search.tried[-1].throughput
    trial = ThroughputTrial(parallelism=measured.parallelism, throughput=measured.throughput)
    search = replace(search, tried=(*search.tried, trial))
    target = count_needed(measured, most)
    if measured.keeps_up:
        fewer = _no_more_than(target, measured)
        tried = [each.parallelism for each in search.tried]
        if search.lean and fewer not in tried and len(tried) <= cap:
            return replace(search, target=fewer)
        return replace(search, target=measured.parallelism, over=True)
    # Going down, the throughput is that of the rate and does not rise.
    stuck = target == measured.parallelism or (
        not search.lean and measured.throughput <= (1 + EQUAL) * last
    )
    if (stop_early and stuck) or len(search.tried) > cap:
        best = choose_best(search.tried) if stop_early else measured.parallelism
        return replace(search, target=best, over=True, limited=True)
    return replace(search, target=target)


def _no_more_than(needed: Parallelism, measured: Measurement) -> Parallelism:
    return tuple(min(pair) for pair in zip(needed, measured.parallelism, strict=True))


def choose_best(tried: tuple[ThroughputTrial, ...]) -> Parallelism:
    """Return what got most through, and among equals the least replicas."""
    greatest = max(trial.throughput for trial in tried)
    equal = [trial for trial in tried if trial.throughput >= (1 - EQUAL) * greatest]
    return min(equal, key=lambda trial: (sum(trial.parallelism), trial.parallelism)).parallelism


def find_target_throughput(
    *, rate: float, lag: float, latency: float, age_bound: float, limit: float
) -> float:
    """Return V_t, records/s; the rate where what waits is allowed to.

    Args:
        rate: lambda, records/s.
        lag: Records that wait now, R_c.
        latency: l_p of the steady state, seconds.
        age_bound: L_e, seconds.
        limit: T_limit, seconds, restarts taken off.
    """
    allowed = rate * max(age_bound - latency, 0.0)
    return rate + max(lag - allowed, 0.0) / limit


def score_throughput(throughput: float, target: float, beta: float) -> float:
    """Return F_tp, in (0, 1]: 1 where the throughput is the target, all three in records/s."""
    return beta / (abs(throughput - target) + beta)
