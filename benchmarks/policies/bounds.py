"""The planner under floors and under a limit on cost, in the worlds of `first-hours`.

Floors: one operator has at least `FLOOR` replicas in two windows a day. An interval counts as below
the floor where a window is open and fewer run.

Limit on cost: every case has `PART_PAID` of what the cheapest deployment for its highest rate
costs. The planner's violations are compared with those of the best deployment under the limit,
chosen again in every interval by somebody who knows the rate, with restarts free and no backlog: an
interval violates where no deployment under the limit keeps the bound.

No run can be that good: what an overload leaves waiting exceeds the bound for longer. So two more
comparisons stand beside it: the same cases in steady state with an exact model, and the fixed
deployment that carries the highest rate under the limit, chosen in hindsight and run through the
same world, in which records wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.figures import Figure, at_least, at_most, count
from benchmarks.policies.clairvoyant import efficient_deployments
from benchmarks.policies.first_hours import ARRIVALS, DATAFLOWS, WORLDS, Case, describe
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.queueing import predict_means
from weir_policies.policy import OperatorModel
from weir_simulator.arrivals import arrival_rates
from weir_simulator.beliefs import true_models
from weir_simulator.bounds import find_floors
from weir_simulator.experiment import Believed, Experiment, World
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_REPLICAS, AT_TIME, RESTART

HOURS, SEED = 24, 1
FLOOR = 8
WINDOWS = [
    {"name": "peak", "schedule": "0 17 * * *", "timeZone": "Europe/Berlin", "duration": "2h",
     "minReplicas": {"op": FLOOR}},
    {"name": "night", "schedule": "30 2 * * *", "duration": "1h", "minReplicas": {"op": FLOOR}},
]  # fmt: skip
PART_PAID = 0.75
MORE, ALLOWED = 1.1, 0.01
"""Times the violations of the best, and part of the intervals besides."""
HALVINGS = 24


def measure_floors() -> Iterator[Figure]:
    """Yield how often fewer replicas ran than the floor asks for."""
    below = intervals = 0
    with TemporaryDirectory() as folder:
        for arrivals, world in product(ARRIVALS, WORLDS):
            case = Case(arrivals=arrivals, dataflow="one", world=world, hours=HOURS)
            plain = describe(case, Path(folder), SEED)
            experiment = Experiment.model_validate(
                {**plain.model_dump(by_alias=True), "windows": WINDOWS}, strict=False
            )
            history = simulate(experiment, seed=SEED, history=True).history
            still = experiment.model_copy(
                update={"world": experiment.world.model_copy(update={"provisioning_delay": 0.0})}
            )
            # Without provisioning, what is decided in a slot must be in force in the next one.
            asked = find_floors(still, len(history))[:, 0]
            below += int(np.sum(history[:, AT_REPLICAS] < asked))
            intervals += int(np.sum(asked == FLOOR))
    yield at_most(f"floors by windows: intervals below, of {intervals} in 12 cases", below, 0)


def measure_caps() -> Iterator[Figure]:
    """Yield how often the limit is exceeded, and violations beside the best under the limit."""
    cases = [
        Case(arrivals=arrivals, dataflow=dataflow, world=world, hours=HOURS)
        for arrivals, dataflow, world in product(ARRIVALS, DATAFLOWS, WORLDS)
    ]
    with TemporaryDirectory() as folder:
        experiments = [limit_cost(describe(case, Path(folder), SEED)) for case in cases]
        found = [_compare(each) for each in experiments]
        fixed = [
            _count_fixed(experiment, each.carried)
            for experiment, each in zip(experiments, found, strict=True)
        ]
        steady = [
            _compare(each.model_copy(update={"world": World(), "believed": Believed()}))
            for each in experiments
        ]
    yield at_most(
        f"limit on cost: intervals above it in {len(cases)} cases",
        sum(each.above for each in (*found, *steady)),
        0,
    )
    goal = "cases with at most 1.1 times the violations of the best, and 1 %"
    yield at_least(
        f"limit on cost: {goal}", sum(each.ours <= each.limit for each in found), len(cases)
    )
    yield count(
        f"limit on cost, in steady state with an exact model: {goal}",
        [each.ours <= each.limit for each in steady],
    )
    yield count(
        "limit on cost: cases with at most 1.1 times the violations of the best fixed deployment,"
        " in whose run records wait, too, and 1 %",
        [
            each.ours <= max_violations(violations, each.intervals)
            for each, violations in zip(found, fixed, strict=True)
        ],
    )
    for case, each, violations in zip(cases, found, fixed, strict=True):
        yield Figure(
            f"limit on cost, {case}: violations (the best has {each.best}, the best fixed"
            f" {violations}, goal at most {each.limit:.0f})",
            each.ours,
            "intervals",
        )


@dataclass(frozen=True, slots=True)
class _Compared:
    """The planner under a limit on cost, beside the best; counts are of intervals."""

    above: int
    """Those that cost more than the limit, though no change was under way."""
    ours: int
    """Violations of the planner."""
    best: int
    """Violations of the best: the rate is above what any deployment under the limit carries."""
    intervals: int
    """All of the run."""
    carried: float
    """Highest rate at which some deployment under the limit keeps the bound, records/s."""

    @property
    def limit(self) -> float:
        return max_violations(self.best, self.intervals)


def max_violations(violations: int, intervals: int) -> float:
    """Return how many violations are allowed beside those of another run of so many intervals."""
    return MORE * violations + ALLOWED * intervals


def _compare(experiment: Experiment) -> _Compared:
    """Run the planner, and count its violations and those of the best."""
    money = experiment.objective.max_cost_per_hour or 0.0
    history = simulate(experiment, seed=SEED, policy="planner", history=True).history
    settled = ~find_changing(history, experiment)
    rates = arrival_rates(experiment.trace)
    carried = most_carried(experiment, money, float(rates.max()))
    return _Compared(
        above=int(np.sum(settled & (history[:, AT_PRICE] > money * (1 + 1e-9)))),
        ours=_count_violations(history, experiment),
        best=int(np.sum(rates > carried)),
        intervals=len(history),
        carried=carried,
    )


def _count_fixed(experiment: Experiment, carried: float) -> int:
    """Run the best fixed deployment, and count its violations."""
    money = experiment.objective.max_cost_per_hour or 0.0
    fixed = keep_fastest_deployment(experiment, money, carried)
    history = simulate(fixed, seed=SEED, policy="queueing", history=True).history
    return _count_violations(history, experiment)


def _count_violations(history: Floats, experiment: Experiment) -> int:
    return int(np.sum(history[:, AT_TIME] > experiment.objective.response_time))


def keep_fastest_deployment(experiment: Experiment, money: float, rate: float) -> Experiment:
    """Return the experiment with one deployment only: the fastest under a limit at a rate."""
    _, deployments = find_fastest(experiment, money, rate)
    operators = []
    for operator, counts in zip(experiment.operators, deployments, strict=True):
        [(pool, replicas)] = [
            (each.pool_name, count)
            for each, count in zip(experiment.node_types, counts, strict=True)
            if count
        ]
        operators.append(
            operator.model_copy(
                update={"pools": (pool,), "min_replicas": replicas, "max_replicas": replicas}
            )
        )
    return experiment.model_copy(update={"operators": tuple(operators), "initial": None})


def limit_cost(experiment: Experiment) -> Experiment:
    """Return the experiment with a limit that pays for a part of its highest rate."""
    models, flow = true_models(experiment), experiment.dataflow
    budgets = experiment.share_bound("planner", models)
    gains = flow.spread_rates(dict.fromkeys(flow.sources, 1.0))
    highest = float(arrival_rates(experiment.trace).max())
    price = 0.0
    for model in models:
        capacity, prices = efficient_deployments(model, budgets[model.name])
        enough = capacity >= highest * gains[model.name]
        price += float(prices[enough][0] if enough.any() else prices[-1])
    objective = experiment.objective.model_copy(
        update={"max_cost_per_hour": round(PART_PAID * price, 1)}
    )
    return experiment.model_copy(update={"objective": objective})


def find_changing(history: Floats, experiment: Experiment) -> np.ndarray:
    """Return in which slots a change is under way: what leaves and what comes is paid for."""
    slots = int(np.ceil(experiment.world.provisioning_delay / experiment.slot))
    changing = np.zeros(len(history), dtype=bool)
    for slot in np.flatnonzero(history[:, AT_CHANGE] == RESTART):
        changing[slot + 1 : slot + 1 + slots] = True
    return changing


def most_carried(experiment: Experiment, money: float, highest: float) -> float:
    """Return the highest rate at which some deployment under a limit keeps the bound, records/s."""
    low, high = 0.0, highest
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        time, _ = find_fastest(experiment, money, middle)
        if time <= experiment.objective.response_time:
            low = middle
        else:
            high = middle
    return high


def find_fastest(
    experiment: Experiment, money: float, rate: float
) -> tuple[float, list[tuple[int, ...]]]:
    """Return the shortest response time of all deployments under a limit, s, and that deployment.

    A deployment is the counts of each operator by node type. The time is `inf` where none keeps up.
    """
    flow = experiment.dataflow
    rates = flow.spread_rates(dict.fromkeys(flow.sources, rate))
    price: Floats = np.zeros(())
    times: dict[str, Floats] = {}
    models = true_models(experiment)
    listed: list[Counts] = []
    limits = [
        np.inf if each.pool_limit is None else each.pool_limit for each in models[0].node_types
    ]
    used: Floats = np.zeros(len(limits))
    for axis, model in enumerate(models):
        counts, prices, responses = _efficient_at(model, rates[model.name])
        shape = [1] * len(models)
        shape[axis] = len(prices)
        price = price + prices.reshape(shape)
        times[model.name] = responses.reshape(shape)
        used = used + counts.reshape(*shape, len(limits))
        listed.append(counts)
    within = (price <= money * (1 + 1e-9)) & (used <= limits).all(axis=-1)
    bounded = np.where(within, flow.response_times(times), np.inf)
    places = np.unravel_index(int(np.argmin(bounded)), bounded.shape)
    deployments = [
        tuple(counts[place].tolist()) for counts, place in zip(listed, places, strict=True)
    ]
    return float(bounded.min()), deployments


def _efficient_at(model: OperatorModel, rate: float) -> tuple[Counts, Floats, Floats]:
    """Return counts, prices and response times of what is faster than all cheaper, of one type."""
    types = len(model.node_types)
    counts = np.concatenate([
        count * np.eye(types, dtype=np.int64) for count in range(1, model.max_replicas + 1)
    ])  # fmt: skip
    limits = [np.inf if each.pool_limit is None else each.pool_limit for each in model.node_types]
    counts = counts[(counts <= np.array(limits)).all(axis=1)]
    times, _ = predict_means(model, counts, rate)
    of_type: Floats = np.array([each.price for each in model.node_types])
    prices: Floats = (counts @ of_type).round(12)
    order = np.lexsort((times, prices))
    before = np.minimum.accumulate(np.concatenate([[np.inf], times[order][:-1]]))
    kept = order[(times[order] < before) | (np.arange(len(order)) == 0)]
    return counts[kept], prices[kept], times[kept]
