"""Bounds on percentiles and of single sinks, simulated: against theory, and against a queue."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.builders import an_experiment
from tests.simulator.oracle import take_statistic
from weir_policies.model.objective import Statistic
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Experiment, Objective, PathBound
from weir_simulator.experiment_files import load_experiment
from weir_simulator.frontier import with_bound
from weir_simulator.goals import take_statistics
from weir_simulator.run import simulate
from weir_simulator.state import AT_SINKS, AT_TIME

SERVICE_RATE = 100.0
EXPONENTIAL = {"name": "a", "serviceRate": SERVICE_RATE, "scv": 1.0, "maxReplicas": 1}
SAME = [{"name": "t1", "speedup": 1.0, "price": 1.0}]


def run(rates, tmp_path, *, objective, operators=(EXPONENTIAL,), edges=(), **changes):
    """Simulate deployments that stay, at these rates; return history and result."""
    trace = tmp_path / "trace.txt"
    trace.write_text("".join(f"{rate}\n" for rate in rates))
    experiment = Experiment.model_validate_json(
        json.dumps(
            {
                "operators": list(operators),
                "edges": list(edges),
                "nodeTypes": SAME,
                "objective": objective,
                "trace": {"file": str(trace)},
                "policy": {"name": "hold"},
                **changes,
            }
        )
    )
    result = simulate(experiment, seed=1, history=True)
    return result.history, result


def bound(time, statistic):
    return {"bound": time, "statistic": statistic}


MOMENTS = st.tuples(
    st.just(0.0) | st.floats(1e-6, 1e6) | st.just(np.inf),
    st.just(0.0) | st.floats(1e-12, 1e12),
    st.just(0.0) | st.floats(1e-6, 1e2),
)
"""Mean, variance and constant part of a time, of which the mean has the constant part in it."""


@given(times=st.lists(MOMENTS, max_size=20), statistic=st.sampled_from(Statistic))
def test_statistics_of_many_times_are_those_of_each(times, statistic):
    reached = np.array(times, dtype=float).reshape(-1, 3).T
    reached[0] += reached[2]

    found = take_statistics(reached, statistic)

    assert found.tolist() == [take_statistic(each, statistic) for each in reached.T.tolist()]


@pytest.mark.parametrize(
    ("statistic", "over_mean"), [("P95", -np.log(0.05)), ("P99", -np.log(0.01))]
)
def test_the_percentile_of_an_mm1_queue_is_that_of_an_exponential_time(
    tmp_path, statistic, over_mean
):
    rates = np.array([10.0, 50.0, 80.0, 95.0])

    history, _ = run(rates, tmp_path, objective={"responseTime": bound("1s", statistic)})

    assert history[:, AT_TIME] == pytest.approx(over_mean / (SERVICE_RATE - rates), rel=1e-9)


def test_the_percentile_of_two_equal_queues_in_a_row_is_that_of_an_erlang_law(tmp_path):
    history, _ = run(
        [60.0],
        tmp_path,
        objective={"responseTime": bound("1s", "P95")},
        operators=[EXPONENTIAL, EXPONENTIAL | {"name": "b"}],
        edges=[["a", "b"]],
    )

    # P(T > t) of an Erlang law with two phases is (1 + x) exp(-x) with x = t / mean of a phase.
    phases = history[0, AT_TIME] * (SERVICE_RATE - 60)
    assert (1 + phases) * np.exp(-phases) == pytest.approx(0.05, rel=1e-6)


FORK = {
    "operators": [EXPONENTIAL | {"name": name} for name in ("source", "alerts", "archive")],
    "edges": [["source", "alerts"], ["source", "archive"]],
}


@pytest.mark.parametrize(
    ("paths", "late"),
    [
        ([], False),
        ([{"sink": "alerts", "responseTime": "45ms"}], True),
        ([{"sink": "alerts", "responseTime": "55ms"}], False),
        ([{"sink": "alerts", "responseTime": bound("90ms", "P95")}], True),
        ([{"sink": "alerts", "responseTime": bound("125ms", "P95")}], False),
    ],
    ids=["none", "mean, tight", "mean, loose", "p95, tight", "p95, loose"],
)
def test_a_slot_that_exceeds_the_bound_of_one_sink_is_a_violation(tmp_path, paths, late):
    history, result = run(
        [60.0], tmp_path, objective={"responseTime": "1s", "paths": paths}, **FORK
    )

    # Two queues of 25 ms each: a mean of 50 ms, and by the Erlang law a p95 of 119 ms.
    assert bool(history[0, AT_SINKS]) is late
    assert result.violations == (100.0 if late else 0.0)
    assert history[0, AT_TIME] == pytest.approx(0.05)


def test_a_percentile_counts_the_records_that_wait_in_a_backlog(tmp_path):
    """In the third slot, a backlog of 3000 records is worked off: waits fall evenly from 30 s."""
    history, _ = run(
        [50.0, 150.0, 50.0],
        tmp_path,
        objective={"responseTime": bound("1s", "P95")},
        world={"queues": True},
    )

    assert history[2, AT_TIME] == pytest.approx(0.95 * 30, rel=0.15)


def test_what_is_constant_on_the_way_is_added_to_a_percentile(tmp_path):
    history, _ = run(
        [50.0],
        tmp_path,
        objective={"responseTime": bound("1s", "P95")},
        operators=[EXPONENTIAL | {"networkTime": "7ms"}],
    )

    assert history[0, AT_TIME] == pytest.approx(0.007 - np.log(0.05) / 50, rel=1e-9)


def test_budgets_are_shares_of_the_mean_that_corresponds_to_a_percentile():
    objective = Objective(
        response_time=0.3,
        statistic=Statistic.P95,
        paths=(PathBound(sink="alerts", response_time=0.02),),
    )

    assert objective.mean_bound == pytest.approx(0.3 / -np.log(0.05))
    assert objective.mean_sink_bounds == pytest.approx({"alerts": 0.02})
    measured = objective.model_copy(update={"tail": 1.5})
    assert measured.mean_bound == pytest.approx(0.2)
    assert measured.mean_sink_bounds == pytest.approx({"alerts": 0.02}), "a mean has no tail"


def test_another_bound_keeps_statistic_and_sinks():
    objective = Objective(
        response_time=0.3,
        statistic=Statistic.P99,
        paths=(PathBound(sink="op", response_time=0.1),),
    )

    changed = with_bound(an_experiment(objective=objective), 0.5)

    assert changed.objective == objective.model_copy(update={"response_time": 0.5})


@pytest.mark.parametrize(
    ("objective", "named"),
    [
        ("{responseTime: 1s, paths: [{sink: oq, responseTime: 1s}]}", "objective.paths[0].sink"),
        ("{responseTime: {bound: 1s, statistic: p96}}", "objective.statistic"),
        ("{responseTime: {statistic: P95}}", "objective"),
        ("{responseTime: {bound: 1s, quantile: 95}}", "objective"),
    ],
)
def test_a_mistake_in_an_objective_is_refused_with_its_field(tmp_path, objective, named):
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "operators: [{name: op, serviceRate: 100, maxReplicas: 2}]\n"
        "nodeTypes: [{name: t1, speedup: 1, price: 1}]\n"
        f"objective: {objective}\n"
        "trace: {kind: taxi, slots: 10}\n"
    )

    with pytest.raises(ExperimentError) as refused:
        load_experiment(file)

    (mistake,) = refused.value.mistakes
    assert f"experiment.yaml:3: {named}" in mistake
