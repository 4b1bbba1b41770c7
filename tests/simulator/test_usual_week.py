import json
import math

import pytest

from weir_policies.model.season import HOURS, Season
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Experiment, UsualWeek
from weir_simulator.experiment_files import load_experiment, write_experiment
from weir_simulator.run import simulate

WEEK = 7 * 1440


def an_experiment(trace_seed=1):
    """Return the second of two weeks with a rhythm of day and week."""
    return Experiment.model_validate_json(
        json.dumps(
            {
                "operators": [{"name": "op", "serviceRate": 180, "scv": 0.5, "maxReplicas": 10}],
                "nodeTypes": [
                    {"name": "t1", "speedup": 1.0, "price": 1.0},
                    {"name": "t2", "speedup": 0.7, "price": 0.7},
                    {"name": "t3", "speedup": 1.3, "price": 1.3},
                ],
                "objective": {"responseTime": "50ms"},
                "trace": {"kind": "taxi", "start": WEEK, "slots": WEEK, "seed": trace_seed},
            }
        )
    )


def week_before(experiment):
    """Return the hourly means of the first week."""
    source = experiment.trace.model_copy(update={"start": 0, "slots": WEEK})
    hours = arrival_rates(source).reshape(HOURS, 60).mean(axis=1)
    return Season(rates=tuple(hours.tolist()))


def begun_with(experiment, season):
    [operator] = experiment.operators
    told = operator.model_copy(update={"usual": UsualWeek.of(season)})
    return experiment.model_copy(update={"operators": (told,)})


@pytest.fixture(scope="module", params=[1, 2, 3])
def untold(request):
    """Return an experiment, and what comes of its planner where it is told nothing."""
    experiment = an_experiment(request.param)
    return experiment, simulate(experiment, seed=1)


def test_a_planner_that_knows_the_week_before_costs_less_in_its_first_week(untold):
    experiment, alone = untold

    told = simulate(begun_with(experiment, week_before(experiment)), seed=1)

    assert told.average_cost < 0.98 * alone.average_cost
    assert told.reconfigurations < alone.reconfigurations


def test_a_season_that_is_half_a_day_off_costs_little_more_than_none(untold):
    experiment, alone = untold
    wrong = week_before(experiment).beginning_at(12)

    misled = simulate(begun_with(experiment, wrong), seed=1)

    assert misled.average_cost < 1.05 * alone.average_cost


def test_a_policy_that_has_no_use_for_it_decides_as_before():
    experiment = an_experiment()

    alone = simulate(experiment, seed=1, policy="queueing")
    told = simulate(begun_with(experiment, week_before(experiment)), seed=1, policy="queueing")

    assert told.average_cost == alone.average_cost


def test_a_file_keeps_it_with_the_hours_that_nobody_knows(tmp_path):
    season = Season(rates=(math.nan, 1234.56, *[5.0] * (HOURS - 2)), weeks=3)

    write_experiment(begun_with(an_experiment(), season), tmp_path / "told.yaml")

    [operator] = load_experiment(tmp_path / "told.yaml").operators
    assert operator.usual is not None
    assert operator.usual.rates[:3] == (None, 1235.0, 5.0)
    assert operator.usual.weeks == 3
