"""The PLO solver: lean replicas that keep the processing latency, by Bayesian optimisation.

Algorithm 1: run the parallelism, score it, add the sample, refit the model; stop where the latency
is kept and the score reaches its threshold, else go to the argmax of the expected improvement over
Omega. Before, the model is trained on the bootstrap set; at a new rate it is lent the model of the
nearest rate instead (Algorithm 2, see `gaussian_process`), for a number of runs.

Source: Zhang et al., IEEE TPDS 2024, sections IV-C and IV-D. Departures:
1. The throughput must reach the input rate as well, as its section V-C demands.
2. The loop is capped. At the cap the answer is the best parallelism measured that keeps latency and
   rate, else the best score.
3. The bootstrap set may be given as estimates; then none of it is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.application_manager.autrascale.gaussian_process import (
    draw_candidates,
    estimate_scores,
    expect_improvement,
    fit_samples,
    predict_lightly,
    scale_inputs,
)
from weir_policies.application_manager.autrascale.values import (
    AutrascaleSettings,
    Measurement,
    Parallelism,
    Sample,
    Trained,
    Transfer,
    refuse_unlike,
    score_benefit,
)
from weir_policies.model.arrays import Counts, Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredParallelism:
    """What one parallelism was measured to be worth."""

    sample: Sample
    kept: bool
    """Whether it kept the latency and carried the rate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencySearch:
    """The state of the search."""

    rate: float
    """Records/s for which it searches."""
    floor: Parallelism
    """pi^t."""
    most: Parallelism
    bound: float
    """L_p, seconds."""
    target: Parallelism
    """What to run next; the answer, pi^p, once it is over."""
    bootstrap: tuple[Parallelism, ...] = ()
    """The set S; with an old model, whose scores the traditional transfer estimates."""
    pending: tuple[Parallelism, ...] = ()
    """Of the bootstrap set, still to be run."""
    estimates: tuple[Sample, ...] = ()
    """Scores that were not measured."""
    runs: tuple[MeasuredParallelism, ...] = ()
    old: Trained | None = None
    """Model of another rate; `None` where there is none, or none is asked for."""
    over: bool = False
    met: bool = False
    """Whether the answer keeps latency and rate and reaches the threshold."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All scores; a measured one replaces its estimate."""
        measured = {run.sample.parallelism for run in self.runs}
        estimated = tuple(each for each in self.estimates if each.parallelism not in measured)
        return estimated + tuple(run.sample for run in self.runs)

    def summarise(self) -> Trained:
        """Return what a later search at another rate can use."""
        return Trained(rate=self.rate, floor=self.floor, samples=self.samples)


def begin(
    measured: Measurement,
    floor: Parallelism,
    most: Parallelism,
    *,
    bound: float,
    bootstrap: Sequence[Parallelism],
    estimates: Sequence[Sample] = (),
    old: Trained | None = None,
) -> LatencySearch:
    """Begin a search; its first target is what runs already (line 1 of Algorithm 1).

    Args:
        measured: What runs now.
        floor: pi^t.
        most: P_max of every operator.
        bound: L_p, seconds.
        bootstrap: The set S.
        estimates: Scores of S from elsewhere; empty runs S first, unless there is an old model.
        old: The model of the nearest rate.

    Raises:
        ParameterError: The floor exceeds the most.
    """
    refuse_unlike(floor, most)
    pending = () if estimates or old is not None else tuple(bootstrap)
    return LatencySearch(
        rate=measured.rate,
        floor=floor,
        most=most,
        bound=bound,
        target=pending[0] if pending else measured.parallelism,
        bootstrap=tuple(bootstrap),
        pending=pending,
        estimates=tuple(estimates),
        old=old,
    )


def advance(
    search: LatencySearch,
    measured: Measurement,
    settings: AutrascaleSettings,
    rng: np.random.Generator,
) -> LatencySearch:
    """Take in what the target was measured to do, and choose the next."""
    score = score_benefit(
        measured.parallelism,
        search.floor,
        latency=measured.latency,
        latency_bound=search.bound,
        alpha=settings.alpha,
    )
    kept = measured.latency <= search.bound and measured.keeps_up
    run = MeasuredParallelism(
        sample=Sample(parallelism=measured.parallelism, score=score), kept=kept
    )
    pending = tuple(each for each in search.pending if each != measured.parallelism)
    search = replace(search, runs=(*search.runs, run), pending=pending)
    if pending:
        return replace(search, target=pending[0])
    if kept and score >= settings.threshold:
        return replace(search, target=measured.parallelism, over=True, met=True)
    online = len(search.runs) - (0 if search.estimates or search.old else len(search.bootstrap))
    following = None if online >= settings.runs else choose_next(search, settings, rng)
    if following is None:
        return replace(search, target=choose_best(search.runs), over=True)
    return replace(search, target=following)


def choose_next(
    search: LatencySearch, settings: AutrascaleSettings, rng: np.random.Generator
) -> Parallelism | None:
    """Return the argmax of the expected improvement; `None` where all of Omega was run."""
    best = max(search.runs, key=lambda run: run.sample.score).sample
    points = draw_candidates(
        search.floor,
        search.most,
        best=best.parallelism,
        without=frozenset(run.sample.parallelism for run in search.runs),
        rng=rng,
    )
    if not len(points):
        return None
    mean, deviation = _predict(search, settings, points)
    expected = expect_improvement(mean, deviation, best=best.score, margin=settings.margin)
    # Where nothing promises an improvement, the greatest mean breaks the tie.
    chosen = np.lexsort((mean, expected))[-1]
    return tuple(int(count) for count in points[chosen])


def choose_best(runs: Sequence[MeasuredParallelism]) -> Parallelism:
    """Return the best that kept latency and rate, else the best score."""
    kept = [run for run in runs if run.kept] or list(runs)
    return max(kept, key=lambda run: run.sample.score).sample.parallelism


def _predict(
    search: LatencySearch, settings: AutrascaleSettings, points: Counts
) -> tuple[Floats, Floats]:
    measured = tuple(run.sample for run in search.runs)
    if search.old is not None and len(measured) <= settings.transfer_runs:
        if settings.transfer is Transfer.LIGHTWEIGHT:
            return predict_lightly(
                points, search.old, measured, search.floor, weight=settings.transfer_weight
            )
        known = {sample.parallelism for sample in measured}
        unrun = [each for each in search.bootstrap if each not in known]
        guessed = estimate_scores(unrun, search.old, measured, search.floor) if unrun else ()
        model = fit_samples((*guessed, *measured), search.floor)
    else:
        model = fit_samples(search.samples, search.floor)
    return model.predict(scale_inputs(points, search.floor))
