"""What a tuning of a job that runs is asked for."""

import pytest

from tests.operator.streamapp.builders import a_stream_app
from tests.simulator.builders import an_experiment
from weir_operator.tuning.requests import begin_with
from weir_operator.wiring.assembly import tuning_settings
from weir_policies.model.objective import Statistic
from weir_simulator.experiment import Objective, PathBound

TYPES = [each.name for each in an_experiment().node_types]
ROOM = an_experiment().operators[0].max_replicas


def test_a_simulation_begins_with_what_runs_and_names_no_type_that_nothing_runs_on():
    first = begin_with({"op": {TYPES[0]: 2}, "sink": {TYPES[0]: 9}}, an_experiment())

    assert first == {TYPES[0]: 2}


def test_operators_in_unlike_pools_begin_with_what_each_runs_there():
    operators = [
        {"name": "a", "service_rate": 200, "max_replicas": 2, "pools": TYPES[:1]},
        {"name": "b", "service_rate": 200, "max_replicas": 3, "pools": TYPES[1:]},
    ]
    experiment = an_experiment(operators=operators)

    first = begin_with({"a": {TYPES[0]: 2}, "b": {TYPES[1]: 3}}, experiment)

    begun = experiment.model_copy(update={"initial": first})
    assert [each.counts for each in begun.initial_deployments] == [(2, 0), (0, 3)]


def test_what_does_not_suffice_for_all_or_is_too_much_for_one_is_not_begun_with():
    nothing = begin_with({}, an_experiment())
    too_much = begin_with({"op": {TYPES[0]: ROOM + 1}}, an_experiment())

    assert (nothing, too_much) == (None, None)


def test_what_a_pool_has_no_room_for_when_all_begin_with_it_is_not_begun_with():
    operators = [
        {"name": name, "service_rate": 200, "max_replicas": 3, "pools": pools}
        for name, pools in (("a", TYPES), ("b", TYPES[1:]))
    ]
    types = [
        {"name": TYPES[0], "speedup": 1, "price": 1},
        {"name": TYPES[1], "speedup": 1, "price": 1, "pool_limit": 3},
    ]
    experiment = an_experiment(operators=operators, node_types=types)

    first = begin_with({"a": {TYPES[1]: 1}, "b": {TYPES[1]: 2}}, experiment)

    assert first is None  # two of each


def test_the_manifests_objective_is_simulated_with_its_statistic_and_its_sinks():
    app = a_stream_app(
        objective={
            "responseTime": {"bound": "500ms", "statistic": "P95"},
            "paths": [{"sink": "count", "responseTime": "100ms"}],
        }
    )

    objective = tuning_settings(app, policy="hold", tuner_deadline=60.0).terms.objective

    assert objective == Objective(
        response_time=0.5,
        statistic=Statistic.P95,
        paths=(PathBound(sink="count", response_time=0.1),),
    )


@pytest.mark.parametrize(
    ("interval", "tuner_deadline", "expected"),
    [("10m", 1800.0, 300.0), ("1h", 1800.0, 600.0), ("1h", 300.0, 180.0)],
    ids=["half of the interval", "ten minutes", "what the tuner leaves"],
)
def test_a_search_ends_early_enough_for_whoever_waits_for_it(interval, tuner_deadline, expected):
    app = a_stream_app(applicationManager={"interval": interval})

    settings = tuning_settings(app, policy="hold", tuner_deadline=tuner_deadline)

    assert settings.terms.deadline == pytest.approx(expected)
