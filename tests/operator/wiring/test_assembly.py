"""What loops and engine are told of a StreamApp."""

import pytest

from tests.operator.streamapp.builders import a_stream_app
from weir_operator.errors import PermanentError
from weir_operator.streamapp.operators import Operator
from weir_operator.wiring import assembly

PYTHON = {"image": "trips:1", "job": {"python": {"file": "/opt/flink/usrlib/job.py"}}}


def test_a_pyflink_job_has_time_to_end_a_bundle_and_to_start_python():
    settings = assembly.rescale_settings(a_stream_app(flink=PYTHON))

    assert (settings.savepoint_deadline, settings.submit_deadline) == (60.0, 120.0)
    assert assembly.loop_settings(a_stream_app(flink=PYTHON)).python


@pytest.mark.parametrize("flink", [PYTHON, {"image": "trips:1"}])
def test_longer_deadlines_of_the_manifest_hold(flink):
    given = {"savepointDeadline": "5m", "submitDeadline": "4m"}

    settings = assembly.rescale_settings(a_stream_app(flink=flink, rescale=given))

    assert (settings.savepoint_deadline, settings.submit_deadline) == (300.0, 240.0)


def test_other_jobs_keep_the_short_deadlines():
    app = a_stream_app()

    settings = assembly.rescale_settings(app)

    assert (settings.savepoint_deadline, settings.submit_deadline) == (10.0, 30.0)
    assert not assembly.loop_settings(app).python


def test_a_job_that_is_found_to_have_too_many_operators_for_its_sizes_gets_no_loops():
    app = a_stream_app(nodePools=[{"name": "small", "sizes": ["250m", "500m", "1", "2"]}])
    found = tuple(Operator(name=f"v{n}") for n in range(251))
    app = app.model_copy(update={"spec": app.spec.model_copy(update={"operators": found})})

    with pytest.raises(PermanentError, match="at most 3 sizes, because the job has 251 operators"):
        assembly.operator_managers(app)


SMALL_AND_LARGE = [
    {"name": "small", "sizes": ["1"], "price": "0.04", "maxReplicas": 4},
    {"name": "large", "sizes": ["1"], "price": "0.05"},
]


def test_the_first_start_keeps_the_limits_of_pools_that_operators_share():
    app = a_stream_app(
        nodePools=SMALL_AND_LARGE,
        operators=[{"name": "match", "minReplicas": 3}, {"name": "sink", "minReplicas": 3}],
    )

    assert assembly.initial_deployments(app) == {
        "match": {"small/1": 3},
        "sink": {"small/1": 1, "large/1": 2},
    }


def test_operators_that_can_go_nowhere_else_start_where_they_can():
    app = a_stream_app(
        nodePools=SMALL_AND_LARGE,
        operators=[
            {"name": "read", "minReplicas": 3},
            {"name": "match", "minReplicas": 2, "pools": ["small"]},
            {"name": "sink", "initial": {"small/1": 1}},
        ],
    )

    assert assembly.initial_deployments(app) == {
        "read": {"small/1": 1, "large/1": 2},
        "match": {"small/1": 2},
        "sink": {"small/1": 1},
    }


def test_what_runs_already_stays_and_takes_its_room():
    app = a_stream_app(nodePools=SMALL_AND_LARGE, operators=[{"name": "match"}, {"name": "sink"}])

    assert assembly.initial_deployments(app, {"sink": {"small/1": 4}}) == {
        "match": {"large/1": 1},
        "sink": {"small/1": 4},
    }
