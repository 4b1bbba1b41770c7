"""What standby TaskManagers would have saved is judged by the intervals that changes waited in."""

from dataclasses import replace

import pytest

from tests.cli.recorded import a_tick
from weir_operator.reporting.standby_advice import StandbyAdvice, describe_standby, judge_standby
from weir_operator.rescale.journal import Kind, Step, plan

SOURCE = {"match": {"small/250m": 1}, "sink": {"small/250m": 1}}
MORE = {"match": {"small/250m": 2, "large/1": 1}, "sink": {"small/250m": 1}}


def a_change(*, kind=Kind.RESCALE, target=MORE, began=100.0, waited=30.0, warm=0):
    journal = plan(kind=kind, reason="more", now=began, source=SOURCE, target=target, old_job="a")
    times = {str(Step.START): began, str(Step.STOP): began + waited}
    return journal.model_copy(update={"times": times, "started": 2, "from_standby": warm})


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

    assert advice == StandbyAdvice(
        changes=1, waited=30.0, late=2, needed={"small": 1, "large": 1}, cold_wait=30.0, kept=0
    )
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


def test_what_standby_kept_is_judged_by_how_long_changes_waited_without():
    changes = [
        a_change(began=100.0, waited=2.0, warm=2),
        a_change(began=500.0, waited=25.0, warm=1),
    ]
    ticks = [interval(100.0 + 10 * each, violated=False) for each in range(8)]

    advice = judge_standby(changes, ticks)

    assert (advice.warm, advice.cold_wait) == (1, 25.0)
    assert advice.kept == 3  # from 102 to 125: those that end at 110, 120 and 130
    assert not advice.pays


def test_what_standby_kept_is_unknown_where_every_change_took_it():
    advice = judge_standby([a_change(waited=2.0, warm=2)] * 12, [interval(110.0, violated=False)])

    assert (advice.changes, advice.warm) == (12, 12)
    assert advice.kept is None


def test_it_is_neither_advised_nor_advised_against_where_it_works():
    unknown = StandbyAdvice(changes=12, waited=18.0, late=0, needed={"small": 2}, warm=12)
    known = replace(unknown, cold_wait=9.0, kept=7)

    texts = [describe_standby(each, {"small": 0.01}, {"small": 2}) for each in (unknown, known)]

    assert "unknown" in texts[0]
    assert "7 intervals" in texts[1]
    assert not any("standby: " in text or "remove" in text for text in texts)


def test_more_is_not_advised_where_nothing_was_missed():
    advice = StandbyAdvice(changes=2, waited=60.0, late=0, needed={"small": 2})

    assert "standby:" not in describe_standby(advice, {"small": 0.01}, {})
    assert describe_standby(replace(advice, changes=0), {"small": 0.01}, {}) == ""
