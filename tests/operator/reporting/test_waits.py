"""What an earlier start could have saved is judged by the intervals that changes waited in."""

from dataclasses import replace

import pytest

from tests.cli.recorded import a_tick
from weir_operator.reporting.explanation import describe_waits
from weir_operator.rescale.journal import Kind, Step, plan

SOURCE = {"match": {"small/250m": 1}, "sink": {"small/250m": 1}}
MORE = {"match": {"small/250m": 2, "large/1": 1}, "sink": {"small/250m": 1}}


def a_change(*, kind=Kind.RESCALE, started=2, stops=True):
    journal = plan(kind=kind, reason="more", now=99.0, source=SOURCE, target=MORE, old_job="a")
    times = {str(Step.START): 100.0} | ({str(Step.STOP): 130.0} if stops else {})
    return journal.model_copy(update={"times": times, "started": started})


def interval(time, *, violated):
    return replace(a_tick(time), seconds=10.0, violated=violated)


def test_intervals_over_the_bound_count_while_a_change_waits_for_its_task_managers():
    ticks = [
        interval(100.0, violated=True),  # over as the wait begins
        interval(110.0, violated=True),
        interval(120.0, violated=False),
        interval(130.0, violated=None),
        interval(139.0, violated=True),
        interval(141.0, violated=True),
    ]

    said = describe_waits([a_change(), a_change()], ticks)

    assert said.startswith("2 changes waited 1:00 for new TaskManagers.")
    assert said.endswith("would have saved at most 2 intervals over the bound.")


def test_nothing_is_promised_where_no_interval_exceeded_the_bound():
    said = describe_waits([a_change()], [interval(110.0, violated=False)])

    assert said.startswith("1 change waited 30.00 s")
    assert "saved" not in said


@pytest.mark.parametrize(
    "change", [a_change(started=0), a_change(kind=Kind.RECOVER), a_change(stops=False)]
)
def test_a_change_that_no_running_job_waited_for_is_left_out(change):
    assert describe_waits([change], [interval(110.0, violated=True)]) == ""
