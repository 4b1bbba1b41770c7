"""So many StreamApps are brought up at once, and one that hangs holds up no other for long."""

from __future__ import annotations

import asyncio

from weir_operator.kubernetes.app.turns import LONGEST, MARGIN, Turns

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


async def order_of_turns(turns, ticks):
    """Return in which order StreamApps are given turns, by their ticks in an interval of 60 s."""
    first = turns.turn(soon)
    await first.begin()
    given = []

    async def wait(tick):
        turn = turns.turn(lambda after: (tick - after) % 60.0)
        await turn.begin()
        given.append(tick)
        turn.end()

    waiting = [asyncio.create_task(wait(each)) for each in ticks]
    await asyncio.sleep(0)
    first.end()
    await asyncio.gather(*waiting)
    return given


async def test_the_next_turn_is_that_of_the_soonest_tick_after_the_job_is_brought_up():
    turns = Turns(at_once=1)
    brought_up = LONGEST + MARGIN

    ticks = [brought_up + 50, brought_up + 10, brought_up - 1, brought_up + 30]

    # The third one could not be brought up before its tick.
    assert await order_of_turns(turns, ticks) == [ticks[1], ticks[3], ticks[0], ticks[2]]


async def test_others_are_expected_to_take_as_long_as_the_slowest_of_the_latest():
    turns = Turns(at_once=2, longest=0.01)
    slow, second, third = (turns.turn(soon) for _ in range(3))
    await slow.begin()
    await second.begin()
    await third.begin()  # the slow one's turn is over, and it is still being brought up
    for each in (third, second, slow):
        each.end()
    turns.longest = 0.0  # less than the slow one took
    await turns.turn(soon).begin()  # or the first of the others would not have to wait

    assert await order_of_turns(turns, [MARGIN + 0.005, 30.0]) == [30.0, MARGIN + 0.005]


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
