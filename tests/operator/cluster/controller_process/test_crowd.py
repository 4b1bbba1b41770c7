"""Jobs of many StreamApps are looked at more rarely than those of a few."""

import contextlib

from weir_operator.cluster.crowd import Crowd


def test_few_jobs_are_looked_at_as_often_as_is_useful():
    crowd = Crowd()

    with crowd.joined():
        pause = crowd.look_every(5.0)

    assert pause == 5.0


def test_a_thousand_jobs_are_looked_at_about_once_a_minute():
    crowd = Crowd()

    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(crowd.joined())
        pause = crowd.look_every(5.0)

    assert 55.0 < pause < 65.0


def test_those_who_left_slow_nobody_down():
    crowd = Crowd()
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(crowd.joined())

    pause = crowd.look_every(5.0)

    assert pause == 5.0
