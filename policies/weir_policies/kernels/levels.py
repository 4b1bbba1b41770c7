"""Rate levels, schedules and expected violations, shared by the learning policies.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, sections 4 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Floats
from weir_policies.parameters import PolicyParameters, setting

ALPHA_DECAY, ALPHA_EVERY = 0.98, 10
EPSILON_DECAY = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningParameters(PolicyParameters):
    """How a policy that learns or plans cuts the rate into levels, and weighs the future."""

    levels: int = setting(30, low=1, high=10_000, whole=True)
    """Rate levels, L."""
    max_rate: float | None = setting(None, low=0, low_allowed=False)
    """Records/s that the levels cover; what is above shares the highest. `None`: what the fastest
    deployment can process."""
    gamma: float = setting(0.99, low=0, high=1, high_allowed=False)
    """Weight of the next interval's costs against this one's."""

    def find_quanta(self, view: View) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return the width of a level in records/s, one per operator `(o,)`.

        Raises:
            ParameterError: `max_rate` is open and the service time not known.
        """
        if self.max_rate is not None:
            return np.full(view.counts.shape[0], self.max_rate / self.levels)
        fastest = view.speedup.max(axis=1) * view.model["max_replicas"]
        quanta = fastest / view.model["service_mean"] / self.levels
        if not np.isfinite(quanta).all():
            raise ParameterError(
                "Expected max_rate, because the service time is not known yet, got none; give the "
                "records/s that the levels are to cover"
            )
        return np.asarray(quanta)


def find_gains(view: View) -> Floats:
    """Return the records/s at each operator per record/s at every source, `(o,)`."""
    gains = np.ones(view.counts.shape[0])
    gains[view.edges[:, 1]] = 0.0
    for (above, below), selectivity in zip(view.edges, view.selectivity, strict=True):
        gains[below] += gains[above] * selectivity
    return gains


@compiled
def level_of(rate: float, quantum: float, levels: int) -> int:
    """Return the level of a rate: rounded down, the highest one for all that is above."""
    return min(int(rate / quantum), levels - 1)


@compiled
def middle_of(level: int, quantum: float) -> float:
    """Return the rate in the middle of a level, records/s."""
    return (level + 0.5) * quantum


@compiled
def learning_rate(updates: int, least: float) -> float:
    """Return alpha for the update that follows so many: 1, times 0.98 every ten, with a floor."""
    if updates > 2500 and least >= 0.01:
        return least  # 0.98^250 is below 0.01: the power is the dear part of an update
    return max(least, ALPHA_DECAY ** (updates // ALPHA_EVERY))


@compiled
def exploration_rate(selections: int, least: float) -> float:
    """Return epsilon for the selection that follows so many: 1, times 0.95 each, with a floor."""
    if selections > 100 and least >= 0.01:
        return least
    return max(least, EPSILON_DECAY**selections)


@compiled
def nearest_level(rate: float, quantum: float, levels: int) -> int:
    """Return the level whose rate, level times quantum, is nearest; the highest for all above."""
    return min(int(rate / quantum + 0.5), levels - 1)
