"""The loop over slots for policies as live managers have them: it takes the steps of `world`.

Policies are asked through their protocols: those that are not compiled; all of them where there is
arbitration, because it ranks decisions by their urgency, which is in no kernel; and those that are
trained for a live manager.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir_policies import registry
from weir_policies.application_manager.edf import Adaptation, AdaptationRequest
from weir_policies.kernels.application_policy import KernelApplicationPolicy
from weir_policies.kernels.policy import KernelPolicy
from weir_policies.model.node_types import Deployment
from weir_policies.policy import (
    ApplicationPolicy,
    CostParts,
    Decision,
    JoinsRestarts,
    Observation,
    OperatorPolicy,
    Transition,
)
from weir_simulator.arbitration import Arbiter
from weir_simulator.arrivals import training_rates
from weir_simulator.compile import compile_experiment
from weir_simulator.experiment import Experiment
from weir_simulator.policies import Policies, build_policies
from weir_simulator.state import ASKED, GRANTED, NOTHING, RESTART, SimulationOutcome
from weir_simulator.traces import Trace
from weir_simulator.world import agree, classify, close_slot, limit_pools, open_slot


def run_policies(
    experiment: Experiment,
    trace: Trace,
    policy: str,
    settings: Mapping[str, Any],
    outcome: SimulationOutcome,
    *,
    seed: int,
) -> Policies:
    """Run a policy through a trace, fill the outcome, return what has become of the policies.

    Raises:
        ParameterError: A parameter is wrong, or the policy cannot take this experiment.
    """
    policies = build_policies(experiment, policy, settings, seed=seed)
    loop = _Loop(experiment, policy, policies, seed=seed, slots=trace.size)
    algorithm = registry.define(policy, settings)
    if algorithm is not None and algorithm.train is not None:
        loop.train(training_rates(experiment, policy))
    loop.run(trace, outcome)
    return policies


@dataclass(slots=True)
class _Managed:
    """One operator, by its manager."""

    row: int
    before: Observation | None = None
    """What was observed when the manager was last active; `None` where that was not measured."""
    urgency: float = 0.0
    """Of its last decision."""


class _Loop:
    def __init__(
        self, experiment: Experiment, policy: str, policies: Policies, *, seed: int, slots: int
    ) -> None:
        self.experiment, self.policies = experiment, policies
        self.scene = compile_experiment(experiment, seed=seed, policy=policy, slots=slots)
        self.now: Any = self.scene.state.now[0]
        self.operators = {
            model.name: _Managed(row) for row, model in enumerate(self.scene.believed)
        }
        self.most_replicas = experiment.most_replicas(policy)
        self.arbiter = Arbiter(experiment, seed)

    def train(self, rates: Trace) -> None:
        """Train the policies on another stretch of time, without any flow."""
        flow = self.experiment.dataflow
        gains = flow.spread_rates(dict.fromkeys(flow.sources, 1.0))
        seen = {
            name: replace(self.observe(each.row), model=self.scene.believed[each.row])
            for name, each in self.operators.items()
        }
        if isinstance(self.policies.application, KernelApplicationPolicy):
            self.policies.application.train(seen, flow, rates)
        for name, policy in self.policies.operators.items():
            if isinstance(policy, KernelPolicy):
                policy.train(seen[name], rates * gains[name])

    def run(self, trace: Trace, outcome: SimulationOutcome) -> None:
        """Take one slot after another."""
        rules, truth, view = self.scene.rules, self.scene.truth, self.scene.view
        state, changes, goals = self.scene.state, self.scene.changes, self.scene.goals
        for t, rate in enumerate(trace.tolist()):
            open_slot(
                t, rate, rules, truth, state, changes, goals, outcome, view, self.scene.bounds
            )
            self.arbiter.note(self.now.time, t)
            kind = self.decide(t) if self.arbiter.is_active(t) else NOTHING
            close_slot(t, kind, rules, truth, state, outcome, view)
            if kind == RESTART:
                self.arbiter.restarted(t)
        outcome.totals[ASKED], outcome.totals[GRANTED] = self.arbiter.asked, self.arbiter.granted

    def decide(self, t: int) -> int:
        """Ask the managers for decisions; return what the change of all operators takes."""
        free = bool(self.now.provisioned_at <= t)
        if self.policies.application is not None:
            self.manage_all(self.policies.application, free)
        for name, policy in self.policies.operators.items():
            self.manage(self.operators[name], policy, free)
        if free:
            self.join_restart()
        kind = int(agree(t, self.scene.rules, self.scene.state, self.scene.view))
        return kind if self.experiment.arbitration.grants_all else self.arbitrate(t)

    def manage(self, operator: _Managed, policy: OperatorPolicy, free: bool) -> None:
        """Run an operator's manager: observe, learn, and decide where that is `free`."""
        before, operator.before = operator.before, None
        if not self.scene.state.complete[operator.row]:
            return
        operator.before = self.observe(operator.row)
        if before is not None:
            policy.learn(self.end_interval(operator.row, before, operator.before))
        if free:
            self.take(operator, policy.decide(operator.before))

    def manage_all(self, policy: ApplicationPolicy, free: bool) -> None:
        """Do the same with one policy for all operators."""
        flow = self.experiment.dataflow
        seen = {
            name: self.observe(each.row)
            for name, each in self.operators.items()
            if self.scene.state.complete[each.row]
        }
        ended = {
            name: self.end_interval(each.row, each.before, seen[name])
            for name, each in self.operators.items()
            if name in seen and each.before is not None
        }
        for name, each in self.operators.items():
            each.before = seen.get(name)
        policy.learn(ended, flow)
        if free:
            for name, decision in policy.decide(seen, flow).items():
                self.take(self.operators[name], decision)

    def join_restart(self) -> None:
        """Where an operator's target restarts the job, let the others decide again."""
        restarting = self.find_restarting()
        for name, policy in self.policies.operators.items() if restarting else ():
            operator = self.operators[name]
            joins = isinstance(policy, JoinsRestarts) and policy.joins_restarts
            if joins and name not in restarting and operator.before is not None:
                seen = replace(self.observe(operator.row), restarts_anyway=True)
                self.take(operator, policy.decide(seen))

    def take(self, operator: _Managed, decision: Decision) -> None:
        """Take over what a policy decided."""
        self.scene.view.target[operator.row] = decision.target.counts
        operator.urgency = decision.urgency

    def find_restarting(self) -> list[str]:
        """Return the operators whose target restarts the job."""
        rules, state, view = self.scene.rules, self.scene.state, self.scene.view
        return [
            name
            for name, each in self.operators.items()
            if classify(each.row, rules, state, view) == RESTART
        ]

    def arbitrate(self, t: int) -> int:
        """Undo what is denied; return what the change of all operators then takes."""
        view = self.scene.view
        for name in self.arbiter.deny([self.ask(name) for name in self.find_restarting()], t):
            row = self.operators[name].row
            view.target[row] = view.counts[row]
            view.cost["reconfiguration"][row] = 0.0
        rules, state = self.scene.rules, self.scene.state
        return max(classify(each.row, rules, state, view) for each in self.operators.values())

    def ask(self, name: str) -> AdaptationRequest:
        """Return an operator's target as a request: for more speed, less, or as much elsewhere."""
        operator, view = self.operators[name], self.scene.view
        moved = view.target[operator.row] - view.counts[operator.row]
        gained = float((moved * self.scene.state.nominal).sum())
        kind = Adaptation.SCALE_OUT if gained > 0 else Adaptation.SCALE_IN
        return AdaptationRequest(
            operator=name,
            kind=Adaptation.MIGRATION if gained == 0 else kind,
            score=operator.urgency,
        )

    def observe(self, o: int) -> Observation:
        """Return what the manager of a row measures, with its errors."""
        rules, view, model = self.scene.rules, self.scene.view, self.scene.believed[o]
        if rules.pool_limits:
            limit_pools(o, self.scene.state, view)
        offers = zip(model.node_types, view.price[o].tolist(), view.limit[o].tolist(), strict=True)
        types = tuple(
            replace(each, price=price, pool_limit=None if each.pool_limit is None else limit)
            for each, price, limit in offers
        )
        counts, joined = view.counts[o].tolist(), [each for each in view.joined[o] if each >= 0]
        by_type = sorted(range(len(joined)), key=joined.__getitem__)
        seen: Any = view.seen[o]
        return Observation(
            time=float(seen.time),
            time_of_week=float(seen.time_of_week),
            interval=rules.slot,
            model=replace(model, node_types=types),
            deployment=Deployment(tuple(counts)),
            rate=float(seen.rate),
            processed=float(seen.processed),
            response_time=float(seen.response_time),
            utilisation=tuple(
                busy
                for busy, count in zip(view.busy[o].tolist(), counts, strict=True)
                for _ in range(count)
            ),
            backlog=float(seen.backlog),
            # Ranks instead of seconds: who is older counts.
            replica_ages=tuple(float(len(joined) - rank) for rank in by_type),
            budget=float(seen.budget),
            weights=self.experiment.weights,
            dearest=self.experiment.dearest,
            most_replicas=self.most_replicas[model.name],
            offered_rate=float(seen.offered) if rules.queues else math.nan,
            upstream_backlog=float(seen.upstream) if rules.queues else math.nan,
            min_replicas=max(int(seen.min_replicas), 1),  # 0 before the first slot
            max_price=None if math.isinf(seen.max_price) else float(seen.max_price),
        )

    def end_interval(self, o: int, before: Observation, after: Observation) -> Transition:
        """Return what the slot that ends teaches of the operator of a row."""
        cost: Any = self.scene.view.cost[o]
        late = bool(cost.violation)
        # It is counted by slots, a suspension of the managers by what they observed before it.
        if self.scene.rules.queues and before.deployment != after.deployment:
            late = late or bool(self.now.violated)
        return Transition(
            observation=before,
            proposed=Deployment(tuple(self.scene.view.proposed[o].tolist())),
            enacted=after.deployment,
            cost=CostParts(
                violation=float(late),
                resources=float(cost.resources),
                reconfiguration=float(cost.reconfiguration),
            ),
            next_observation=after,
        )
