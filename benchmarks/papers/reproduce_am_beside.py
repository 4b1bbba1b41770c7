"""What stands beside Figures 20 to 22: a deployment that never moves, and two of Weir's policies.

The Application Manager of the 2023 paper tunes weights and budgets of QL+PDS+, which first learns
what the best deployment is. Here are, on the same slots as in `reproduce-am`:

- *fixed*: the cheapest deployment that keeps the limit on violations on the slots on which the
  Application Manager tunes; it never changes. Exact model.
- *queueing* and *planner*: with their defaults, the exact model and moves of any size, tuned by
  nothing.

Search for the fixed deployment: violations depend on the rate alone, so the limit is kept if the
rate that is exceeded in so many slots is carried within the bound. Under equal sharing, with the
worst replica counting, an operator's replicas are best all of one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figure, Row, count_all
from benchmarks.papers.applications import GIVEN, Application, applications, describe
from benchmarks.papers.reproduce_am import JUDGED_ON, TUNED_ON, VIOLATIONS, whole_trace
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.queueing import predict_means
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Believed, Experiment
from weir_simulator.run import simulate

ABOUT = "beside Figures 20 to 22: a fixed deployment, queueing and planner on the same slots"
DURATION = "2 min"
DETERMINISTIC = True

TABLE = "Beside Figures 20 to 22"
POLICIES = ("queueing", "planner")


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """Replicas of one type for one operator."""

    counts: tuple[int, ...]
    price: float
    """Currency per hour."""
    time: float
    """Response time at the rate in question, s."""


def run() -> list[Figure | Row]:
    rows = [row for application in applications(milliseconds=(40,)) for row in rows_of(application)]
    kept = [row.holds for row in rows if row.holds is not None]
    return [
        count_all("fixed deployments that keep the limit on the slots that judge", kept),
        *rows,
    ]


def rows_of(application: Application) -> Iterator[Row]:
    """Yield the fixed deployment for each limit, and each policy."""
    begin, slots = JUDGED_ON
    experiment = describe(application, weights=GIVEN)
    exact = experiment.model_copy(
        update={
            "believed": Believed(),
            "trace": experiment.trace.model_copy(update={"start": begin, "slots": slots}),
        }
    )
    for limit in VIOLATIONS:
        fixed = find_cheapest(exact, rate_for(limit))
        late = share_late(exact, fixed)
        yield _row(
            f"{application}, {100 * limit:g} %: fixed",
            f"{sum(each.price for each in fixed):.2f} / {100 * late:.2f} / 0.00",
            holds=late <= limit,
        )
    for policy in POLICIES:
        result = simulate(exact, seed=1, policy=policy)
        yield _row(
            f"{application}: {policy}",
            f"{result.resources:.2f} / {result.violations:.2f} / {result.reconfigurations:.2f}",
        )


def _row(name: str, ours: str, holds: bool | None = None) -> Row:
    return Row(
        TABLE,
        f"{name} (money, viol. %, rcf. %)",
        "",
        ours,
        beside_what="not in the paper",
        holds=holds,
        claim="limit kept",
    )


def rate_for(limit: float) -> float:
    """Return the rate that is exceeded in no more than a share of the tuning slots."""
    begin, slots = TUNED_ON
    return float(np.quantile(whole_trace()[begin : begin + slots], 1 - limit, method="higher"))


def share_late(experiment: Experiment, fixed: Sequence[Option]) -> float:
    """Return the share of the slots that judge in which a deployment exceeds the bound."""
    begin, slots = JUDGED_ON
    rates, slots_with = np.unique(whole_trace()[begin : begin + slots], return_counts=True)
    graph = experiment.dataflow
    late = [
        graph.response_time(
            {
                name: float(times_at(experiment, place, rate, np.array([option.counts]))[0])
                for place, (name, option) in enumerate(zip(graph.operators, fixed, strict=True))
            }
        )
        > experiment.objective.response_time
        for rate in rates
    ]
    return float(slots_with[late].sum() / slots)


def times_at(experiment: Experiment, place: int, rate: float, counts: Counts) -> Floats:
    """Return the response time of each of an operator's deployments at a source rate, s."""
    graph = experiment.dataflow
    arriving = graph.spread_rates(dict.fromkeys(graph.sources, rate))[graph.operators[place]]
    times, _ = predict_means(true_models(experiment)[place], counts, arriving)
    return times


def list_options(experiment: Experiment, place: int, rate: float) -> list[Option]:
    """Return what could be best for an operator at a source rate, by rising price."""
    model = true_models(experiment)[place]
    types = len(model.node_types)
    counts = np.concatenate(
        [n * np.eye(types, dtype=np.int64) for n in range(1, model.max_replicas + 1)]
    )
    times = times_at(experiment, place, rate, counts)
    prices = counts @ np.array([each.price for each in model.node_types])
    efficient: list[Option] = []
    for row in np.lexsort((times, prices)):
        if np.isfinite(times[row]) and (not efficient or times[row] < efficient[-1].time):
            efficient.append(
                Option(
                    counts=tuple(map(int, counts[row])),
                    price=float(prices[row]),
                    time=float(times[row]),
                )
            )
    return efficient


def find_cheapest(experiment: Experiment, rate: float) -> tuple[Option, ...]:
    """Return an option for each operator: together the cheapest within the bound at a rate."""
    graph, bound = experiment.dataflow, experiment.objective.response_time
    options = [list_options(experiment, place, rate) for place in range(len(graph.operators))]
    quickest = [min(each.time for each in of_one) for of_one in options]
    # The cheapest so far of some operators, those behind them as quick as they can be.
    best: tuple[float, tuple[Option, ...]] = (np.inf, ())
    unfinished: list[tuple[float, tuple[Option, ...]]] = [(0.0, ())]
    while unfinished:
        price, chosen = unfinished.pop()
        times = [*(each.time for each in chosen), *quickest[len(chosen) :]]
        if (
            price >= best[0]
            or graph.response_time(dict(zip(graph.operators, times, strict=True))) > bound
        ):
            continue
        if len(chosen) == len(options):
            best = price, chosen
            continue
        unfinished += [
            (price + each.price, (*chosen, each)) for each in reversed(options[len(chosen)])
        ]
    return best[1]
