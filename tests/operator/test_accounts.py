"""Each StreamApp pays for its own answers; the others notice nothing."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from weir_operator import accounts
from weir_operator.accounts import ALWAYS_FREE, FIRST_PAUSE, LONGEST_PAUSE, Account, current_account
from weir_operator.limits import Raw, TooLargeError

PAGE = "http://10.0.0.1:9249"
WHAT = "the metrics page of 10.0.0.1:9249"


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def exceed(account, address=PAGE):
    with (
        pytest.raises(TooLargeError) as raised,
        account.asking(address, WHAT, remedy="run fewer replicas"),
    ):
        raise TooLargeError("it has more than 4 MiB")
    return str(raised.value)


def test_who_exceeds_a_limit_is_told_what_where_and_the_remedy():
    told: list[str] = []
    account = Account(on_change=told.append)

    sentence = exceed(account)

    assert sentence == (
        f"Weir cannot read {WHAT}: it has more than 4 MiB; run fewer replicas; "
        f"Weir asks again after {FIRST_PAUSE:g} s"
    )
    assert account.refusal == account.refusal_of(PAGE) == sentence
    assert told == [sentence]


def test_it_is_asked_less_and_less_often():
    clock = Clock()
    account = Account(now=clock)
    pauses = []

    for _ in range(8):
        exceed(account)
        began = clock.seconds
        while account.is_paused(PAGE):
            clock.seconds += FIRST_PAUSE
        pauses.append(clock.seconds - began)

    assert pauses == [min(LONGEST_PAUSE, FIRST_PAUSE * 2**number) for number in range(8)]


def test_in_the_pause_nothing_is_asked_and_the_error_is_the_same():
    account = Account()
    sentence = exceed(account)

    with pytest.raises(TooLargeError) as raised, account.asking(PAGE, WHAT):
        raise AssertionError("asked")

    assert str(raised.value) == sentence


def test_other_addresses_have_no_pause():
    account = Account()
    exceed(account)

    with account.asking("http://10.0.0.2:9249", "another page"):
        pass

    assert not account.is_paused("http://10.0.0.2:9249")
    assert account.is_paused(PAGE)


def test_an_answer_that_can_be_read_ends_the_condition():
    told: list[str] = []
    clock = Clock()
    account = Account(on_change=told.append, now=clock)
    exceed(account)
    clock.seconds = FIRST_PAUSE

    with account.asking(PAGE, WHAT) as hold:
        hold(10)

    assert account.refusal == told[-1] == ""


def test_refusals_of_ever_new_addresses_are_not_all_remembered():
    account = Account()

    for number in range(1000):
        exceed(account, f"http://10.0.0.{number}")

    assert len([n for n in range(1000) if account.is_paused(f"http://10.0.0.{n}")]) == 100


def test_what_one_holds_is_bounded_and_free_again_afterwards(monkeypatch):
    monkeypatch.setattr(accounts, "MAX_HELD", 1000)
    account = Account()

    with contextlib.ExitStack() as stack:
        holds = [stack.enter_context(account.asking(str(n), WHAT)) for n in range(10)]
        for hold in holds:
            hold(100)
        with pytest.raises(TooLargeError, match="it and others"):
            holds[0](1)

    with account.asking("next", WHAT) as hold:
        hold(1000)


def test_where_all_hold_too_much_only_who_holds_much_is_refused(monkeypatch):
    monkeypatch.setattr(accounts, "MAX_HELD_BY_ALL", 20 * ALWAYS_FREE)
    total = accounts._Total()
    greedy, modest = Account(total=total), Account(total=total)

    with contextlib.ExitStack() as stack:
        hold = stack.enter_context(greedy.asking(PAGE, WHAT))
        hold(20 * ALWAYS_FREE)
        with modest.asking(PAGE, WHAT) as hold_modestly:
            hold_modestly(ALWAYS_FREE)
            with pytest.raises(TooLargeError, match="all StreamApps"):
                hold(1)


async def test_one_streamapp_that_parses_without_end_costs_another_one_turn():
    greedy, modest = Account(), Account()
    large = Raw(b"x" * 2**20, "")
    order = []

    def work(name):
        def note(_):
            time.sleep(0.01)
            order.append((name, threading.current_thread().name))

        return note

    many = [greedy.work_on(large, 2**21, work("greedy")) for _ in range(20)]
    tasks = [asyncio.create_task(each) for each in many]
    await asyncio.sleep(0)
    await modest.work_on(large, 2**21, work("modest"))
    await asyncio.gather(*tasks)

    names = [name for name, _ in order]
    assert names.index("modest") <= 2
    assert len({thread for _, thread in order}) == 1


async def test_a_task_has_the_account_of_its_streamapp():
    account = Account()

    async def steer():
        account.use()
        return await asyncio.create_task(find())

    async def find():
        return current_account()

    assert await asyncio.create_task(steer()) is account
    assert current_account() is not account
