"""The Application Manager: budgets for the operators, verdicts on what they propose, the fallback.

Budgets come from a tuning if they still fit. Otherwise the bound is divided along the paths: fixed
operators keep what they need and are taken out of the graph; the others share the rest.

A tuning uses the objective and the operators as they were when it began. Since then, the ratio of
the bounded quantile to the mean has been measured again, and so has the minimum time of each
operator. If the tuned budgets exceed the bound, they are moved towards the minimum times by one
common factor. If they are below the minimum, they are not used.

Without metrics, Weir cannot know how much capacity is needed. Users who fear overload more than
cost ask for the largest deployment, or name one (`spec.fallback`). Once metrics are healthy, the
regular decisions reduce it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from weir_operator.loop.bounds import (
    CostCap,
    Floors,
    Guard,
    ScalingDirection,
    keep_all_bounds,
    refuse_change,
    refuse_target,
)
from weir_operator.loop.decide import ObservedOperator
from weir_operator.loop.gather import Snapshot
from weir_operator.loop.proposals import Move, Proposal, Ruling, count_per_pool
from weir_operator.loop.restart_limits import SharedRestarts, TokenGate
from weir_operator.loop.slow_nodes import NodeWatch
from weir_operator.rescale.status import AppStatus, FailedDeployment, find_failed
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.managers import Fallback, FallbackDeployment
from weir_policies.application_manager.arbitration import (
    Request,
    Verdicts,
    arbitrate,
    refuse_restart,
)
from weir_policies.application_manager.budgets import share_budgets
from weir_policies.application_manager.restart_budget import RestartBudget, RestartTokens
from weir_policies.errors import InfeasibleObjectiveError
from weir_policies.model.cost import price_per_hour
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.model.objective import Statistic, infer_tail
from weir_policies.model.queueing import min_response_time
from weir_policies.policy import (
    NEEDED,
    ChangeKind,
    CostWeights,
    Observation,
    OperatorModel,
    Tuning,
)
from weir_simulator.experiment import Objective

UNTUNED = Tuning(weights=CostWeights(), budgets={})
"""Operators without a budget get a share of what the others leave."""

SATURATED = 0.95
"""Busy share of the worst replica from which more records do not get through."""


class ApplicationManager:
    """Budgets and arbitration for one StreamApp."""

    def __init__(
        self,
        *,
        objective: Objective,
        pool_limits: Mapping[str, int],
        restarts: RestartBudget,
        shared: SharedRestarts | None = None,
        gate: TokenGate | None = None,
        nodes: NodeWatch | None = None,
        cap: CostCap | None = None,
    ) -> None:
        """Create it for an objective.

        Args:
            objective: What is bounded of the response time.
            pool_limits: Most replicas over all operators, by pool that has a limit.
            restarts: The restart budget.
            shared: The budget over all StreamApps; `None` where there is none.
            gate: The token bucket before the restart budget; `None` where there is none.
            nodes: Finds replicas that are to leave their nodes; `None` where none ever is.
            cap: What the StreamApp may cost; `None` is no limit.
        """
        self.sharing = BudgetSharing(objective)
        """What of the objective each operator may use."""
        self.pool_limits = dict(pool_limits)
        self.restarts = restarts
        self._shared = shared
        self._statistic = objective.statistic
        self._gate = gate
        self._nodes = nodes
        self.cap = cap or CostCap(None, prices={}, job_manager=0.0)
        """What the StreamApp may cost."""

    def note_output(self, *, mean: float, quantile: float, now: float) -> None:
        """Show the gate the response time, and learn of its tail; see `BudgetSharing`."""
        if self._gate is not None:
            self._gate.note(mean if self._statistic is Statistic.MEAN else quantile, now)
        self.sharing.note_output(mean=mean, quantile=quantile)

    def find_move(self, snapshot: Snapshot, status: AppStatus) -> Move | None:
        """Return which replica should leave its node, or `None`."""
        app = snapshot.app
        if self._nodes is None or app is None:
            return None
        return self._nodes.look(app, snapshot.replicas, last=status.rescale, now=snapshot.now)

    def rule(
        self,
        proposals: Mapping[str, Proposal],
        *,
        dataflow: Dataflow,
        current: Deployments,
        failed: tuple[FailedDeployment, ...],
        tokens: RestartTokens,
        now: float,
        guards: Sequence[Guard] = (),
        observations: Mapping[str, Observation] | None = None,
        move: Move | None = None,
    ) -> Ruling:
        """Grant or deny what the operators propose, and where nothing of it is done, a move.

        Args:
            proposals: One per operator that may change.
            dataflow: The job's graph.
            current: What runs.
            failed: Deployments that are not tried again.
            tokens: What is left of the restart budget.
            now: Unix seconds.
            guards: What forbids scaling now.
            observations: Of operators that do not propose, too: a fixed one may be the bottleneck.
            move: A replica that is to leave its node.
        """
        seen = {name: each.observation for name, each in proposals.items()} | dict(
            observations or {}
        )
        wishes = {
            name: proposal
            for name, proposal in proposals.items()
            if proposal.kind is not ChangeKind.NOTHING
        }
        barred = {
            name: refusal
            for name, wish in wishes.items()
            if (refusal := refuse_target(wish.observation, wish.decision.target, guards))
        }
        allowed = {name: wish for name, wish in wishes.items() if name not in barred}
        # Why the replica stays on its node; by score it competes with the wishes for a token.
        stays = None if move is None else refuse_change(ScalingDirection.ACROSS, guards)
        if self._gate is not None:
            asked = None if move is None or stays else move.request
            barred |= self._gate.refuse(allowed, asked, room=self._find_room(current))
            stays = stays or (None if move is None else barred.pop(move.replica, None))
            allowed = {name: wish for name, wish in wishes.items() if name not in barred}
        verdicts = self._arbitrate(allowed, seen, dataflow, current, tokens, now)
        sentences = {**verdicts.sentences, **barred}
        granted, restart, tokens_left = verdicts.granted, verdicts.restart, verdicts.tokens
        urgent = any(allowed[name].decision.urgency >= NEEDED for name in granted)
        refusal = self._refuse_shared(urgent=urgent) if restart else None
        if refusal is not None:
            rescales = [name for name in granted if allowed[name].kind is ChangeKind.RESCALE]
            sentences |= dict.fromkeys(rescales, f"Denied: {refusal}")
            granted = tuple(name for name in granted if name not in rescales)
            restart, tokens_left = False, tokens
        target, too_dear = self._add_up(granted, wishes, current)
        if too_dear:
            sentences |= too_dear
            granted = tuple(name for name in granted if name not in too_dear)
            if restart and all(wishes[name].kind is not ChangeKind.RESCALE for name in granted):
                restart, tokens_left = False, tokens
        ruling = Ruling(
            verdicts=sentences,
            granted=granted,
            target=target,
            restart=restart,
            tokens=tokens_left,
        )
        known = find_failed(failed, current, target, now)
        if granted and known is not None:
            ruling = Ruling(
                verdicts={**sentences, **dict.fromkeys(granted, describe_failed(known, now))},
                granted=(),
                target=current,
                restart=False,
                tokens=tokens,
            )
        if self._gate is not None and ruling.restart:
            self._gate.pay([name for name in granted if wishes[name].kind is ChangeKind.RESCALE])
        return ruling if move is None else self._rule_move(move, stays, ruling, now)

    def _add_up(
        self, granted: Sequence[str], wishes: Mapping[str, Proposal], current: Deployments
    ) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
        """Return where what is granted leads, and what of it is denied for its cost, and why.

        Each operator keeps to its part, but one that is denied may hold more than its part now.
        """
        target = {name: dict(counts) for name, counts in current.items()}
        denied: dict[str, str] = {}
        ranked = sorted(granted, key=lambda name: _rank(wishes[name]), reverse=True)
        for name in ranked:
            wish = wishes[name]
            before, types = target[name], wish.observation.model.node_types
            target[name] = wish.decision.target.named(types)
            refusal = self.cap.refuse(target, {**target, name: before})
            if refusal is not None:
                denied[name], target[name] = refusal, before
        return target, denied

    def _find_room(self, current: Deployments) -> dict[str, int]:
        held = count_per_pool(current.values())
        return {pool: max(0, limit - held.get(pool, 0)) for pool, limit in self.pool_limits.items()}

    def _rule_move(self, move: Move, refusal: str | None, ruling: Ruling, now: float) -> Ruling:
        name = move.request.operator
        if refusal is None and ruling.granted:
            refusal = f"Denied: {' and '.join(ruling.granted)} must change first"
        if refusal is None:
            urgent = move.request.score >= NEEDED
            refusal = self.refuse_restart(ruling.tokens, now, urgent=urgent)
        own = ruling.verdicts.get(name)
        verdict = f"Granted: {move.reason}" if refusal is None else f"{refusal} ({move.reason})"
        verdicts = {**ruling.verdicts, name: verdict if own is None else f"{own}; {verdict}"}
        if refusal is not None:
            return replace(ruling, verdicts=verdicts)
        if self._gate is not None:
            self._gate.pay([move.replica])
        if self._nodes is not None:
            self._nodes.note(move)
        return replace(
            ruling,
            verdicts=verdicts,
            restart=True,
            tokens=ruling.tokens.take(self.restarts, now),
            move=move,
            reason=move.reason,
        )

    def refuse_restart(
        self, tokens: RestartTokens, now: float, *, urgent: bool = True
    ) -> str | None:
        """Return why a restart must wait, one sentence; `None` where it need not."""
        refusal = refuse_restart(tokens, self.restarts, now, urgent=urgent)
        refusal = refusal or self._refuse_shared(urgent=urgent)
        return None if refusal is None else f"Denied: {refusal}"

    def buy(self, tokens: RestartTokens, now: float) -> RestartTokens | None:
        """Return the tokens after one more restart that is needed; `None` where none is left."""
        if self.refuse_restart(tokens, now) is not None:
            return None
        self.pay_shared()
        return tokens.take(self.restarts, now)

    def pay_shared(self) -> None:
        """Pay for a restart that begins, from the budget over all StreamApps."""
        if self._shared is not None:
            self._shared.take()

    def _refuse_shared(self, *, urgent: bool) -> str | None:
        """Return why the budget over all StreamApps does not bear a restart, or `None`."""
        return None if self._shared is None else self._shared.refuse(urgent=urgent)

    def find_fallback(
        self,
        fallback: Fallback,
        current: Deployments,
        models: Mapping[str, OperatorModel],
        floors: Floors,
    ) -> Deployments:
        """Return where the manifest's fallback leads, within all bounds."""
        target = dict(current)
        if fallback.deployment is FallbackDeployment.NAMED:
            target |= {
                name: {node_type: count for node_type, count in counts.items() if count}
                for name, counts in (fallback.named or {}).items()
                if name in models
            }
        elif fallback.deployment is FallbackDeployment.LARGEST:
            target |= _find_largest(current, models, self.pool_limits)
        return keep_all_bounds(
            target,
            models,
            floors,
            self.pool_limits,
            self.cap.find_limits(current, models, floors),
        )

    def _arbitrate(
        self,
        wishes: Mapping[str, Proposal],
        seen: Mapping[str, Observation],
        dataflow: Dataflow,
        current: Deployments,
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
                required=wish.is_required,
                saving=price_per_hour(
                    wish.observation.deployment, wish.observation.model.node_types
                )
                - wish.decision.expectation.cost_per_hour,
            )
            for name, wish in wishes.items()
        ]
        return arbitrate(
            requests,
            dataflow=dataflow,
            held=count_per_pool(current.get(name, {}) for name in dataflow.operators),
            saturated=[
                name
                for name in dataflow.operators
                if name in seen and max(seen[name].utilisation, default=0.0) >= SATURATED
            ],
            pool_limits=self.pool_limits,
            tokens=tokens,
            budget=self.restarts,
            now=now,
        )


