"""The Application Manager: budgets for the operators, and verdicts on what they propose.

The naive one: budgets are shared along the paths without tuning. Fixed operators keep what they
need and are taken out of the graph; the rest of the bound belongs to those that can change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir_operator.controller.guards import Guard, direction_of, refuse_change
from weir_operator.controller.operator_manager import OperatorManager
from weir_operator.controller.proposals import Proposal, Ruling
from weir_operator.controller.shared_restarts import SharedRestarts
from weir_operator.controller.token_gate import TokenGate
from weir_operator.rescale.journal import DeploymentMap
from weir_operator.status import FailedDeployment
from weir_policies.application_manager.arbitration import (
    OperatorState,
    Request,
    Verdicts,
    arbitrate,
)
from weir_policies.application_manager.budgets import share_budgets
from weir_policies.application_manager.restart_budget import RestartBudget, RestartTokens
from weir_policies.errors import InfeasibleObjectiveError
from weir_policies.model.cost import price_per_hour
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.queueing import least_response_time
from weir_policies.promise import NEEDED, ChangeKind, Observation

WITHIN_REACH = 1.5
"""How many times the least possible response time is aimed at where the objective is below that:
half of it again leaves room for some waiting, and a price that somebody might pay."""
SATURATED = 0.95
"""Busy share of the worst replica from which more records do not get through."""

_TYPICAL_TAIL = {"mean": 1.0, "p95": -math.log(0.05), "p99": -math.log(0.01)}
"""Quantile over mean of an exponential time: what is assumed until the ratio was measured."""
_SLOWLY = 0.2
"""Weight of a new interval in the ratio."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What of the objective each operator may use."""

    budgets: Mapping[str, float]
    """Seconds of mean response time."""
    infeasible: str = ""
    """Why the objective cannot be kept, so that what comes close is shared; empty where it can."""


