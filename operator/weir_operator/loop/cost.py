"""What a StreamApp costs, from its manifest and its deployments, and what it may cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from weir_operator.loop.floors import Floors
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_policies.application_manager.cost_cap import CapShares, share_cap
from weir_policies.kernels.bounds import CHEAPER
from weir_policies.policy import Observation, OperatorModel


def prices(app: StreamApp) -> dict[str, float]:
    """Return the currency per replica and hour of every node type."""
    return {
        each.name: each.price
        for name in world.operator_names(app)
        for each in world.node_types(app, name)
    }


def cost_per_hour(
    deployments: Deployments,
    prices: Mapping[str, float],
    *,
    job_manager: float,
) -> float:
    """Return the currency per hour of all replicas and the JobManager.

    A replica of a node type that the manifest has no more costs nothing that is known: it is left
    out until the next change has ended it.
    """
    replicas = sum(
        count * prices.get(node_type, 0.0)
        for counts in deployments.values()
        for node_type, count in counts.items()
    )
    return job_manager + replicas


class CostCap:
    """Keeps a StreamApp within `objective.maxCostPerHour`."""

    def __init__(
        self, limit: float | None, *, prices: Mapping[str, float], job_manager: float
    ) -> None:
        """Create it for a limit.

        Args:
            limit: Currency per hour, everything that is paid included; `None` is no limit.
            prices: Of every node type, see `prices`.
            job_manager: Price of the JobManager.
        """
        self._limit = limit
        self._prices = dict(prices)
        self._job_manager = job_manager
        self._shares: CapShares | None = None

    def limit_observations(
        self, seen: Mapping[str, Observation], fixed: Collection[str]
    ) -> dict[str, Observation]:
        """Return what operators know, with what each may cost.

        Args:
            seen: Of all operators.
            fixed: Those whose deployment never changes; the others share what these leave.
        """
        scaled = {name: each for name, each in seen.items() if name not in fixed}
        if self._limit is None or not scaled:
            return dict(seen)
        deployed = {
            name: seen[name].deployment.named(seen[name].model.node_types) for name in fixed
        }
        self._shares = share_cap(
            {name: each.model for name, each in scaled.items()},
            budgets={name: each.budget for name, each in scaled.items()},
            rates={
                name: each.rate if math.isnan(each.offered_rate) else each.offered_rate
                for name, each in scaled.items()
            },
            floors={name: each.min_replicas for name, each in scaled.items()},
            money=self._limit - self.cost_of(deployed),
            before=self._shares,
        )
        limits = self._shares.prices
        return {
            name: replace(each, max_price=limits[name]) if name in limits else each
            for name, each in seen.items()
        }

    def find_limits(
        self, current: Deployments, models: Mapping[str, OperatorModel], floors: Floors
    ) -> Mapping[str, float]:
        """Return what each operator may cost where nothing is measured, by name.

        Args:
            current: What runs.
            models: Of each operator that may change.
            floors: What holds now.
        """
        if self._limit is None or not models:
            return {}
        if self._shares is None or self._shares.prices.keys() != models.keys():
            self._shares = share_cap(
                models,
                budgets={},
                rates={},
                floors={name: floor.replicas for name, floor in floors.items()},
                money=self._limit
                - self.cost_of(
                    {name: each for name, each in current.items() if name not in models}
                ),
            )
        return self._shares.prices

    def cost_of(self, deployments: Deployments) -> float:
        """Return the currency per hour of deployments and the JobManager."""
        return cost_per_hour(deployments, self._prices, job_manager=self._job_manager)

    def refuse(self, target: Deployments, current: Deployments) -> str | None:
        """Return why a change costs too much, one sentence; `None` where it does not."""
        cost = self.cost_of(target)
        if self._limit is None or cost <= max(self._limit * CHEAPER, self.cost_of(current)):
            return None
        return (
            f"Denied: the StreamApp would cost {cost:.4g} per hour, and objective.maxCostPerHour"
            f" is {self._limit:.4g}"
        )

    def describe(
        self, seen: Mapping[str, Observation], short: Collection[str], floors: Floors
    ) -> str:
        """Return what the limit does not pay for, one sentence; empty where it pays for all.

        Args:
            seen: Of all operators, with what each may cost.
            short: Operators that need more than they may cost.
            floors: What holds now.
        """
        if self._limit is None or self._shares is None:
            return ""
        limit = f"objective.maxCostPerHour = {self._limit:.4g}"
        if not self._shares.is_enough:
            return f"{limit} does not pay for one replica of each operator"
        missed = [
            f"{name} has {floor.reason}"
            for name, floor in floors.items()
            if name in seen and not _pays_for(seen[name], floor.replicas)
        ]
        if missed:
            return f"{limit} does not pay for all floors: {'; '.join(missed)}"
        return f"{limit} does not pay for what {', '.join(short)} would need" if short else ""


def _pays_for(observation: Observation, replicas: int) -> bool:
    """Return whether an operator may have so many replicas of its cheapest node type."""
    limit = observation.max_price
    cheapest = min(each.price for each in observation.model.node_types)
    return limit is None or replicas * cheapest <= limit * CHEAPER