def _rank(wish: Proposal) -> tuple[bool, float]:
    """Return in which order money is given out, the highest first: what saves some leaves more."""
    seen, types = wish.observation, wish.observation.model.node_types
    saves = price_per_hour(wish.decision.target, types) < price_per_hour(seen.deployment, types)
    return saves, wish.decision.urgency


def describe_failed(known: FailedDeployment, now: float) -> str:
    """Return why a deployment that failed is not gone to, one sentence."""
    return (
        "Denied: this deployment failed, and Weir does not try it again for "
        f"{(known.until - now) / 60:.0f} min ({known.reason})"
    )


WITHIN_REACH = 1.5
"""How many times the least possible response time is aimed at where the objective is below that:
half of it again leaves room for some waiting, and a price that somebody might pay."""

_SLOWLY = 0.2
"""Weight of a new interval in the ratio."""


class BudgetSharing:
    """Shares the objective of one StreamApp."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._statistic = objective.statistic
        self.tail = self._statistic.typical_tail
        """How many times the mean the bounded statistic is; until it was measured, that of an
        exponential time."""
        self.tuned: Tuning = UNTUNED
        """What the Operator Managers work with from the next tick on."""

    @property
    def _measured(self) -> Objective:
        """The objective with the tail that was measured, which brings its bounds to means."""
        return self._objective.model_copy(update={"tail": self.tail})

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

        They are the mean response time at each operator, s. `None` if that is unknown.
        """
        whole = dataflow.response_time(times)
        if whole * self.tail > self._objective.response_time:
            return True
        unknown = math.isnan(whole)
        for sink, bound in self._mean_sink_bounds(dataflow).items():
            response = dataflow.leading_to(sink).response_time(times)
            if response > bound:
                return True
            unknown = unknown or math.isnan(response)
        return None if unknown else False

    def _mean_sink_bounds(self, dataflow: Dataflow) -> dict[str, float]:
        bounds = self._measured.mean_sink_bounds
        return {sink: bound for sink, bound in bounds.items() if sink in dataflow.operators}

    def share(
        self, dataflow: Dataflow, managers: Mapping[str, ObservedOperator]
    ) -> tuple[dict[str, float], str]:
        """Return seconds of mean response time per operator; fixed ones get what they need.

        With it comes why the objective cannot be kept, empty where it can: a similar bound is
        divided then, so that a job that is overloaded is still scaled.
        """
        bound, sinks = self._measured.mean_bound, self._mean_sink_bounds(dataflow)
        try:
            shared = self._share(dataflow, managers, bound, sinks)
            wished = self._fit_tuned(shared, dataflow, managers)
            return (shared if wished is None else wished), ""
        except _OutOfReachError as error:
            near = WITHIN_REACH * error.possible
            ends = {sink: max(end, near) for sink, end in sinks.items()}
            return self._share(dataflow, managers, max(bound, near), ends), str(error)

    def _fit_tuned(
        self,
        shared: Mapping[str, float],
        dataflow: Dataflow,
        managers: Mapping[str, ObservedOperator],
    ) -> dict[str, float] | None:
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
            bound=self._measured.mean_bound,
            sink_bounds=self._mean_sink_bounds(dataflow),
        )

    def _share(
        self,
        dataflow: Dataflow,
        managers: Mapping[str, ObservedOperator],
        bound: float,
        sink_bounds: Mapping[str, float],
    ) -> dict[str, float]:
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
                "responseTime",
                self._objective.response_time,
                dataflow.response_time(minimum) * self.tail,
                possible,
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
        for path in self._objective.paths:
            if path.sink not in sink_bounds:
                continue
            part, bound = dataflow.leading_to(path.sink), sink_bounds[path.sink]
            shortest = part.response_time({name: minimum[name] for name in part.operators})
            if bound <= shortest:
                tail = infer_tail(path.statistic, known=self._statistic, tail=self.tail)
                raise _OutOfReachError(
                    f"paths[{path.sink}].responseTime", bound * tail, shortest * tail, possible
                )
            left = bound - part.response_time({name: own[name] for name in part.operators})
            for end in set(scaled.sinks) & set(part.operators):
                ends[end] = min(left, ends.get(end, math.inf))
        return ends


