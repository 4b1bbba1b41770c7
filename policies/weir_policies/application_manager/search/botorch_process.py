"""BoTorch's Gaussian process as a surrogate: the reference for our own.

`SingleTaskGP` with a Matern 5/2 kernel. Slower than our own, and needs the extra `tune`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.transforms import Standardize
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.mlls import ExactMarginalLogLikelihood

from weir_policies.model.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class BotorchProcess:
    """A fitted model."""

    model: BatchedMultiOutputGPyTorchModel
    parameters: Floats
    """Empty: each fit starts over."""

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of outputs at points, `(m, d)`."""
        with torch.no_grad():
            posterior = self.model.posterior(torch.as_tensor(points))
        means, variances = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
        return means.numpy(), variances.sqrt().numpy()

    def believe(self, point: Floats) -> BotorchProcess:
        """Return the model as if its prediction at a point, `(d,)`, had been observed."""
        mean, _ = self.predict(point[None])
        believed = self.model.condition_on_observations(
            torch.as_tensor(point[None]), torch.as_tensor(mean[:, None])
        )
        return BotorchProcess(believed, self.parameters)


def seeded_fit(seed: int) -> Callable[[Floats, Floats, Floats | None], BotorchProcess]:
    """Return `fit_botorch` with what BoTorch draws, when a fit fails at first, from a seed."""

    def fit(inputs: Floats, outputs: Floats, _start: Floats | None) -> BotorchProcess:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return fit_botorch(inputs, outputs)

    return fit


def fit_botorch(inputs: Floats, outputs: Floats) -> BotorchProcess:
    """Return BoTorch's fit to the outputs, `(n,)`, at inputs, `(n, d)`."""
    points = torch.as_tensor(inputs)
    model = SingleTaskGP(
        points,
        torch.as_tensor(outputs[:, None]),
        covar_module=get_covar_module_with_dim_scaled_prior(
            ard_num_dims=points.shape[1], use_rbf_kernel=False
        ),
        outcome_transform=Standardize(m=1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    model.eval()
    return BotorchProcess(model, np.empty(0))
