"""The ELO solver: replicas that work a backlog off in time, found on a throughput profile.

Algorithm 3: profile the bootstrap set, train a model of the throughput score, then profile the
argmax of the expected improvement until a score is high enough. What is found is run for the time
that is allowed, and the old parallelism again after that. A profile is measured off line, against
more input than any parallelism takes; it does not depend on the throughput aimed at and is kept.

Source: Zhang et al., IEEE TPDS 2024, section IV-E. Departures:
1. The score falls on both sides of the target, so it accepts a throughput slightly too low, which
   misses the time allowed. Here the throughput must reach the target besides.
2. The score does not see idle replicas. Of candidates that promise at least half of the best
   improvement the one with the fewest replicas is profiled, and of all that were profiled and are
   fast enough the one with the fewest is taken.
3. The loop is capped. Where nothing is fast enough, the fastest is taken, and said to be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.application_manager.autrascale.gaussian_process import (
    draw_candidates,
    expect_improvement,
    fit_samples,
    scale_inputs,
)
from weir_policies.application_manager.autrascale.throughput import (
    ThroughputTrial,
    choose_best,
    score_throughput,
)
from weir_policies.application_manager.autrascale.values import (
    AutrascaleSettings,
    Parallelism,
    Sample,
    refuse_unlike,
)

PROMISING = 0.5
"""Part of the greatest expected improvement from which a candidate is as good as the best."""
TARGET_OVER_BETA = 5.0
"""V_t over beta where beta is not given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSearch:
    """The state of the search."""

    wanted: float
    """V_t, records/s."""
    floor: Parallelism
    """pi^p, below which nothing is looked for."""
    most: Parallelism
    target: Parallelism
    """What to profile next; the answer, pi^e, once it is over."""
    bootstrap: tuple[Parallelism, ...]
    profiled: tuple[ThroughputTrial, ...] = ()
    pending: tuple[Parallelism, ...] = ()
    """Of the bootstrap set, still to be profiled."""
    online: int = 0
    """Parallelisms profiled beyond the bootstrap set."""
    over: bool = False
    late: bool = False
    """Whether the answer is too slow, so that the time allowed will be missed."""


def begin(
    wanted: float,
    floor: Parallelism,
    most: Parallelism,
    *,
    bootstrap: Sequence[Parallelism],
    profiled: Sequence[ThroughputTrial] = (),
) -> EventSearch:
    """Begin a search.

    Args:
        wanted: V_t, records/s.
        floor: pi^p.
        most: P_max of every operator.
        bootstrap: What is profiled first, at least one; what is known already is left out.
        profiled: The profile so far.

    Raises:
        ParameterError: The floor exceeds the most.
    """
    refuse_unlike(floor, most)
    known = {trial.parallelism for trial in profiled}
    pending = tuple(each for each in bootstrap if each not in known)
    return EventSearch(
        wanted=wanted,
        floor=floor,
        most=most,
        target=pending[0] if pending else bootstrap[0],
        bootstrap=tuple(bootstrap),
        profiled=tuple(profiled),
        pending=pending,
    )


def advance(
    search: EventSearch,
    throughput: float,
    settings: AutrascaleSettings,
    rng: np.random.Generator,
) -> EventSearch:
    """Take in the throughput of the target, records/s, and choose the next."""
    others = tuple(each for each in search.profiled if each.parallelism != search.target)
    trial = ThroughputTrial(parallelism=search.target, throughput=throughput)
    pending = tuple(each for each in search.pending if each != search.target)
    online = search.online + (search.target not in search.pending)
    search = replace(search, profiled=(*others, trial), pending=pending, online=online)
    if pending:
        return replace(search, target=pending[0])
    beta = settings.beta or search.wanted / TARGET_OVER_BETA
    fast = [each for each in search.profiled if each.throughput >= search.wanted]
    # The bootstrap set alone ends nothing: it is not lean.
    found = any(
        each.parallelism not in search.bootstrap
        and _score(search, each, beta) >= settings.threshold
        for each in fast
    )
    ended = found or online >= settings.runs
    following = None if ended else choose_next(search, beta, settings, rng)
    if following is not None:
        return replace(search, target=following)
    if not fast:
        return replace(search, target=choose_best(search.profiled), over=True, late=True)
    leanest = min(fast, key=lambda each: (sum(each.parallelism), each.parallelism))
    return replace(search, target=leanest.parallelism, over=True)


def choose_next(
    search: EventSearch, beta: float, settings: AutrascaleSettings, rng: np.random.Generator
) -> Parallelism | None:
    """Return the leanest of the promising candidates; `None` where all of Omega is profiled."""
    samples = [
        Sample(parallelism=each.parallelism, score=_score(search, each, beta))
        for each in search.profiled
    ]
    best = max(samples, key=lambda sample: sample.score)
    points = draw_candidates(
        search.floor,
        search.most,
        best=best.parallelism,
        without=frozenset(each.parallelism for each in search.profiled),
        rng=rng,
    )
    if not len(points):
        return None
    mean, deviation = fit_samples(samples, search.floor).predict(scale_inputs(points, search.floor))
    expected = expect_improvement(mean, deviation, best=best.score, margin=settings.margin)
    promising = np.flatnonzero(expected >= PROMISING * expected.max())
    chosen = promising[np.lexsort((-mean[promising], points[promising].sum(axis=1)))[0]]
    return tuple(int(count) for count in points[chosen])


def _score(search: EventSearch, trial: ThroughputTrial, beta: float) -> float:
    return score_throughput(trial.throughput, search.wanted, beta)
