"""An exact Gaussian process of our own, for searches that cannot wait for BoTorch.

Matern 5/2 kernel with a length scale per coordinate, outputs standardised, an unknown constant
mean, and hyper-parameters of greatest posterior density, found by L-BFGS with analytic gradients.
It suits about a hundred outputs: every fit inverts their covariance a dozen times or more.
BoTorch's is the reference (`botorch_process` has the same interface, a test compares them).
Together with `surrogate`, it serves any algorithm with "a Gaussian process and expected
improvement".

Sources: Rasmussen, Williams: Gaussian Processes for Machine Learning, 2006, chapters 2, 4.2.1 and
5.4.1. Priors of the length scales: Hvarfner, Hellsten, Nardi: Vanilla Bayesian Optimization
Performs Great in High Dimensions, ICML 2024, as in BoTorch; so is the prior of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from weir_policies.model.arrays import Floats

MEAN_VARIANCE = 1.0
"""Prior variance of the mean, in variances of the outputs."""
LENGTH_DEVIATION = math.sqrt(3)
"""Standard deviation of the prior of a logarithm of a length scale."""
NOISE_MEDIAN = -4.0
"""Logarithm of the median of the noise's variance."""
NOISE_RANGE = (-14.0, 0.0)
"""Least and greatest logarithm of the noise's variance: below, the covariance loses its inverse."""
LENGTH_RANGE = (-4.0, 5.0)
"""The same of a length scale; the cube has edges of 1."""
ITERATIONS = 30
"""Of L-BFGS at most; from the former fit's result it needs a few."""
MIN_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class GaussianProcess:
    """Outputs and what they say of all other points."""

    inputs: Floats
    """Points of the cube, `(n, d)`."""
    outputs: Floats
    """What was observed there, `(n,)`."""
    parameters: Floats
    """Logarithms of the length scales and of the noise's variance, `(d + 1,)`."""
    factor: Floats
    """Lower Cholesky factor of the covariance of the standardised outputs, `(n, n)`."""
    solved: Floats
    """Inverse of the covariance times the standardised outputs, `(n,)`."""
    centre: float
    scale: float
    """Outputs are standardised by these."""

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of outputs, without their noise.

        Args:
            points: Of the cube, `(m, d)`.

        Returns:
            Two arrays of shape `(m,)`, in the outputs' unit.
        """
        lengths = np.exp(self.parameters[:-1])
        covariance = matern(_distances(points / lengths, self.inputs / lengths)) + MEAN_VARIANCE
        means = covariance @ self.solved
        whitened = solve_triangular(self.factor, covariance.T, lower=True)
        variances = 1 + MEAN_VARIANCE - (whitened**2).sum(axis=0)
        deviations = np.sqrt(np.maximum(variances, MIN_VARIANCE))
        return self.centre + self.scale * means, self.scale * deviations

    def believe(self, point: Floats) -> GaussianProcess:
        """Return the process as if its prediction at a point, `(d,)`, had been observed."""
        mean, _ = self.predict(point[None])
        return condition(
            np.vstack([self.inputs, point]),
            np.append(self.outputs, mean),
            self.parameters,
            centre=self.centre,
            scale=self.scale,
        )


def fit_process(inputs: Floats, outputs: Floats, *, start: Floats | None = None) -> GaussianProcess:
    """Return the process of greatest posterior density.

    Args:
        inputs: Points of the cube, `(n, d)`, n >= 1.
        outputs: What was observed there, `(n,)`.
        start: Parameters to begin with, of a former fit, `(d + 1,)`; `None` is the priors' medians.
    """
    centre, scale = float(outputs.mean()), float(outputs.std()) or 1.0
    standardised = (outputs - centre) / scale
    medians = np.array([*_length_medians(inputs.shape[1]), NOISE_MEDIAN])
    found = minimize(
        _loss,
        medians if start is None else start,
        args=(inputs, standardised, medians),
        jac=True,
        method="L-BFGS-B",
        bounds=[*[LENGTH_RANGE] * inputs.shape[1], NOISE_RANGE],
        options={"maxiter": ITERATIONS},
    )
    return condition(inputs, outputs, found.x, centre=centre, scale=scale)


def condition(
    inputs: Floats,
    outputs: Floats,
    parameters: Floats,
    *,
    centre: float,
    scale: float,
) -> GaussianProcess:
    """Return the process with given parameters."""
    covariance, *_ = _covariance(inputs, parameters)
    factor, _ = cho_factor(covariance, lower=True)
    solved = cho_solve((factor, True), (outputs - centre) / scale)
    return GaussianProcess(inputs, outputs, parameters, np.tril(factor), solved, centre, scale)


def matern(distances: Floats) -> Floats:
    """Return the Matern 5/2 correlation at distances in length scales (equation 4.17)."""
    reach = math.sqrt(5) * distances
    return (1 + reach + reach**2 / 3) * np.exp(-reach)


def _covariance(inputs: Floats, parameters: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the covariance of the outputs, their squared differences and their distances.

    The differences are by coordinate, in length scales, `(d, n, n)`.
    """
    scaled = inputs / np.exp(parameters[:-1])
    squares = (scaled.T[:, :, None] - scaled.T[:, None, :]) ** 2
    distances = np.sqrt(squares.sum(axis=0))
    covariance = matern(distances) + MEAN_VARIANCE
    covariance[np.diag_indices_from(covariance)] += np.exp(parameters[-1])
    return covariance, squares, distances


def _loss(
    parameters: Floats, inputs: Floats, outputs: Floats, medians: Floats
) -> tuple[float, Floats]:
    """Return the negative logarithm of the posterior density, and its gradient (equation 5.9)."""
    covariance, squares, distances = _covariance(inputs, parameters)
    factor, _ = cho_factor(covariance, lower=True)
    inverse = cho_solve((factor, True), np.eye(len(outputs)))
    solved = inverse @ outputs
    loss = outputs @ solved / 2 + np.log(np.diag(factor)).sum()
    inner = (inverse - np.outer(solved, solved)) / 2
    reach = math.sqrt(5) * distances
    # The derivative of the correlation by a logarithm of a length scale.
    slope = inner * (5 / 3 * (1 + reach) * np.exp(-reach))
    gradient = np.empty_like(parameters)
    gradient[:-1] = (squares * slope).sum(axis=(1, 2))
    gradient[-1] = np.exp(parameters[-1]) * np.trace(inner)
    deviations = np.array([*[LENGTH_DEVIATION] * (len(parameters) - 1), 1.0])
    away = (parameters - medians) / deviations
    return float(loss + (away**2).sum() / 2), gradient + away / deviations


def _length_medians(dimensions: int) -> list[float]:
    return [math.sqrt(2) + math.log(dimensions) / 2] * dimensions


def _distances(left: Floats, right: Floats) -> Floats:
    """Return the distance of every point of `left`, `(m, d)`, to every one of `right`, `(n, d)`."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.sqrt(np.maximum(squares, 0.0))
