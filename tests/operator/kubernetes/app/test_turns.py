"""So many StreamApps are brought up at once, and one that hangs holds up no other for long."""

from __future__ import annotations

import asyncio

from weir_operator.kubernetes.app.turns import Turn, Turns

NEVER = 3600.0


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
    first, second, third = turns.turn(), turns.turn(), turns.turn()

    assert [await begun(each) for each in (first, second, third)] == [True, True, False]
    first.end()
    assert await begun(third)

    second.end()
    third.end()


async def test_a_turn_that_hangs_ends_by_itself_and_only_once():
    places = asyncio.Semaphore(1)
    hanging, second, third = Turn(places, 0.0), Turn(places, NEVER), Turn(places, NEVER)
    await hanging.begin()

    await asyncio.wait_for(second.begin(), 5.0)
    hanging.end()

    assert not await begun(third)
    second.end()


async def test_a_turn_that_has_ended_may_begin_again():
    turn = Turns(at_once=1, longest=NEVER).turn()
    await turn.begin()
    turn.end()
    turn.end()

    assert await begun(turn)
    assert await begun(turn)  # it has begun
    turn.end()