def fit_budgets(
    wished: Mapping[str, float],
    shared: Mapping[str, float],
    *,
    least: Mapping[str, float],
    dataflow: Dataflow,
    bound: float,
    sink_bounds: Mapping[str, float],
) -> dict[str, float] | None:
    """Return budgets that keep the bounds and are as near to the wished ones as these allow.

    Args:
        wished: Tuned budgets, seconds; operators of the dataflow without one keep their share.
        shared: What the operators get without tuning, seconds.
        least: What each operator needs at least, seconds.
        dataflow: The operators and their paths.
        bound: Seconds of mean response time on every path.
        sink_bounds: Tighter ones of the paths to some sinks.

    Returns:
        Budgets by operator; `None` where a wished one, or its rest within the bounds, is no more
        than the operator needs at least.
    """
    known = {name: wished[name] for name in dataflow.operators if name in wished}
    if any(budget <= least[name] for name, budget in known.items()):
        return None
    budgets = {name: known.get(name, shared[name]) for name in dataflow.operators}
    part = 1.0
    bounded = [(dataflow, bound)]
    bounded += [(dataflow.leading_to(sink), tighter) for sink, tighter in sink_bounds.items()]
    for paths, maximum in bounded:
        longest = paths.response_time({name: budgets[name] for name in paths.operators})
        # What is not tuned stays, so that only the tuned part can give way.
        floor = {name: least[name] if name in known else shared[name] for name in paths.operators}
        shortest = paths.response_time(floor)
        if longest > maximum:
            # The longest path is convex in the factor, so the chord keeps the bound.
            part = min(part, (maximum - shortest) / (longest - shortest))
    if part <= 0:
        return None
    return budgets | {
        name: least[name] + part * (budget - least[name]) for name, budget in known.items()
    }


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


