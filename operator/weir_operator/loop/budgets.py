"""The latency budget of each operator at this tick.

Budgets come from a tuning if they still fit (`tuned.py`). Otherwise the bound is divided along the
paths: fixed operators keep what they need and are taken out of the graph; the others share the
rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir_operator.loop.operator_manager import ObservedOperator
from weir_operator.loop.tuned import UNTUNED, fit_budgets
from weir_policies.application_manager.budgets import share_budgets
from weir_policies.errors import InfeasibleObjectiveError
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.objective import Statistic, infer_tail
from weir_policies.model.queueing import min_response_time
from weir_policies.policy import Tuning
from weir_simulator.experiment import PathBound

WITHIN_REACH = 1.5
"""How many times the least possible response time is aimed at where the objective is below that:
half of it again leaves room for some waiting, and a price that somebody might pay."""

_SLOWLY = 0.2
"""Weight of a new interval in the ratio."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What of the objective each operator may use."""

    budgets: Mapping[str, float]
    """Seconds of mean response time."""
    infeasible: str = ""
    """Why the objective cannot be kept, so that what comes close is shared; empty where it can."""
    tuned: bool = False
    """Whether the budgets are those of the tuning."""


class BudgetSharing:
    """Shares the objective of one StreamApp."""

    def __init__(self, *, bound: float, statistic: str, paths: Sequence[PathBound]) -> None:
        """Create it for an objective; see `ApplicationManager`."""
        self._bound = bound
        self._statistic = Statistic(statistic.capitalize())
        self._paths = tuple(paths)
        self.tail = self._statistic.typical_tail
        """How many times the mean the bounded statistic is; until it was measured, that of an
        exponential time."""
        self.tuned: Tuning = UNTUNED
        """What the Operator Managers work with from the next tick on."""

    @property
    def mean_bound(self) -> float:
        """The bound on the mean that corresponds to the objective, seconds."""
        return self._bound / self.tail

    def note_output(self, *, mean: float, quantile: float) -> None:
        """Learn the ratio of the bounded quantile to the mean; ignore NaN and infinity.

        Budgets are means; a bound on a quantile is brought to a mean by this ratio.
        """
        if self._statistic is Statistic.MEAN or not (mean > 0 and math.isfinite(quantile)):
            return
        ratio = max(1.0, quantile / mean)
        self.tail += _SLOWLY * (ratio - self.tail)

    def state_dict(self) -> dict[str, Any]:
        """Return what was measured, for `load_state_dict`."""
        return {"statistic": self._statistic.word, "tail": self.tail}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, unless another statistic is bounded now.

        Raises:
            KeyError: It is damaged.
            TypeError: It is damaged.
            ValueError: It is damaged.
        """
        tail = float(state["tail"])
        if not 1.0 <= tail < math.inf:
            raise ValueError(f"Expected a tail of at least 1, got {tail}")
        if state["statistic"] == self._statistic.word:
            self.tail = tail

    def forget(self) -> None:
        """Forget what was measured."""
        self.tail = self._statistic.typical_tail

    def exceeds(self, dataflow: Dataflow, times: Mapping[str, float]) -> bool | None:
        """Return whether predicted times exceed a bound, the whole's or a sink's.

        Args:
            dataflow: The job's graph.
            times: Mean response time at each operator, seconds.

        Returns:
            `None` where that is not known.
        """
        whole = dataflow.response_time(times)
        if whole * self.tail > self._bound:
            return True
        unknown = math.isnan(whole)
        for sink, bound in self._mean_sink_bounds(dataflow).items():
            response = dataflow.leading_to(sink).response_time(times)
            if response > bound:
                return True
            unknown = unknown or math.isnan(response)
        return None if unknown else False

    def _tail_at(self, path: PathBound) -> float:
        return infer_tail(path.statistic, known=self._statistic, tail=self.tail)

    def _mean_sink_bounds(self, dataflow: Dataflow) -> dict[str, float]:
        """Return the bounds on the mean that correspond to those of single sinks, seconds."""
        return {
            path.sink: path.response_time / self._tail_at(path)
            for path in self._paths
            if path.sink in dataflow.operators
        }

    def share(self, dataflow: Dataflow, managers: Mapping[str, ObservedOperator]) -> Shares:
        """Return seconds of mean response time per operator; fixed ones get what they need.

        An objective out of reach is reported, and a similar bound is divided instead, so that a job
        that is overloaded is still scaled.
        """
        bound, sinks = self.mean_bound, self._mean_sink_bounds(dataflow)
        try:
            shared = self._share(dataflow, managers, bound, sinks)
            wished = self._fit_tuned(shared, dataflow, managers)
            return Shares(shared if wished is None else wished, tuned=wished is not None)
        except _OutOfReachError as error:
            near = WITHIN_REACH * error.possible
            ends = {sink: max(end, near) for sink, end in sinks.items()}
            return Shares(self._share(dataflow, managers, max(bound, near), ends), str(error))

    def _fit_tuned(
        self,
        shared: Mapping[str, float],
        dataflow: Dataflow,
        managers: Mapping[str, ObservedOperator],
    ) -> dict[str, float] | None:
        """Return the tuned budgets within the bounds; `None` if they do not fit."""
        wished = {
            name: budget
            for name, budget in self.tuned.budgets.items()
            if name in shared and managers[name].fixed is None
        }
        if not wished:
            return None
        return fit_budgets(
            wished,
            shared,
            least={name: _least(managers[name]) for name in dataflow.operators},
            dataflow=dataflow,
            bound=self.mean_bound,
            sink_bounds=self._mean_sink_bounds(dataflow),
        )

    def _share(
        self,
        dataflow: Dataflow,
        managers: Mapping[str, ObservedOperator],
        bound: float,
        sink_bounds: Mapping[str, float],
    ) -> dict[str, float]:
        """Return the budgets within bounds on the mean."""
        minimum = {name: _least(manager) for name, manager in managers.items()}
        fixed = [name for name in dataflow.operators if managers[name].fixed is not None]
        scaled = dataflow.without(fixed)
        own = {name: minimum[name] if name in fixed else 0.0 for name in dataflow.operators}
        reserved = dataflow.response_time(own)
        budgets = {name: minimum[name] for name in fixed}
        if scaled is None:
            return budgets
        floors = {name: minimum[name] for name in scaled.operators}
        # Both may lie on paths of their own, so together they may exceed the longest path.
        possible = reserved + scaled.response_time(floors)
        ends = self._bound_ends(dataflow, scaled, minimum, own, sink_bounds, possible)
        try:
            if bound <= reserved:
                raise InfeasibleObjectiveError("", least=possible)
            budgets |= share_budgets(scaled, bound - reserved, least=floors, sink_bounds=ends)
        except InfeasibleObjectiveError as error:
            raise _OutOfReachError(
                "responseTime", self._bound, dataflow.response_time(minimum) * self.tail, possible
            ) from error
        return budgets

    def _bound_ends(
        self,
        dataflow: Dataflow,
        scaled: Dataflow,
        minimum: Mapping[str, float],
        own: Mapping[str, float],
        sink_bounds: Mapping[str, float],
        possible: float,
    ) -> dict[str, float]:
        """Return the bounds of paths as what is left of them at the ends of the scaled graph.

        A sink is often fixed, so its bound is that of the scaled operators before it.
        """
        ends: dict[str, float] = {}
        for path in self._paths:
            if path.sink not in sink_bounds:
                continue
            part, bound, tail = (
                dataflow.leading_to(path.sink),
                sink_bounds[path.sink],
                self._tail_at(path),
            )
            shortest = part.response_time({name: minimum[name] for name in part.operators})
            if bound <= shortest:
                raise _OutOfReachError(
                    f"paths[{path.sink}].responseTime", bound * tail, shortest * tail, possible
                )
            left = bound - part.response_time({name: own[name] for name in part.operators})
            for end in set(scaled.sinks) & set(part.operators):
                ends[end] = min(left, ends.get(end, math.inf))
        return ends


class _OutOfReachError(Exception):
    """No deployment keeps the objective."""

    def __init__(self, field: str, bound: float, least: float, possible: float) -> None:
        """Word the refusal; the least is rounded up, so that a bound just above it is none."""
        super().__init__(
            f"{bound * 1000:.0f} ms cannot be met: a record takes at least "
            f"{math.ceil(least * 1000)} ms on the pools of this job. Raise spec.objective.{field}, "
            "or add a faster pool"
        )
        self.possible = possible
        """Seconds of mean response time without any load."""


def _least(manager: ObservedOperator) -> float:
    """Seconds that the operator needs at least; zero where its service time is not known yet."""
    model = manager.model
    if math.isnan(model.service_mean):
        return model.network_time
    if manager.fixed is None:
        return min_response_time(model)
    used = [t.speedup for count, t in zip(manager.fixed, model.node_types, strict=True) if count]
    return model.service_mean / min(used) + model.network_time