class ApplicationManager:
    """Budgets and arbitration for one StreamApp."""

    def __init__(
        self,
        *,
        bound: float,
        statistic: str,
        sink_bounds: Mapping[str, float],
        pool_limits: Mapping[str, int],
        restarts: RestartBudget,
        shared: SharedRestarts | None = None,
        gate: TokenGate | None = None,
    ) -> None:
        """Take over the objective.

        Args:
            bound: Seconds, source to sink.
            statistic: What of the response time is bounded: `mean`, `p95` or `p99`.
            sink_bounds: Tighter bounds by sink, seconds.
            pool_limits: Most replicas over all operators, by pool that has a limit.
            restarts: The restart budget.
            shared: The budget over all StreamApps; `None` where there is none.
            gate: The token bucket before the restart budget; `None` where there is none.
        """
        self._bound = bound
        self._statistic = statistic
        self._sink_bounds = dict(sink_bounds)
        self.pool_limits = dict(pool_limits)
        self.restarts = restarts
        self._shared = shared
        self._gate = gate
        self._tail = _TYPICAL_TAIL[statistic]

    @property
    def tail(self) -> float:
        """How many times the mean the bounded statistic is, as far as it was measured."""
        return self._tail

    def see_output(self, *, mean: float, quantile: float, now: float) -> None:
        """Learn how far the bounded quantile lies above the mean; NaN and infinity teach nothing.

        Budgets are means; a bound on a quantile is brought to a mean by this ratio.
        """
        if self._gate is not None:
            self._gate.see(mean if self._statistic == "mean" else quantile, now)
        if self._statistic == "mean" or not (mean > 0 and math.isfinite(quantile)):
            return
        ratio = max(1.0, quantile / mean)
        self._tail += _SLOWLY * (ratio - self._tail)

    def share(self, dataflow: Dataflow, managers: Mapping[str, OperatorManager]) -> Shares:
        """Return seconds of mean response time per operator; fixed ones get what they need.

        An objective out of reach is told, and what comes close to it is shared instead: a job that
        is overloaded besides is not left to it.
        """
        bound = self._bound / self._tail
        try:
            return Shares(self._share(dataflow, managers, bound, self._sink_bounds))
        except _OutOfReachError as error:
            near = WITHIN_REACH * error.possible
            ends = {sink: max(end, near * self._tail) for sink, end in self._sink_bounds.items()}
            return Shares(self._share(dataflow, managers, max(bound, near), ends), str(error))

    def _share(
        self,
        dataflow: Dataflow,
        managers: Mapping[str, OperatorManager],
        bound: float,
        sink_bounds: Mapping[str, float],
    ) -> dict[str, float]:
        """Return the budgets within a bound on the mean.

        Raises:
            _OutOfReachError: It cannot be kept; names the least possible one.
        """
        least = {name: _least(manager) for name, manager in managers.items()}
        fixed = [name for name in dataflow.operators if managers[name].fixed is not None]
        scaled = contract(dataflow, fixed)
        own = {name: least[name] if name in fixed else 0.0 for name in dataflow.operators}
        reserved = dataflow.response_time(own)
        budgets = {name: least[name] for name in fixed}
        if scaled is None:
            return budgets
        floors = {name: least[name] for name in scaled.operators}
        # Both may lie on paths of their own, so together they may exceed the longest path.
        possible = reserved + scaled.response_time(floors)
        ends = self._bound_ends(dataflow, scaled, least, own, sink_bounds, possible)
        try:
            if bound <= reserved:
                raise InfeasibleObjectiveError("", least=possible)
            budgets |= share_budgets(scaled, bound - reserved, least=floors, sink_bounds=ends)
        except InfeasibleObjectiveError as error:
            raise _OutOfReachError(
                "responseTime", self._bound, dataflow.response_time(least) * self._tail, possible
            ) from error
        return budgets

    def rule(
        self,
        proposals: Mapping[str, Proposal],
        *,
        dataflow: Dataflow,
        current: DeploymentMap,
        failed: tuple[FailedDeployment, ...],
        tokens: RestartTokens,
        now: float,
        guards: Sequence[Guard] = (),
        observations: Mapping[str, Observation] | None = None,
    ) -> Ruling:
        """Grant or deny what the operators propose.

        Args:
            proposals: One per operator that may change.
            dataflow: The job's graph.
            current: What runs.
            failed: Deployments that are not tried again.
            tokens: What is left of the restart budget.
            now: Unix seconds.
            guards: What forbids scaling now.
            observations: Of operators beside those that propose: a fixed one may be the bottleneck.
        """
        seen = {name: each.observation for name, each in proposals.items()} | dict(
            observations or {}
        )
        wishes = {
            name: proposal
            for name, proposal in proposals.items()
            if proposal.kind is not ChangeKind.NOTHING
        }
        barred = _bar(wishes, guards)
        allowed = {name: wish for name, wish in wishes.items() if name not in barred}
        if self._gate is not None:
            barred |= self._gate.refuse(allowed)
            allowed = {name: wish for name, wish in wishes.items() if name not in barred}
        verdicts = self._arbitrate(allowed, seen, dataflow, current, tokens, now)
        sentences = {verdict.operator: verdict.reason for verdict in verdicts.verdicts} | barred
        granted, restart, tokens_left = verdicts.granted, verdicts.restart, verdicts.tokens
        refusal = self._refuse_shared(allowed, granted, now) if restart else None
        if refusal is not None:
            rescales = [name for name in granted if allowed[name].kind is ChangeKind.RESCALE]
            sentences |= dict.fromkeys(rescales, f"Denied: {refusal}")
            granted = tuple(name for name in granted if name not in rescales)
            restart, tokens_left = False, tokens
        target = {name: dict(counts) for name, counts in current.items()}
        for name in granted:
            wish = wishes[name]
            types = wish.observation.model.node_types
            target[name] = wish.decision.target.named(types)
        for known in failed:
            if granted and known.deployment == target and now < known.until:
                left = (known.until - now) / 60
                sentence = (
                    f"Denied: this deployment failed before and is not tried again for {left:.0f} "
                    f"min ({known.reason})"
                )
                return Ruling(
                    verdicts=sentences | dict.fromkeys(granted, sentence),
                    granted=(),
                    target=current,
                    restart=False,
                    tokens=tokens,
                )
        if self._gate is not None and restart:
            self._gate.pay([name for name in granted if wishes[name].kind is ChangeKind.RESCALE])
        return Ruling(
            verdicts=sentences,
            granted=granted,
            target=target,
            restart=restart,
            tokens=tokens_left,
        )

    def buy(self, tokens: RestartTokens, now: float) -> RestartTokens | None:
        """Return the tokens after one more restart that is needed; `None` where none is left."""
        if self._shared is not None and self._shared.refuse(urgent=True, now=now) is not None:
            return None
        if not tokens.available(self.restarts, now):
            return None
        self.pay_shared(now)
        return tokens.take(self.restarts, now)

    def pay_shared(self, now: float) -> None:
        """Pay for a restart that begins, from the budget over all StreamApps."""
        if self._shared is not None:
            self._shared.take(now)

    def _refuse_shared(
        self, wishes: Mapping[str, Proposal], granted: tuple[str, ...], now: float
    ) -> str | None:
        """Return why the budget over all StreamApps does not bear the restart, or `None`."""
        if self._shared is None:
            return None
        urgent = any(wishes[name].decision.urgency >= NEEDED for name in granted)
        return self._shared.refuse(urgent=urgent, now=now)

    def _bound_ends(
        self,
        dataflow: Dataflow,
        scaled: Dataflow,
        least: Mapping[str, float],
        own: Mapping[str, float],
        sink_bounds: Mapping[str, float],
        possible: float,
    ) -> dict[str, float]:
        """Return the bounds of paths as what is left of them at the ends of the scaled graph.

        A sink is often fixed, so its bound is that of the scaled operators before it.
        """
        ends: dict[str, float] = {}
        for sink, bound in sink_bounds.items():
            if sink not in dataflow.operators:
                continue
            path = dataflow.leading_to(sink)
            shortest = path.response_time({name: least[name] for name in path.operators})
            if bound / self._tail <= shortest:
                raise _OutOfReachError(
                    f"paths[{sink}].responseTime", bound, shortest * self._tail, possible
                )
            left = bound / self._tail - path.response_time(
                {name: own[name] for name in path.operators}
            )
            for end in set(scaled.sinks) & set(path.operators):
                ends[end] = min(left, ends.get(end, math.inf))
        return ends

    def pay(self, tokens: RestartTokens, now: float) -> RestartTokens:
        """Return the tokens after one more restart; none is asked for where none is left."""
        return tokens.take(self.restarts, now) if tokens.available(self.restarts, now) else tokens

    def _arbitrate(
        self,
        wishes: Mapping[str, Proposal],
        seen: Mapping[str, Observation],
        dataflow: Dataflow,
        current: DeploymentMap,
        tokens: RestartTokens,
        now: float,
    ) -> Verdicts:
        requests = [
            Request(
                operator=name,
                kind=wish.kind,
                current=wish.observation.deployment.per_pool(wish.observation.model.node_types),
                target=wish.decision.target.per_pool(wish.observation.model.node_types),
                urgency=wish.decision.urgency,
                saving=price_per_hour(
                    wish.observation.deployment, wish.observation.model.node_types
                )
                - wish.decision.expectation.cost_per_hour,
            )
            for name, wish in wishes.items()
        ]
        states = {
            name: OperatorState(
                replicas=_per_pool(current.get(name, {})),
                saturated=name in seen and max(seen[name].utilisation, default=0.0) >= SATURATED,
                downstream=tuple(edge.target for edge in dataflow.out_of(name)),
            )
            for name in dataflow.operators
        }
        return arbitrate(
            requests,
            operators=states,
            pool_limits=self.pool_limits,
            tokens=tokens,
            budget=self.restarts,
            now=now,
        )


