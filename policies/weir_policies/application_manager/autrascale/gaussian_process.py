"""A Gaussian process for some dozens of samples: Matern 5/2, one length scale, NumPy alone.

    k(r) = s^2 (1 + a + a^2 / 3) exp(-a),   a = sqrt(5) r / l
    mu(x) = m + k(x)^T (K + n I)^-1 (y - m),   var(x) = k(x, x) - k(x)^T (K + n I)^-1 k(x)

The length scale l is the one of greatest likelihood on a fixed grid; the variance s^2 that belongs
to it has a closed form, and the noise n is a fixed part of s^2. So a fit is a few factorisations of
a small matrix, and the same samples always give the same model.

Source: Zhang et al., IEEE TPDS 2024, Eq. 5; Rasmussen and Williams, "Gaussian Processes for Machine
Learning", 2006, sections 2.2, 4.2 and 5.4. The paper says Matern and prints neither the order nor
the hyper-parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies.model.arrays import Floats

NOISE = 1e-4
"""Variance of the noise, relative to that of the process."""
LENGTHS = np.geomspace(0.05, 5.0, 16)
"""Length scales to choose from, for inputs of the order of 1."""
LEAST_VARIANCE = 1e-8
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
        variance = max(float(white @ white) / count, LEAST_VARIANCE)
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
