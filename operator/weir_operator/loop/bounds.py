"""What bounds every decision, whatever the policy: floors, and a limit on cost. Pure.

Floors are the replicas that each operator must have at a time: `minReplicas`, and windows. The
largest counts. One that a window sets holds as soon as a change that is decided now could end after
the window begins, so that its replicas are there when it does. `objective.maxCostPerHour` is
divided among the operators.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from weir_operator.loop.cost import cost_per_hour
from weir_operator.loop.directives import Directives
from weir_operator.loop.guards import Guard, find_period, refuse_target
from weir_operator.loop.proposals import Proposal, Ruling, count_per_pool, keep_bounds
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.managers import Window
from weir_policies.application_manager.cost_cap import CapShares, share_cap
from weir_policies.kernels.bounds import CHEAPER, keep_within
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Observation, OperatorModel


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The fewest replicas that an operator must have."""

    replicas: int
    reason: str
    """Who asks for it, and until when, for people."""
    begins: float | None = None
    """Unix seconds; `None` where it holds all the time."""


Floors = Mapping[str, Floor]
"""By operator; those that may have one replica are left out."""


def floors_at(directives: Directives, now: float, *, ahead: float) -> dict[str, Floor]:
    """Return the floors that a decision must keep.

    Args:
        directives: What the manifest asks.
        now: Unix seconds.
        ahead: Seconds that a change may take.
    """
    floors = {
        each.name: Floor(
            replicas=each.min_replicas, reason=f"a floor of {each.min_replicas} by its minReplicas"
        )
        for each in directives.operators
        if each.min_replicas > 1
    }
    for window in directives.windows:
        if not window.min_replicas:
            continue
        period = find_period(window, now)
        if period is None or period.end <= now:  # one that is open comes before the next one
            period = find_period(window, now + ahead)
        if period is None or period.end <= now:
            continue
        for name, count in window.min_replicas.items():
            if count > 1 and (name not in floors or floors[name].replicas < count):
                until = f"until {format_end(window, period.end, now)}"
                if period.begin > now:
                    until = f"from {format_end(window, period.begin, now)} {until}"
                floors[name] = Floor(
                    replicas=count,
                    reason=f"a floor of {count} by the window {window.name} {until}",
                    begins=period.begin,
                )
    return floors


def format_end(window: Window, time: float, now: float) -> str:
    """Return a Unix time on the window's clocks, with its day where that is another than now."""
    zone = ZoneInfo(window.time_zone)
    there, here = datetime.fromtimestamp(time, zone), datetime.fromtimestamp(now, zone)
    pattern = "%H:%M" if there.date() == here.date() else "%Y-%m-%d %H:%M"
    return f"{there.strftime(pattern)} {window.time_zone}"


def keep_all_bounds(
    target: Deployments,
    models: Mapping[str, OperatorModel],
    floors: Floors,
    pool_limits: Mapping[str, int],
    max_prices: Mapping[str, float],
) -> Deployments:
    """Return deployments with what they lack, as far as pools have room and the cost is allowed.

    Args:
        target: Where no policy has decided to go, such as a fallback.
        models: Of each operator that may change.
        floors: What holds now.
        pool_limits: Most replicas over all operators, by pool that has a limit.
        max_prices: Currency per hour that each may cost, where that is limited.
    """
    raised = dict(target)
    for name in models:
        if name not in target:
            continue
        others = count_per_pool(raised[each] for each in raised if each != name)
        types = tuple(
            replace(each, pool_limit=max(pool_limits[each.pool] - others.get(each.pool, 0), 0))
            if each.pool in pool_limits
            else each
            for each in models[name].node_types
        )
        wanted = Deployment.from_named(target[name], types)
        kept = keep_within(
            replace(models[name], node_types=types),
            wanted,
            present=wanted,
            min_replicas=floors[name].replicas if name in floors else 1,
            max_price=max_prices.get(name),
        )
        if kept != wanted:
            raised[name] = kept.named(types)
    return raised


def insist(proposals: Mapping[str, Proposal], guards: Sequence[Guard]) -> dict[str, Proposal]:
    """Return the proposals; one that a guard denies and a floor needs only adds replicas instead.

    A policy may reach a floor with other replicas than those that run, which may be slower.
    """
    kept = dict(proposals)
    for name, proposal in proposals.items():
        seen = proposal.observation
        denied = refuse_target(seen, proposal.decision.target, guards)
        if proposal.is_required and denied is not None:
            kept[name] = keep_bounds(proposal, seen.deployment, {})
    return kept


def refuse_below_floors(target: Deployments, floors: Floors) -> str | None:
    """Return why deployments are denied, one sentence; `None` where they keep all floors."""
    for name, floor in floors.items():
        if name in target and sum(target[name].values()) < floor.replicas:
            return f"Denied: {name} has {floor.reason}"
    return None


def name_floors(ruling: Ruling, proposals: Mapping[str, Proposal], floors: Floors) -> Ruling:
    """Return the ruling with the floors that decide the number of replicas, or that are missed."""
    verdicts = dict(ruling.verdicts)
    for name, floor in floors.items():
        size = proposals[name].decision.target.size if name in proposals else floor.replicas + 1
        if size <= floor.replicas:
            missed = "" if size == floor.replicas else f", of which {size} find room"
            verdicts[name] = f"{verdicts.get(name, 'Stays')}; it has {floor.reason}{missed}"
    return replace(ruling, verdicts=verdicts)


def describe_missed(deployments: Deployments, floors: Floors, now: float) -> str:
    """Return which operators have fewer replicas than they must by now, a sentence, or nothing."""
    missed = []
    for name, floor in floors.items():
        size = sum(deployments.get(name, {}).values())
        if size < floor.replicas and (floor.begins is None or floor.begins <= now):
            noun = "replica" if size == 1 else "replicas"
            missed.append(f"{name} has {size} {noun}, and {floor.reason}")
    return "; ".join(missed)


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
