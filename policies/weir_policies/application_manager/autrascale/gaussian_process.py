"""A Gaussian process for some dozens of samples: Matern 5/2, one length scale, NumPy alone.

    k(r) = s^2 (1 + a + a^2 / 3) exp(-a),   a = sqrt(5) r / l
    mu(x) = m + k(x)^T (K + n I)^-1 (y - m),   var(x) = k(x, x) - k(x)^T (K + n I)^-1 k(x)

The length scale l is the one of greatest likelihood on a fixed grid; the variance s^2 that belongs
to it has a closed form, and the noise n is a fixed part of s^2. So a fit is a few factorisations of
a small matrix, and the same samples always give the same model.

Source: Zhang et al., IEEE TPDS 2024, Eq. 5; Rasmussen and Williams, "Gaussian Processes for Machine
Learning", 2006, sections 2.2, 4.2 and 5.4. The paper says Matern and prints neither the order nor
the hyper-parameters.

Candidates out of Omega, the parallelisms between pi^t and P_max.

Omega has millions of points with four operators; where it is small all are looked at, otherwise
uniform draws and draws around the best so far. The paper takes the argmax over all of Omega, which
takes longer than the 0.03 to 0.12 s that it prints.

Source: Zhang et al., IEEE TPDS 2024, section IV-C; the numbers of draws are ours.

Expected improvement with a margin: where a better score is to be hoped for.

    K = mu - f(x+) - xi,   Z = K / sigma,   EI = K Phi(Z) + sigma phi(Z);   0 where sigma = 0

Source: Zhang et al., IEEE TPDS 2024, Eq. 6. A greater margin xi explores more. It is the search's
expected improvement with the sign turned: scores are to be great, the search's outputs small.

Scores at a new input rate from a model of another: lightweight and traditional transfer.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from weir_policies.application_manager.autrascale.values import Parallelism, Sample, Trained
from weir_policies.application_manager.search.surrogate import expected_improvement
from weir_policies.model.arrays import Counts, Floats

NOISE = 1e-4
"""Variance of the noise, relative to that of the process."""
LENGTHS = np.geomspace(0.05, 5.0, 16)
"""Length scales to choose from, for inputs of the order of 1."""
MIN_VARIANCE = 1e-8
"""Of the process: equal scores would give none, and then nothing could be explored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianProcess:
    """A process conditioned on samples."""

    inputs: Floats
    """`(n, u)`."""
    mean: float
    variance: float
    length: float
    weights: Floats
    """(K + n I)^-1 (y - m) with K of variance 1, `(n,)`."""
    inverse_factor: Floats
    """Inverse of the lower Cholesky factor of K + n I, `(n, n)`."""

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation at points `(m, u)`, each `(m,)`."""
        across = matern(measure_distances(points, self.inputs), self.length)  # m x n
        # Not `@`: for a matrix this thin BLAS takes longer to wake its threads than to multiply.
        explained = np.einsum("mn,kn->mk", across, self.inverse_factor)
        left = np.maximum(1 - np.einsum("mn,mn->m", explained, explained), 0.0)
        return self.mean + across @ self.weights, np.sqrt(self.variance * left)


def fit(inputs: Floats, values: Floats) -> GaussianProcess:
    """Fit a process to samples.

    Args:
        inputs: `(n, u)`, at least one.
        values: `(n,)`.
    """
    count = len(values)
    mean = float(values.mean())
    centred = values - mean
    distances = measure_distances(inputs, inputs)
    models: list[tuple[float, GaussianProcess]] = []
    for length in LENGTHS:
        correlation = matern(distances, length)
        correlation[np.diag_indices(count)] += NOISE
        factor = np.linalg.cholesky(correlation)
        inverse = np.asarray(np.linalg.inv(factor), dtype=np.float64)
        white = inverse @ centred
        variance = max(float(white @ white) / count, MIN_VARIANCE)
        loss = count * np.log(variance) / 2 + np.log(np.diag(factor)).sum()
        model = GaussianProcess(
            inputs=inputs,
            mean=mean,
            variance=variance,
            length=float(length),
            weights=inverse.T @ white,
            inverse_factor=inverse,
        )
        models.append((float(loss), model))
    return min(models, key=lambda pair: pair[0])[1]


def measure_distances(points: Floats, others: Floats) -> Floats:
    """Return the distances between points `(m, u)` and others `(n, u)`, `(m, n)`."""
    squares = (
        np.einsum("mu,mu->m", points, points)[:, None]
        + np.einsum("nu,nu->n", others, others)[None, :]
        - 2 * np.einsum("mu,nu->mn", points, others)
    )
    return np.sqrt(np.maximum(squares, 0.0))  # rounding may leave -1e-17


def matern(distances: Floats, length: float) -> Floats:
    """Return the Matern 5/2 correlation at distances."""
    a = np.sqrt(5) / length * distances
    return np.asarray((1 + a + a**2 / 3) * np.exp(-a))


ALL_BELOW = 20_000
"""Points of Omega up to which all of them are candidates."""
UNIFORM, NEARBY = 4000, 2000
"""Draws from all of Omega, and from around the best."""
REACH = 3
"""Replicas by which an operator of a nearby draw differs at most."""


def draw_candidates(
    floor: Parallelism,
    most: Parallelism,
    *,
    best: Parallelism,
    without: frozenset[Parallelism],
    rng: np.random.Generator,
) -> Counts:
    """Return candidates `(m, u)`, without those known; empty where all of Omega is known.

    Args:
        floor: pi^t.
        most: P_max of every operator.
        best: Of those known.
        without: Those known.
        rng: Draws them.
    """
    if math.prod(top - minimum + 1 for minimum, top in zip(floor, most, strict=True)) <= ALL_BELOW:
        ranges = [range(minimum, top + 1) for minimum, top in zip(floor, most, strict=True)]
        drawn = np.array([each for each in product(*ranges) if each not in without], dtype=np.int64)
        return drawn.reshape(-1, len(floor))
    low, high = np.array(floor), np.array(most)
    anywhere = rng.integers(low, high + 1, size=(UNIFORM, low.size))
    steps = rng.integers(-REACH, REACH + 1, size=(NEARBY, low.size))
    near = np.clip(np.array(best) + steps, low, high)
    drawn = np.unique(np.concatenate([anywhere, near]), axis=0)
    if not without:
        return drawn
    known = np.array(sorted(without))
    seen = (drawn[:, None, :] == known[None, :, :]).all(axis=2).any(axis=1)
    return np.asarray(drawn[~seen])


def scale_inputs(parallelisms: Counts, floor: Parallelism) -> Floats:
    """Return what a model is given of parallelisms `(m, u)`: pi^t_i / p_i.

    Latency and the part of the score for resources are both smoother in it than in the counts: the
    search needs half as many runs.
    """
    return np.array(floor, dtype=float) / parallelisms


def expect_improvement(mean: Floats, deviation: Floats, *, best: float, margin: float) -> Floats:
    """Return EI of candidates.

    Args:
        mean: mu of each, `(m,)`.
        deviation: sigma of each, `(m,)`.
        best: Greatest score so far, f(x+).
        margin: xi.
    """
    is_open = deviation > 0
    divisor = np.where(is_open, deviation, 1.0)  # any number: the last line answers sigma = 0
    return np.where(is_open, expected_improvement(-mean, divisor, -(best + margin)), 0.0)


RATES_KEPT = 12
"""Models that are remembered, by rate."""
SAME_RATE = 0.05
"""Relative distance up to which two rates share a model."""


def find_nearest(models: Sequence[Trained], rate: float) -> Trained | None:
    """Return the model whose rate is nearest, or `None`."""
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
