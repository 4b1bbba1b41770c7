"""Scores at a new input rate from a model of another: lightweight and traditional transfer.

Lightweight (Algorithm 2): a process M' is fitted to the residuals s - mu_old(p) of the real samples
at the new rate, and with n_c of them and n_old old ones

    mu = mu_old + mu',   sigma = sigma'^b sigma_old^(1 - b),   b = a n_c / (a n_c + n_old)

Traditional (the authors' IPDPS 2021 system, known here through the paper's remarks): the scores of
the bootstrap set are estimated as mu_old + mu', and a new process is fitted to these and the real
samples.

Source: Zhang et al., IEEE TPDS 2024, section IV-D. Its `a` is printed alpha, and is not that of the
benefit score; it prints no value, 1 here. Without a real sample mu' = 0 and b = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir_policies.application_manager.autrascale.gaussian_process import GaussianProcess, fit
from weir_policies.application_manager.autrascale.search import scale_inputs
from weir_policies.application_manager.autrascale.values import Parallelism, Sample, Trained
from weir_policies.model.arrays import Counts, Floats

RATES_KEPT = 12
"""Models that are remembered, by rate."""
SAME_RATE = 0.05
"""Relative distance up to which two rates share a model."""


def find_nearest(models: Sequence[Trained], rate: float) -> Trained | None:
    """Return the model whose rate is nearest; `None` where there is none."""
    return min(models, key=lambda model: abs(model.rate - rate), default=None)


def is_same_rate(one: float, other: float) -> bool:
    """Return whether two input rates share a model."""
    return abs(one - other) <= SAME_RATE * max(one, other)


def remember(models: Sequence[Trained], trained: Trained) -> tuple[Trained, ...]:
    """Return the models with a new one in the place of those of its rate; the oldest go first."""
    others = [model for model in models if not is_same_rate(model.rate, trained.rate)]
    return (*others, trained)[-RATES_KEPT:]


def fit_samples(samples: Sequence[Sample], floor: Parallelism) -> GaussianProcess:
    """Fit a process to samples, at least one, over inputs relative to a floor."""
    parallelisms = np.array([sample.parallelism for sample in samples])
    return fit(scale_inputs(parallelisms, floor), np.array([sample.score for sample in samples]))


def predict_lightly(
    points: Counts, old: Trained, samples: Sequence[Sample], floor: Parallelism, *, weight: float
) -> tuple[Floats, Floats]:
    """Return mean and deviation of the scores at a new rate, each `(m,)`.

    Args:
        points: Parallelisms `(m, u)`.
        old: What was learned at another rate.
        samples: Real ones at the new rate; may be empty.
        floor: pi^t at the new rate.
        weight: `a`, how much a real sample counts against an old one.
    """
    before = fit_samples(old.samples, old.floor)
    mean, deviation = before.predict(scale_inputs(points, old.floor))
    if not samples:
        return mean, deviation
    left, spread = _fit_residuals(before, old, samples, floor).predict(scale_inputs(points, floor))
    share = weight * len(samples) / (weight * len(samples) + len(old.samples))
    return mean + left, spread**share * deviation ** (1 - share)


def estimate_scores(
    points: Sequence[Parallelism], old: Trained, samples: Sequence[Sample], floor: Parallelism
) -> tuple[Sample, ...]:
    """Return the estimated scores of parallelisms at a new rate, as the traditional transfer."""
    mean, _ = predict_lightly(np.array(points), old, samples, floor, weight=1.0)
    return tuple(
        Sample(parallelism=point, score=float(score))
        for point, score in zip(points, mean, strict=True)
    )


def _fit_residuals(
    before: GaussianProcess, old: Trained, samples: Sequence[Sample], floor: Parallelism
) -> GaussianProcess:
    parallelisms = np.array([sample.parallelism for sample in samples])
    expected, _ = before.predict(scale_inputs(parallelisms, old.floor))
    scores = np.array([sample.score for sample in samples])
    return fit(scale_inputs(parallelisms, floor), scores - expected)
