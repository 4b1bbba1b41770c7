"""The simulated world once more, written to be read: what the compiled steps are compared with.

Plain objects, one step after another. It asks policies of single operators, and knows neither
arbitration nor training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weir_policies.kernels.bounds import keep_within
from weir_policies.kernels.percentiles import normal_quantile
from weir_policies.model.cost import normalised_cost, price_per_hour
from weir_policies.model.deployments import within_reach
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.objective import Statistic
from weir_policies.model.queueing import predict
from weir_policies.model.sharing import group_replicas
from weir_policies.policy import (
    Aggregation,
    CostParts,
    JoinsRestarts,
    Observation,
    OperatorModel,
    OperatorPolicy,
    Sharing,
    Transition,
)
from weir_simulator.beliefs import believed_models, true_models, true_node_types
from weir_simulator.bounds import find_bounds
from weir_simulator.dynamics import NEAR_SATURATION
from weir_simulator.experiment import Experiment
from weir_simulator.goals import find_percentile
from weir_simulator.policies import build_policies
from weir_simulator.randomness import (
    BUSY_NOISE,
    LOSS,
    MISSING,
    RATE_NOISE,
    SPEED,
    TIME_NOISE,
    draw,
    draw_factor,
)
from weir_simulator.state import (
    AT_CHANGE,
    AT_PRICE,
    AT_RATE,
    AT_REPLICAS,
    AT_SINKS,
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
    SimulationOutcome,
)
from weir_simulator.traces import Trace


@dataclass(slots=True)
class Replica:
    place: int
    factor: float


@dataclass(slots=True, kw_only=True)
class PlainOperator:
    row: int
    truth: OperatorModel
    nominal: tuple[NodeType, ...]
    believed: OperatorModel
    budget: float
    most_replicas: int
    source: bool
    seed: int
    spread: float
    target: Deployment
    proposed: Deployment
    replicas: list[Replica] = field(default_factory=list)
    born: int = 0
    backlog: float = 0.0
    rate: float = 0.0
    offered: float = 0.0
    passed: float = 0.0
    response: float = 0.0
    offered_response: float = 0.0
    variance: float = 0.0
    offered_rate: float = math.nan
    upstream_backlog: float = math.nan
    passing: float = math.nan
    before: Observation | None = None
    reconfigured: bool = False

    @property
    def deployment(self) -> Deployment:
        places = [replica.place for replica in self.replicas]
        return Deployment(tuple(places.count(place) for place in range(len(self.nominal))))

    @property
    def capacity(self) -> float:
        speed = sum(
            count * node_type.speedup
            for count, node_type in zip(self.deployment, self.truth.node_types, strict=True)
        )
        return speed / self.truth.service_mean

    def take_in(self, *, rate: float, offered: float) -> None:
        self.rate, self.offered = rate, offered
        self.passed = min(rate, self.capacity)
        self.response, _ = self.predict(rate)
        self.offered_response, self.variance = self.predict(offered)

    def work_through(self, *, rate: float, slot: float, gap: float) -> None:
        self.rate = self.offered = rate
        maximum, working = self.sustain(), slot - gap
        before, arrived = self.backlog, rate * slot
        processed = min(before + arrived, maximum * working)
        self.backlog = before + arrived - processed
        self.passed = processed / slot
        if processed == 0:
            self.response = math.inf if before + arrived > 0 else 0.0
            self.variance = 0.0
        else:
            waiting = before + rate * gap if self.source else before
            arriving = rate if self.source else arrived / working
            area = gap * (before + waiting) / 2
            squares = _square_area(before, waiting, gap)
            emptied = waiting / (maximum - arriving) if maximum > arriving else math.inf
            if emptied < working:
                area += emptied * waiting / 2
                squares += _square_area(waiting, 0.0, emptied)
            else:
                area += working * (waiting + self.backlog) / 2
                squares += _square_area(waiting, self.backlog, working)
            steady, variance = self.predict(min(arriving, NEAR_SATURATION * maximum))
            self.response = steady + area / processed
            waits = slot * squares / processed**2 - (area / processed) ** 2
            self.variance = variance + max(waits, 0.0)
        self.offered_response = self.response

    def predict(self, rate: float) -> tuple[float, float]:
        counts = np.array([self.deployment.counts], dtype=np.int64)
        prediction = predict(self.truth, counts, rate)
        return float(prediction.response_time[0]), float(prediction.variance[0])

    def sustain(self) -> float:
        if self.truth.sharing is Sharing.BY_LOAD:
            return self.capacity
        return 1 / max(self.utilise(1.0))

    def utilise(self, rate: float) -> list[float]:
        counts = np.array([self.deployment.counts], dtype=np.int64)
        groups = group_replicas(self.truth, counts, np.array([[rate]]))
        shares = np.broadcast_to(groups.share, groups.replicas.shape)[0]
        return [
            float(rate * shares[place] * groups.service_mean[place])
            for place, count in enumerate(self.deployment)
            for _ in range(count)
        ]

    def ages(self) -> tuple[float, ...]:
        by_type = sorted(range(len(self.replicas)), key=lambda rank: self.replicas[rank].place)
        return tuple(float(len(by_type) - rank) for rank in by_type)

    def install(self, deployment: Deployment) -> None:
        for place, count in enumerate(deployment):
            held = [replica for replica in self.replicas if replica.place == place]
            for leaving in held[: max(len(held) - count, 0)]:
                self.replicas = [each for each in self.replicas if each is not leaving]
        for place, count in enumerate(deployment):
            for _ in range(count - self.deployment.counts[place]):
                self.start_replica(place)
        self.find_speeds()

    def replace_lost(self, rank: int) -> None:
        gone = self.replicas.pop(rank)
        self.start_replica(gone.place)
        self.find_speeds()

    def start_replica(self, place: int) -> None:
        self.born += 1
        factor = draw_factor(self.seed, self.born, self.row, SPEED, self.spread)
        self.replicas.append(Replica(place, factor))

    def find_speeds(self) -> None:
        slowest_counts = (
            self.truth.aggregation is Aggregation.WORST and self.truth.sharing is Sharing.EQUAL
        )
        types = []
        for place, node_type in enumerate(self.nominal):
            factors = [each.factor for each in self.replicas if each.place == place] or [1.0]
            factor = min(factors) if slowest_counts else sum(factors) / len(factors)
            types.append(replace(node_type, speedup=node_type.speedup * factor))
        self.truth = replace(self.truth, node_types=tuple(types))


def _square_area(begin: float, end: float, seconds: float) -> float:
    return seconds * (begin**2 + begin * end + end**2) / 3


def step_towards(here: Deployment, target: Deployment, max_replicas: int) -> Deployment:
    if target in within_reach(here, k_max=max_replicas):
        return target
    changes = [after - before for before, after in zip(here, target, strict=True)]
    counts = list(here)
    if max(changes) > 0 and here.size < max_replicas:
        counts[changes.index(max(changes))] += 1
    else:
        counts[changes.index(min(changes))] -= 1
    return Deployment(tuple(counts))


def take_statistic(reached: Sequence[float], statistic: Statistic) -> float:
    """Return a statistic of a time with this mean, variance and constant part, s."""
    mean, variance, constant = reached
    if statistic.quantile is None:
        return mean
    normal = normal_quantile(statistic.quantile)
    return find_percentile(mean, variance, constant, statistic.quantile, normal)


def run_oracle(
    experiment: Experiment,
    trace: Trace,
    policy: str,
    settings: Mapping[str, Any],
    outcome: SimulationOutcome,
    *,
    seed: int,
) -> None:
    _World(experiment, policy, settings, seed, trace.size).run(trace, outcome)


class _World:
    def __init__(
        self,
        experiment: Experiment,
        policy: str,
        settings: Mapping[str, Any],
        seed: int,
        slots: int,
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
        self.policies = build_policies(experiment, policy, settings, seed=seed).operators
        for row, (truth, initial) in enumerate(
            zip(models, experiment.initial_deployments, strict=True)
        ):
            self.operators[truth.name] = PlainOperator(
                row=row,
                truth=truth,
                nominal=self.node_types,
                believed=believed[row],
                budget=budgets[truth.name],
                most_replicas=most_replicas[truth.name],
                source=truth.name not in fed,
                seed=seed,
                spread=world.replica_spread,
                target=initial,
                proposed=initial,
            )
            self.operators[truth.name].install(initial)
        self.bounds = find_bounds(experiment, slots, believed, budgets)
        self.rate_factor, self.standstill = 1.0, 0.0
        self.time = 0.0  # the application's response time in the present slot, as bounded, s
        self.sinks_late = False  # whether a bound of a single sink is exceeded in it
        self.provisioned_at, self.pending_kind = -1, NOTHING
        self.pending: dict[str, Deployment] = {}

    def run(self, trace: Trace, outcome: SimulationOutcome) -> None:
        for t, arriving in enumerate(trace):
            self.begin_slot(t, outcome)
            rate = float(arriving) * self.rate_factor
            self.flow(rate)
            price = sum(self.price_of(t, name) for name in self.operators)
            self.judge()
            kind = self.decide(t)
            self.account(t, rate, price, kind, outcome)
            self.apply(t, kind)
            self.count_replicas(t, outcome)

    def begin_slot(self, t: int, outcome: SimulationOutcome) -> None:
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
        maximum = max(each.max_replicas for each in self.experiment.operators)
        for operator in self.operators.values():
            for rank in reversed(range(len(operator.replicas))):
                drawn = draw(self.seed, t, operator.row * maximum + rank, LOSS)
                if drawn < world.loss_probability:
                    operator.replace_lost(rank)
                    lost += 1
        if lost:
            outcome.totals[LOSSES] += lost
            self.standstill += self.provisioning * self.slot + world.downtime

    def change_types(self, prices: Mapping[str, float], speedups: Mapping[str, float]) -> None:
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

    def judge(self) -> None:
        objective = self.experiment.objective
        times = {name: operator.offered_response for name, operator in self.operators.items()}
        self.time = self.dataflow.response_time(times)
        if objective.is_plain:
            return
        reached = self.follow_paths(times)
        ends = [reached[sink] for sink in self.dataflow.sinks]
        self.time = max(take_statistic(end, objective.statistic) for end in ends)
        self.sinks_late = any(
            take_statistic(reached[path.sink], path.statistic) > path.response_time
            for path in objective.paths
        )

    def follow_paths(self, times: Mapping[str, float]) -> dict[str, tuple[float, float, float]]:
        reached: dict[str, tuple[float, float, float]] = {}
        for name in self.dataflow.order:
            above = (0.0, 0.0, 0.0)
            for edge in self.dataflow.into(name):
                if reached[edge.source][0] > above[0]:
                    above = reached[edge.source]
            here = self.operators[name]
            own = (times[name], here.variance, here.truth.network_time)
            mean, variance, constant = (a + b for a, b in zip(above, own, strict=True))
            reached[name] = mean, variance, constant
        return reached

    @property
    def violated(self) -> bool:
        return self.sinks_late or self.time > self.experiment.objective.response_time

    def decide(self, t: int) -> int:
        for operator in self.operators.values():
            operator.target = operator.deployment
        self.look_upstream(t)
        for name, policy in self.policies.items():
            self.manage(self.operators[name], policy, t)
        if self.provisioned_at <= t:
            self.join_restart()
        return self.cut_targets(t)

    def look_upstream(self, t: int) -> None:
        if not self.queues:
            return
        noise, processed = self.experiment.world.noise, {}
        for name in self.dataflow.order:
            operator = self.operators[name]
            error = draw_factor(self.seed, t, operator.row, RATE_NOISE, noise)
            if self.is_missing(operator, t):
                error = math.nan
            processed[name] = operator.passed * error
            rate = operator.rate * error
            operator.offered_rate, operator.upstream_backlog = rate, 0.0
            operator.passing = math.nan
            if feeding := [edge.source for edge in self.dataflow.into(name)]:
                above = [self.operators[each] for each in feeding]
                passed = sum(processed[each] for each in feeding)
                gain = rate / passed if passed > 0 else math.nan
                operator.offered_rate = gain * sum(each.offered_rate for each in above)
                waits = sum(each.upstream_backlog + each.backlog for each in above)
                operator.upstream_backlog = gain * waits
                if operator.upstream_backlog > 0:
                    operator.passing = max(operator.offered_rate, processed[name])

    def join_restart(self) -> None:
        restarting = {
            name
            for name, each in self.operators.items()
            if self.classify(each.deployment, each.target) == RESTART
        }
        for name, policy in self.policies.items() if restarting else ():
            operator = self.operators[name]
            joins = isinstance(policy, JoinsRestarts) and policy.joins_restarts
            if joins and name not in restarting and operator.before is not None:
                model = replace(operator.believed, node_types=self.offer_types(operator))
                seen = replace(operator.before, model=model, restarts_anyway=True)
                operator.target = policy.decide(seen).target

    def price_of(self, t: int, name: str) -> float:
        paid = self.operators[name].deployment
        if self.provisioned_at > t:
            coming = self.pending[name]
            paid = Deployment(tuple(max(pair) for pair in zip(paid, coming, strict=True)))
        return price_per_hour(paid, self.node_types)

    def manage(self, operator: PlainOperator, policy: OperatorPolicy, t: int) -> None:
        if self.is_missing(operator, t):
            operator.before = None
            return
        observation = self.observe(operator, t)
        if operator.before is not None:
            policy.learn(self.end_interval(operator, operator.before, observation))
        operator.before = observation
        if self.provisioned_at <= t:
            operator.target = policy.decide(observation).target

    def is_missing(self, operator: PlainOperator, t: int) -> bool:
        return draw(self.seed, t, operator.row, MISSING) < self.experiment.world.missing

    def end_interval(
        self, operator: PlainOperator, before: Observation, after: Observation
    ) -> Transition:
        here = operator.deployment
        late = operator.response > operator.budget
        if self.queues and before.deployment != here:  # what a restart costs the application
            late = late or self.violated
        cost = CostParts(
            violation=float(late),
            resources=normalised_cost(
                here,
                self.node_types,
                max_replicas=operator.most_replicas,
                dearest=self.experiment.dearest,
            ),
            reconfiguration=float(operator.reconfigured),
        )
        return Transition(
            observation=before,
            proposed=operator.proposed,
            enacted=here,
            cost=cost,
            next_observation=after,
        )

    def observe(self, operator: PlainOperator, t: int) -> Observation:
        noise, o = self.experiment.world.noise, operator.row
        rate_error = draw_factor(self.seed, t, o, RATE_NOISE, noise)
        time_error = draw_factor(self.seed, t, o, TIME_NOISE, noise)
        busy_error = draw_factor(self.seed, t, o, BUSY_NOISE, noise)
        maximum = 1.0 if self.queues else math.inf
        weeks = t * self.slot / WEEK
        return Observation(
            time=t * self.slot,
            time_of_week=weeks - math.floor(weeks),
            interval=self.slot,
            model=replace(operator.believed, node_types=self.offer_types(operator)),
            deployment=operator.deployment,
            rate=operator.rate * rate_error if math.isnan(operator.passing) else operator.passing,
            processed=operator.passed * rate_error,
            response_time=operator.response * time_error,
            utilisation=tuple(
                min(min(busy, maximum) * busy_error, maximum)
                for busy in operator.utilise(operator.rate)
            ),
            backlog=operator.backlog,
            replica_ages=operator.ages(),
            budget=operator.budget,
            weights=self.experiment.weights,
            dearest=self.experiment.dearest,
            most_replicas=operator.most_replicas,
            offered_rate=operator.offered_rate,
            upstream_backlog=operator.upstream_backlog,
            min_replicas=int(self.bounds.floors[t, o]),
            max_price=self.limit_price(operator, t),
        )

    def offer_types(self, operator: PlainOperator) -> tuple[NodeType, ...]:
        types = []
        for believed, now in zip(operator.believed.node_types, self.node_types, strict=True):
            limit = believed.pool_limit
            if limit is not None:
                limit = max(limit - self.held_by_others(operator, now.pool), 0)
            types.append(replace(believed, price=now.price, pool_limit=limit))
        return tuple(types)

    def limit_price(self, operator: PlainOperator, t: int) -> float | None:
        price = float(self.bounds.prices[t, operator.row])
        return None if math.isinf(price) else price

    def held_by_others(self, operator: PlainOperator, pool: str) -> int:
        held = 0
        for other in self.operators.values():
            if other is not operator:
                pairs = zip(other.deployment, other.target, self.node_types, strict=True)
                held += sum(max(now, then) for now, then, kind in pairs if kind.pool == pool)
        return held

    def cut_targets(self, t: int) -> int:
        for operator in self.operators.values():
            here = operator.deployment
            operator.proposed = operator.target
            if self.one_step:
                operator.target = step_towards(here, operator.target, operator.truth.max_replicas)
            if not self.fits(operator):
                operator.target = here
            operator.target = keep_within(
                replace(operator.believed, node_types=self.offer_types(operator)),
                operator.target,
                present=here,
                min_replicas=int(self.bounds.floors[t, operator.row]),
                max_price=self.limit_price(operator, t),
            )
        kinds = [NOTHING]
        for operator in self.operators.values():
            kinds.append(self.classify(operator.deployment, operator.target))
            operator.reconfigured = kinds[-1] == RESTART
        return max(kinds)

    def fits(self, operator: PlainOperator) -> bool:
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
        if target == here:
            return NOTHING
        alike = here.per_pool(self.node_types) == target.per_pool(self.node_types)
        return RESIZE if alike and self.experiment.world.resizes else RESTART

    def account(
        self, t: int, rate: float, price: float, kind: int, outcome: SimulationOutcome
    ) -> None:
        weights, totals = self.experiment.weights, outcome.totals
        top = self.experiment.dearest * sum(each.max_replicas for each in self.experiment.operators)
        violated = self.violated
        totals[VIOLATIONS] += violated
        totals[RECONFIGURATIONS] += kind == RESTART
        totals[RESIZES] += kind == RESIZE
        totals[SPENT] += price
        totals[COST] += (
            weights.resources * price / top
            + weights.violation * violated
            + weights.reconfiguration * (kind == RESTART)
        )
        if outcome.history.size:
            row = outcome.history[t]
            row[AT_RATE], row[AT_TIME], row[AT_PRICE] = rate, self.time, price
            row[AT_CHANGE], row[AT_SINKS] = kind, self.sinks_late

    def apply(self, t: int, kind: int) -> None:
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

    def count_replicas(self, t: int, outcome: SimulationOutcome) -> None:
        for operator in self.operators.values():
            outcome.replicas[:] += operator.deployment.counts
            outcome.totals[BACKLOGGED] += operator.backlog > 0
            if outcome.history.size:
                outcome.history[t, AT_REPLICAS] += operator.deployment.size
        outcome.curve[outcome.curve_slots == t + 1] = outcome.totals[COST] / (t + 1)