def _bar(wishes: Mapping[str, Proposal], guards: Sequence[Guard]) -> dict[str, str]:
    """Return why a guard denies a wish, by operator."""
    barred = {}
    for name, wish in wishes.items():
        seen = wish.observation
        direction = direction_of(seen.deployment, wish.decision.target, seen.model.node_types)
        sentence = refuse_change(direction, guards)
        if sentence is not None:
            barred[name] = sentence
    return barred


class _OutOfReachError(Exception):
    """No deployment keeps the objective."""

    def __init__(self, field: str, bound: float, least: float, possible: float) -> None:
        """Word the refusal; the least is rounded up, so that a bound just above it is none."""
        super().__init__(
            f"spec.objective.{field}: expected more than {math.ceil(least * 1000)} ms, the least "
            f"possible on these pools, got {bound * 1000:.0f} ms; raise the bound or add a faster "
            "pool"
        )
        self.possible = possible
        """Seconds of mean response time without any load."""


def contract(dataflow: Dataflow, removed: list[str]) -> Dataflow | None:
    """Return the graph without some operators, feeders joined to followers; `None` if empty."""
    edges = {(edge.source, edge.target) for edge in dataflow.edges}
    for name in removed:
        feeders = {source for source, target in edges if target == name}
        followers = {target for source, target in edges if source == name}
        edges = {edge for edge in edges if name not in edge}
        edges |= {(feeder, follower) for feeder in feeders for follower in followers}
    left = tuple(name for name in dataflow.operators if name not in removed)
    if not left:
        return None
    return Dataflow(operators=left, edges=tuple(Edge(source=a, target=b) for a, b in sorted(edges)))


def _least(manager: OperatorManager) -> float:
    """Seconds that the operator needs at least; zero where its service time is not known yet."""
    model = manager.model
    if math.isnan(model.service_mean):
        return model.network_time
    if manager.fixed is None:
        return least_response_time(model)
    used = [t.speedup for count, t in zip(manager.fixed, model.node_types, strict=True) if count]
    return model.service_mean / min(used) + model.network_time


def _per_pool(counts: Mapping[str, int]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for node_type, count in counts.items():
        pool = node_type.split("/", 1)[0]
        pools[pool] = pools.get(pool, 0) + count
    return pools
