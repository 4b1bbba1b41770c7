"""What standby TaskManagers would have saved is judged by the intervals that changes waited in."""

from dataclasses import replace

import pytest

from tests.cli.recorded import a_tick
from weir_operator.reporting.standby_advice import StandbyAdvice, describe_standby, judge_standby
from weir_operator.rescale.journal import Kind, Step, plan

SOURCE = {"match": {"small/250m": 1}, "sink": {"small/250m": 1}}
MORE = {"match": {"small/250m": 2, "large/1": 1}, "sink": {"small/250m": 1}}


def a_change(*, kind=Kind.RESCALE, target=MORE, began=100.0, waited=30.0):
    journal = plan(kind=kind, reason="more", now=began, source=SOURCE, target=target, old_job="a")
    times = {str(Step.START): began, str(Step.STOP): began + waited}
    return journal.model_copy(update={"times": times})


def interval(time, *, violated):
    return replace(a_tick(time), seconds=10.0, violated=violated)


def test_late_intervals_count_while_a_change_waits_for_its_task_managers():
    ticks = [
        interval(100.0, violated=True),  # over as the wait begins
        interval(110.0, violated=True),
        interval(120.0, violated=False),
        interval(130.0, violated=None),
        interval(139.0, violated=True),
        interval(141.0, violated=True),
    ]

    advice = judge_standby([a_change()], ticks)

    assert advice == StandbyAdvice(changes=1, waited=30.0, late=2, needed={"small": 1, "large": 1})
    assert advice.pays


@pytest.mark.parametrize(
    "change",
    [
        a_change(target=SOURCE),
        a_change(target={"match": {"small/250m": 1}}),
        a_change(kind=Kind.RECOVER),
        a_change(target={**SOURCE, "match": {"small/500m": 1}}),
    ],
)
def test_changes_that_add_no_replicas_wait_for_none(change):
    assert judge_standby([change], [interval(110.0, violated=True)]).changes == 0


def test_the_most_that_one_change_added_is_needed():
    more = {"match": {"small/250m": 4}, "sink": {"small/250m": 1}}

    assert judge_standby([a_change(), a_change(target=more)], []).needed == {
        "small": 3,
        "large": 1,
    }


def test_it_is_advised_with_its_cost_where_the_objective_was_missed():
    advice = StandbyAdvice(changes=2, waited=60.0, late=3, needed={"small": 2, "large": 1})

    text = describe_standby(advice, {"small": 0.01, "large": 0.05}, {"large": 1})

    assert "standby: 2 in pool small" in text
    assert "large" not in text
    assert "0.480" in text


def test_it_is_advised_against_where_nothing_was_missed():
    advice = StandbyAdvice(changes=2, waited=60.0, late=0, needed={"small": 2})

    assert "standby:" not in describe_standby(advice, {"small": 0.01}, {})
    assert describe_standby(advice, {"small": 0.01}, {}) != describe_standby(
        advice, {"small": 0.01}, {"small": 1}
    )
    assert describe_standby(replace(advice, changes=0), {"small": 0.01}, {}) == ""