class MetricsOutage:
    """For how long there has been nothing to decide on, and whether that was answered."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._answered = False

    def note(self, *, healthy: bool, now: float) -> bool:
        """Process a tick; return whether this ends an outage that the fallback answered.

        Args:
            healthy: Whether what was measured can be trusted.
            now: Seconds on a clock that cannot be set, here and in `is_due`.
        """
        if not healthy:
            self._since = now if self._since is None else self._since
            return False
        ends = self._answered
        self._since, self._answered = None, False
        return ends

    @property
    def is_answered(self) -> bool:
        """Whether the fallback was taken in this outage."""
        return self._answered

    def is_due(self, fallback: Fallback, now: float, *, again: bool = False) -> bool:
        """Return whether to take the fallback now; once in an outage, unless `again`."""
        if self._since is None or (self._answered and not again):
            return False
        return now - self._since >= fallback.after.seconds

    def answer(self) -> None:
        """Count the fallback as taken, until the metrics are healthy again."""
        self._answered = True


def _find_largest(
    current: Deployments, models: Mapping[str, OperatorModel], pool_limits: Mapping[str, int]
) -> Deployments:
    """Return the most that each operator may have, taking turns where they share a pool's room.

    Replicas stay in their pool, at its largest size: what leaves a pool frees its place only after
    the new ones have started, so a full pool would never be left.
    """
    fastest = {
        name: {
            each.pool: max(
                (t for t in model.node_types if t.pool == each.pool), key=lambda t: t.speedup
            )
            for each in model.node_types
        }
        for name, model in models.items()
    }
    counts = {
        name: Deployment.from_named(current[name], model.node_types).per_pool(model.node_types)
        for name, model in models.items()
    }
    held = count_per_pool(current.values())
    room = {pool: limit - held.get(pool, 0) for pool, limit in pool_limits.items()}
    growing = list(models)
    while growing:
        for name in list(growing):
            model, mine = models[name], counts[name]
            open_pools = [
                each
                for each in fastest[name].values()
                if room.get(each.pool, 1) > 0
                and (each.pool_limit is None or mine.get(each.pool, 0) < each.pool_limit)
            ]
            if sum(mine.values()) >= model.max_replicas or not open_pools:
                growing.remove(name)
                continue
            best = max(open_pools, key=lambda each: each.speedup)
            mine[best.pool] = mine.get(best.pool, 0) + 1
            if best.pool in room:
                room[best.pool] -= 1
    return {
        name: {fastest[name][pool].name: count for pool, count in mine.items() if count}
        for name, mine in counts.items()
    }
