"""The same world as `world`, written to be read: plain objects, one thing after another.

It runs the policies that live operator managers use, through the promise that they use, and is some
thousand times slower than the compiled loop. It says what the compiled loop must do (a test
compares them slot by slot), and runs the policies that are not compiled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from weir_policies import registry
from weir_policies.kernels.policy import KernelPolicy
from weir_policies.model.cost import normalised_cost, price_per_hour
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.promise import CostParts, CostWeights, Observation, OperatorPolicy, Transition
from weir_simulator.arbitration import Arbiter
from weir_simulator.arrivals import training_rates
from weir_simulator.beliefs import believed_models, true_models, true_node_types
from weir_simulator.experiment import Experiment
from weir_simulator.minds import build_policies
from weir_simulator.plain_operator import PlainOperator, step_towards
from weir_simulator.randomness import (
    BUSY_NOISE,
    LOSS,
    MISSING,
    RATE_NOISE,
    TIME_NOISE,
    draw,
    draw_factor,
)
from weir_simulator.state import (
    AT_CHANGE,
    AT_PRICE,
    AT_RATE,
    AT_REPLICAS,
    AT_TIME,
    BACKLOGGED,
    COST,
    LOSSES,
    NOTHING,
    RECONFIGURATIONS,
    RESIZE,
    RESIZES,
    RESTART,
    SPENT,
    VIOLATIONS,
    WEEK,
    Outcome,
)
from weir_simulator.traces import Trace


def run_plainly(
    experiment: Experiment,
    trace: Trace,
    policy: str,
    settings: Mapping[str, Any],
    outcome: Outcome,
    *,
    seed: int,
) -> dict[str, OperatorPolicy]:
    """Run a policy through a trace, fill the outcome, return what each operator's has become.

    Raises:
        UnknownPolicyError: No policy has this name.
        ParameterError: A parameter is wrong, or the policy cannot take this experiment.
    """
    world = _World(experiment, policy, settings, seed)
    world.run(trace, outcome)
    return {name: operator.policy for name, operator in world.operators.items()}


class _World:
    def __init__(
        self, experiment: Experiment, policy: str, settings: Mapping[str, Any], seed: int
    ) -> None:
        self.experiment, self.seed, self.slot = experiment, seed, experiment.slot
        world = experiment.world
        self.one_step = experiment.moves_by_one(policy)
        self.queues = world.carries_backlog or world.loss_probability > 0
        self.provisioning = math.ceil(world.provisioning_delay / self.slot)
        self.dataflow = experiment.dataflow
        models = true_models(experiment)
        self.node_types = true_node_types(experiment)
        believed = believed_models(experiment, np.random.default_rng([seed, 0]))
        fed = {edge.target for edge in self.dataflow.edges}
        budgets = experiment.share_bound(policy, believed)
        most_replicas = experiment.most_replicas(policy)
        self.operators: dict[str, PlainOperator] = {}
        policies = build_policies(experiment, policy, settings, seed=seed)
        for row, (truth, initial) in enumerate(
            zip(models, experiment.initial_deployments, strict=True)
        ):
            self.operators[truth.name] = PlainOperator(
                row=row,
                truth=truth,
                nominal=self.node_types,
                believed=believed[row],
                policy=policies[row],
                budget=budgets[truth.name],
                most_replicas=most_replicas[truth.name],
                source=truth.name not in fed,
                seed=seed,
                spread=world.replica_spread,
                target=initial,
                proposed=initial,
            )
            self.operators[truth.name].install(initial)
        self.arbiter = Arbiter(experiment)
        self.rate_factor, self.standstill = 1.0, 0.0
        self.provisioned_at, self.pending_kind = -1, NOTHING
        self.pending: dict[str, Deployment] = {}
        algorithm = registry.define(policy, settings)
        if algorithm is not None and algorithm.train is not None:
            self.train(training_rates(experiment, policy))

    def train(self, rates: Trace) -> None:
        """Let the policies learn from another stretch of time, with nothing flowing yet."""
        gains = self.dataflow.spread_rates(dict.fromkeys(self.dataflow.sources, 1.0))
        for name, operator in self.operators.items():
            if isinstance(operator.policy, KernelPolicy):
                observation = replace(self.observe(operator, 0), model=operator.believed)
                operator.policy.train(observation, rates * gains[name])

    def run(self, trace: Trace, outcome: Outcome) -> None:
        """Take one slot after another."""
        for t, arriving in enumerate(trace):
            self.begin_slot(t, outcome)
            rate = float(arriving) * self.rate_factor
            self.flow(rate)
            price = sum(self.price_of(t, name) for name in self.operators)
            time = self.respond()
            self.arbiter.see(time, t)
            kind = self.decide(t) if self.arbiter.is_active(t) else NOTHING
            self.account(t, rate, time, price, kind, outcome)
            self.apply(t, kind)
            if kind == RESTART:
                self.arbiter.restarted(t)
            self.count_replicas(t, outcome)

    def begin_slot(self, t: int, outcome: Outcome) -> None:
        """Let the world change, replicas arrive that were provisioned, and replicas be lost."""
        world = self.experiment.world
        for change in world.changes:
            if change.slot == t:
                if change.rate is not None:
                    self.rate_factor = change.rate
                self.change_types(change.prices, change.speedups)
        if self.provisioned_at == t:
            for name, deployment in self.pending.items():
                self.operators[name].install(deployment)
            if self.pending_kind == RESTART:
                self.standstill += world.downtime
            self.provisioned_at = -1
        lost = 0
        most = max(each.max_replicas for each in self.experiment.operators)
        for operator in self.operators.values():
            for rank in reversed(range(len(operator.replicas))):
                drawn = draw(self.seed, t, operator.row * most + rank, LOSS)
                if drawn < world.loss_probability:
                    operator.replace_lost(rank)
                    lost += 1
        if lost:
            outcome.totals[LOSSES] += lost
            self.standstill += self.provisioning * self.slot + world.downtime

    def change_types(self, prices: Mapping[str, float], speedups: Mapping[str, float]) -> None:
        """Let prices and speeds change, as factors of what the experiment says."""
        changed = []
        for now, given in zip(self.node_types, self.experiment.node_types, strict=True):
            price, speedup = now.price, now.speedup
            if given.name in prices:
                price = given.price * prices[given.name]
            if given.name in speedups:
                speedup = given.speedup * speedups[given.name]
            changed.append(replace(now, price=price, speedup=speedup))
        self.node_types = tuple(changed)
        for operator in self.operators.values():
            operator.nominal = self.node_types
            operator.find_speeds()

    def flow(self, rate: float) -> None:
        """Let the records of a slot through the dataflow."""
        gap = min(self.standstill, self.slot) if self.queues else 0.0
        self.standstill -= gap
        for name in self.dataflow.order:
            operator = self.operators[name]
            passed = offered = rate
            if feeding := self.dataflow.into(name):
                above = [self.operators[edge.source] for edge in feeding]
                portions = [edge.selectivity for edge in feeding]
                passed = sum(a.passed * s for a, s in zip(above, portions, strict=True))
                offered = sum(a.offered * s for a, s in zip(above, portions, strict=True))
            if self.queues:
                operator.work_through(rate=passed, slot=self.slot, gap=gap)
            else:
                operator.take_in(rate=passed, offered=offered)

    def respond(self) -> float:
        """Return the response time from source to sink, s."""
        times = {name: operator.offered_response for name, operator in self.operators.items()}
        return self.dataflow.response_time(times)

    def decide(self, t: int) -> int:
        """Let the managers decide; return what the change of all operators takes."""
        for operator in self.operators.values():
            operator.target = operator.deployment
        for operator in self.operators.values():
            self.manage(operator, t)
        return self.cut_targets()

    def price_of(self, t: int, name: str) -> float:
        """Return what an operator's replicas cost per hour, those being provisioned included."""
        paid = self.operators[name].deployment
        if self.provisioned_at > t:
            coming = self.pending[name]
            paid = Deployment(tuple(max(pair) for pair in zip(paid, coming, strict=True)))
        return price_per_hour(paid, self.node_types)

    def manage(self, operator: PlainOperator, t: int) -> None:
        """Let an operator's manager observe, learn and decide; what it decides is `target`."""
        here, proposed = operator.deployment, operator.proposed
        if draw(self.seed, t, operator.row, MISSING) < self.experiment.world.missing:
            operator.before = None
            return
        observation = self.observe(operator, t)
        if operator.before is not None:
            cost = CostParts(
                violation=float(operator.response > operator.budget),
                resources=normalised_cost(
                    here,
                    self.node_types,
                    max_replicas=operator.most_replicas,
                    dearest=self.experiment.dearest,
                ),
                reconfiguration=float(operator.reconfigured),
            )
            operator.policy.learn(
                Transition(
                    observation=operator.before,
                    proposed=proposed,
                    enacted=here,
                    cost=cost,
                    next_observation=observation,
                )
            )
        operator.before = observation
        if self.provisioned_at <= t:
            decision = operator.policy.decide(observation)
            operator.target, operator.urgency = decision.target, decision.urgency

    def observe(self, operator: PlainOperator, t: int) -> Observation:
        """Return what the manager measures, with its errors."""
        noise, o = self.experiment.world.noise, operator.row
        rate_error = draw_factor(self.seed, t, o, RATE_NOISE, noise)
        time_error = draw_factor(self.seed, t, o, TIME_NOISE, noise)
        busy_error = draw_factor(self.seed, t, o, BUSY_NOISE, noise)
        most = 1.0 if self.queues else math.inf
        weights = self.experiment.weights
        weeks = t * self.slot / WEEK
        return Observation(
            time=t * self.slot,
            time_of_week=weeks - math.floor(weeks),
            interval=self.slot,
            model=replace(operator.believed, node_types=self.offer_types(operator)),
            deployment=operator.deployment,
            rate=operator.rate * rate_error,
            processed=operator.passed * rate_error,
            response_time=operator.response * time_error,
            utilisation=tuple(
                min(min(busy, most) * busy_error, most) for busy in operator.utilise(operator.rate)
            ),
            backlog=operator.backlog,
            replica_ages=operator.ages(),
            budget=operator.budget,
            weights=CostWeights(
                violation=weights.violations,
                resources=weights.resources,
                reconfiguration=weights.reconfigurations,
            ),
            dearest=self.experiment.dearest,
            most_replicas=operator.most_replicas,
        )

    def offer_types(self, operator: PlainOperator) -> tuple[NodeType, ...]:
        """Return the believed node types at today's prices, with the room that others leave."""
        types = []
        for believed, now in zip(operator.believed.node_types, self.node_types, strict=True):
            limit = believed.pool_limit
            if limit is not None:
                limit = max(limit - self.held_by_others(operator, now.pool), 0)
            types.append(replace(believed, price=now.price, pool_limit=limit))
        return tuple(types)

    def held_by_others(self, operator: PlainOperator, pool: str) -> int:
        """Return the replicas in a pool that other operators have, or are to get if more."""
        held = 0
        for other in self.operators.values():
            if other is not operator:
                pairs = zip(other.deployment, other.target, self.node_types, strict=True)
                held += sum(max(now, then) for now, then, kind in pairs if kind.pool == pool)
        return held

    def cut_targets(self) -> int:
        """Cut targets to what can be; return what the change of all operators takes."""
        for operator in self.operators.values():
            here = operator.deployment
            operator.proposed = operator.target
            if self.one_step:
                operator.target = step_towards(here, operator.target, operator.truth.max_replicas)
            if not self.fits(operator):
                operator.target = here
        restarting = [
            each
            for each in self.operators.values()
            if self.classify(each.deployment, each.target) == RESTART
        ]
        for name in self.arbiter.deny([each.ask() for each in restarting]):
            self.operators[name].target = self.operators[name].deployment
        kinds = [NOTHING]
        for operator in self.operators.values():
            kinds.append(self.classify(operator.deployment, operator.target))
            operator.reconfigured = kinds[-1] == RESTART
        return max(kinds)

    def fits(self, operator: PlainOperator) -> bool:
        """Return whether no pool would get fuller than it may; what is there already may stay."""
        held = operator.target.per_pool(self.node_types)
        had = operator.deployment.per_pool(self.node_types)
        for node_type in self.node_types:
            pool, limit = node_type.pool, node_type.pool_limit
            wanted = held.get(pool, 0)
            if limit is None or wanted <= had.get(pool, 0):
                continue
            if wanted > max(limit - self.held_by_others(operator, pool), 0):
                return False
        return True

    def classify(self, here: Deployment, target: Deployment) -> int:
        """Return what going from one deployment to another takes."""
        if target == here:
            return NOTHING
        alike = here.per_pool(self.node_types) == target.per_pool(self.node_types)
        return RESIZE if alike and self.experiment.world.resizes else RESTART

    def account(
        self, t: int, rate: float, time: float, price: float, kind: int, outcome: Outcome
    ) -> None:
        """Add the slot's cost to the outcome."""
        weights, totals = self.experiment.weights, outcome.totals
        top = self.experiment.dearest * sum(each.max_replicas for each in self.experiment.operators)
        violated = time > self.experiment.objective.response_time
        totals[VIOLATIONS] += violated
        totals[RECONFIGURATIONS] += kind == RESTART
        totals[RESIZES] += kind == RESIZE
        totals[SPENT] += price
        totals[COST] += (
            weights.resources * price / top
            + weights.violations * violated
            + weights.reconfigurations * (kind == RESTART)
        )
        if outcome.history.size:
            row = outcome.history[t]
            row[AT_RATE], row[AT_TIME], row[AT_PRICE], row[AT_CHANGE] = rate, time, price, kind

    def apply(self, t: int, kind: int) -> None:
        """Put the targets in force, or begin to provision them."""
        if kind == NOTHING:
            return
        self.pending = {name: each.target for name, each in self.operators.items()}
        grows = any(
            after > before
            for each in self.operators.values()
            for before, after in zip(each.deployment, each.target, strict=True)
        )
        if kind == RESTART and grows and self.provisioning:
            self.provisioned_at, self.pending_kind = t + 1 + self.provisioning, kind
            return
        for name, deployment in self.pending.items():
            self.operators[name].install(deployment)
        if kind == RESTART:
            self.standstill += self.experiment.world.downtime

    def count_replicas(self, t: int, outcome: Outcome) -> None:
        """Note what is there at the slot's end, and the mean cost so far."""
        for operator in self.operators.values():
            outcome.replicas[:] += operator.deployment.counts
            outcome.totals[BACKLOGGED] += operator.backlog > 0
            if outcome.history.size:
                outcome.history[t, AT_REPLICAS] += operator.deployment.size
        outcome.curve[outcome.curve_slots == t + 1] = outcome.totals[COST] / (t + 1)
