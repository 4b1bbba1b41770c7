"""The unit cube that searches work in, and the weights and latency budgets it stands for.

Every point of the cube is feasible, so that no search needs a constrained solver:

1. Two coordinates give the weights, by the logarithms of their ratios to the weight of resources:
   the sum is one, each is above zero, and the middle of the cube is equal weights.
2. One coordinate per operator that others follow breaks a piece off what its slowest path has left
   of the bound (stick-breaking); of the tightest, where single sinks have bounds of their own. An
   operator that nothing follows takes all that is left. Over no path do the budgets add up to more
   than a bound; the middle of the cube is equal quotas along the longest path.
3. What a path has left then is given to its operators (`spread_spare`, Algorithm 5 of the source).

Source of the problem: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, equations 13 to 17. It
lets the sum over a path lie within 5 % of the bound, by constraints on the search's solver; here it
is the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from weir_policies.application_manager.budgets import spread_spare
from weir_policies.model.arrays import Floats
from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import CostWeights, Tuning

WEIGHT_SPAN = 4.0
"""Greatest logarithm of a weight's ratio to that of resources: 55 times more or less."""
BUDGET_SPAN = 2.5
"""Greatest change of a piece's log odds against its equal quota: 12 times more or less."""
WEIGHT_COORDINATES = 2
INSIDE = 1e-6
"""How far from 0 and 1 a part is kept whose logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Space:
    """The cube of a dataflow and its bound."""

    dataflow: Dataflow
    bound: float
    """Seconds from source to sink."""
    sink_bounds: Mapping[str, float] = field(default_factory=dict)
    """Seconds on the paths to some operators, mostly sinks."""
    breaking: tuple[str, ...] = field(init=False)
    """Operators with a coordinate, in the order of the coordinates."""
    quotas: Mapping[str, float] = field(init=False)
    """Equal part of what is left at an operator: one by the operators still to come, itself
    included, on the longest path."""
    tightest: Mapping[str, float] = field(init=False)
    """Seconds of the tightest bound among those of the paths through each operator."""

    def __post_init__(self) -> None:
        """Count what follows each operator, and find its tightest bound."""
        counts: dict[str, int] = {}
        tightest: dict[str, float] = {}
        for name in reversed(self.dataflow.order):
            behind = [edge.target for edge in self.dataflow.out_of(name)]
            counts[name] = 1 + max((counts[each] for each in behind), default=0)
            own = min(self.bound, self.sink_bounds.get(name, self.bound))
            tightest[name] = min([own, *(tightest[each] for each in behind)])
        followed = tuple(name for name in self.dataflow.order if counts[name] > 1)
        object.__setattr__(self, "breaking", followed)
        object.__setattr__(self, "quotas", {name: 1 / count for name, count in counts.items()})
        object.__setattr__(self, "tightest", tightest)

    @property
    def dimensions(self) -> int:
        """Coordinates of a point."""
        return WEIGHT_COORDINATES + len(self.breaking)

    def decode(self, coordinates: Floats) -> Tuning:
        """Return the point's weights, which sum to one, and budgets; a point has shape `(d,)`."""
        logs = WEIGHT_SPAN * (2 * coordinates[:WEIGHT_COORDINATES] - 1)
        parts = np.exp([logs[0], 0.0, logs[1]])
        violation, resources, reconfiguration = (float(part) for part in parts / parts.sum())
        pieces = dict(zip(self.breaking, coordinates[WEIGHT_COORDINATES:], strict=True))
        budgets: dict[str, float] = {}
        for name, left in self._walk(budgets):
            piece = 1.0
            if name in pieces:
                odds = _log_odds(self.quotas[name]) + BUDGET_SPAN * (2 * float(pieces[name]) - 1)
                piece = 1 / (1 + math.exp(-odds))
            budgets[name] = left * piece
        return Tuning(
            weights=CostWeights(
                violation=violation, resources=resources, reconfiguration=reconfiguration
            ),
            budgets=self._spread(budgets),
        )

    def encode(self, tuning: Tuning) -> Floats:
        """Return the point nearest to given weights and budgets, shape `(d,)`.

        Spare time of a path is not kept: a point has none.
        """
        weights = tuning.weights
        resources = max(weights.resources, INSIDE)
        others = np.maximum([weights.violation, weights.reconfiguration], INSIDE)
        logs = np.log(others / resources)
        coordinates = [*(logs / WEIGHT_SPAN + 1) / 2]
        budgets: dict[str, float] = {}
        for name, left in self._walk(budgets):
            budgets[name] = min(tuning.budgets[name], left)
            if name in self.breaking:
                piece = min(max(budgets[name] / left, INSIDE), 1 - INSIDE) if left > 0 else INSIDE
                odds = _log_odds(piece) - _log_odds(self.quotas[name])
                coordinates.append((odds / BUDGET_SPAN + 1) / 2)
        return np.clip(np.array(coordinates), 0.0, 1.0)

    def _spread(self, budgets: Mapping[str, float]) -> dict[str, float]:
        """Return the budgets with what paths have left given out, within every bound."""
        spread = spread_spare(self.dataflow, self.bound, budgets)
        for sink, bound in self.sink_bounds.items():
            if bound < self.bound:
                paths = self.dataflow.leading_to(sink)
                own = {name: budgets[name] for name in paths.operators}
                tighter = spread_spare(paths, bound, own)
                # The smaller of two budgets keeps both bounds.
                spread |= {name: min(spread[name], budget) for name, budget in tighter.items()}
        return spread

    def _walk(self, budgets: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        """Yield each operator behind those that feed it, and the seconds that are left there.

        `budgets` is filled by the caller on the way.
        """
        spent: dict[str, float] = {}
        for name in self.dataflow.order:
            spent[name] = max(
                (spent[edge.source] + budgets[edge.source] for edge in self.dataflow.into(name)),
                default=0.0,
            )
            yield name, self.tightest[name] - spent[name]


def _log_odds(part: float) -> float:
    return math.log(part / (1 - part))
