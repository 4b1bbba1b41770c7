"""Jobs of many are looked at more rarely than those of a few, but for those in danger."""

import asyncio
import contextlib

import pytest

from weir_operator.api.objects import Key
from weir_operator.cluster.app.health_checks import HealthCheckScheduler

ALL = [Key("streams", f"app-{number}") for number in range(1000)]
ONE = ALL[0]


@pytest.fixture
def health_checks():
    return HealthCheckScheduler()


@pytest.fixture
def thousand(health_checks):
    with contextlib.ExitStack() as stack:
        for key in ALL:
            stack.enter_context(health_checks.joined(key))
        yield health_checks


def test_few_jobs_are_looked_at_as_often_as_is_useful(health_checks):
    with health_checks.joined(ONE):
        pause = health_checks.look_every(ONE, 5.0)

    assert pause == 5.0


def test_a_thousand_jobs_are_looked_at_about_once_a_minute(thousand):
    pause = thousand.look_every(ONE, 5.0)

    assert 55.0 < pause < 65.0


def test_those_who_left_slow_nobody_down(health_checks):
    with contextlib.ExitStack() as stack:
        for key in ALL:
            stack.enter_context(health_checks.joined(key))

    pause = health_checks.look_every(ONE, 5.0)

    assert pause == 5.0


def test_those_in_danger_are_looked_at_as_if_they_were_alone(thousand):
    thousand.warn({ONE})

    assert thousand.look_every(ONE, 5.0) == 5.0
    assert thousand.look_every(ALL[1], 5.0) > 55.0


def test_many_in_danger_do_not_overwhelm_the_controller(thousand):
    thousand.warn(set(ALL))

    assert thousand.look_every(ONE, 5.0) > 55.0


async def test_who_comes_into_danger_is_looked_at_at_once(thousand):
    resting = [asyncio.create_task(thousand.rest(key, 5.0)) for key in ALL[:2]]
    await asyncio.sleep(0)  # both rest by now

    thousand.warn({ONE})
    await resting[0]

    assert not resting[1].done()
    resting[1].cancel()
    await asyncio.wait(resting)


async def test_a_warning_that_comes_during_a_look_is_followed_by_another_look(thousand):
    thousand.warn({ONE})

    await asyncio.wait_for(thousand.rest(ONE, 5.0), 1.0)


async def test_who_stays_in_danger_is_not_looked_at_without_a_pause(thousand):
    thousand.warn({ONE})
    await thousand.rest(ONE, 5.0)

    thousand.warn({ONE})
    resting = asyncio.create_task(thousand.rest(ONE, 5.0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert not resting.done()
    resting.cancel()
    await asyncio.wait({resting})


async def test_one_that_is_created_again_is_looked_at_while_the_former_leaves(health_checks):
    with contextlib.ExitStack() as later:
        with health_checks.joined(ONE):
            later.enter_context(health_checks.joined(ONE))

        health_checks.warn({ONE})
        await asyncio.wait_for(health_checks.rest(ONE, 5.0), 1.0)


async def test_a_namesake_in_another_namespace_is_another_one(health_checks):
    namesake = Key("other", ONE.name)
    with health_checks.joined(ONE), health_checks.joined(namesake):
        health_checks.warn({namesake})
        resting = asyncio.create_task(health_checks.rest(ONE, 5.0))
        await health_checks.rest(namesake, 5.0)

        assert not resting.done()
        resting.cancel()
        await asyncio.wait({resting})
