"""So many StreamApps are brought up at once, and one that hangs holds up no other for long."""

from __future__ import annotations

import asyncio

from weir_operator.kubernetes.app.turns import BROUGHT_UP_AFTER, Turns

NEVER = 3600.0


def soon(after):
    """Return when a StreamApp ticks whose tick is always the next one."""
    return 0.0


async def begun(turn):
    """Return whether a turn begins at once."""
    task = asyncio.create_task(turn.begin())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if task.done():
        return True
    task.cancel()
    return False


async def test_one_more_than_there_are_places_waits_for_the_end_of_another():
    turns = Turns(at_once=2, longest=NEVER)
    first, second, third = turns.turn(soon), turns.turn(soon), turns.turn(soon)

    assert [await begun(each) for each in (first, second, third)] == [True, True, False]
    first.end()
    assert await begun(third)

    second.end()
    third.end()


async def test_a_turn_that_hangs_ends_by_itself_and_only_once():
    turns = Turns(at_once=1, longest=0.05)
    hanging, second, third = (turns.turn(soon) for _ in range(3))
    await hanging.begin()

    await asyncio.wait_for(second.begin(), 5.0)
    turns.longest = NEVER
    hanging.end()

    assert not await begun(third)
    second.end()


async def test_the_next_turn_is_that_of_the_soonest_tick_after_the_job_is_brought_up():
    now, interval = 0.0, 60.0

    def at(place):
        return lambda after: (place - now - after) % interval

    turns = Turns(at_once=1, longest=NEVER)
    first = turns.turn(soon)
    await first.begin()
    given = []

    async def wait(place):
        turn = turns.turn(at(place))
        await turn.begin()
        given.append(place)
        turn.end()

    # The third's tick comes before it can have been brought up.
    waiting = [asyncio.create_task(wait(BROUGHT_UP_AFTER + each)) for each in (50, 10, -1, 30)]
    await asyncio.sleep(0)
    first.end()
    await asyncio.gather(*waiting)

    assert given == [BROUGHT_UP_AFTER + each for each in (10, 30, 50, -1)]


async def test_one_that_no_longer_waits_is_given_no_turn():
    turns = Turns(at_once=1, longest=NEVER)
    first, second, third = (turns.turn(soon) for _ in range(3))
    await first.begin()
    leaving, given = asyncio.create_task(second.begin()), asyncio.create_task(third.begin())
    await asyncio.sleep(0)

    leaving.cancel()
    first.end()  # before the one that is cancelled has run again

    await asyncio.wait_for(given, 5.0)
    third.end()
    assert await begun(second)


async def test_a_place_that_was_given_to_one_that_leaves_goes_on_to_another():
    turns = Turns(at_once=1, longest=NEVER)
    first, second, third = (turns.turn(soon) for _ in range(3))
    await first.begin()
    leaving = asyncio.create_task(second.begin())
    await asyncio.sleep(0)

    first.end()
    leaving.cancel()  # before it has run again
    await asyncio.wait({leaving})

    assert await begun(third)


async def test_a_turn_that_has_ended_may_begin_again():
    turn = Turns(at_once=1, longest=NEVER).turn(soon)
    await turn.begin()
    turn.end()
    turn.end()

    assert await begun(turn)
    assert await begun(turn)  # it has begun
    turn.end()
