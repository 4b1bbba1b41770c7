"""How long Weir waits for Flink to forget a TaskManager."""

from __future__ import annotations

import pytest

from weir_operator.errors import TemporaryError
from weir_operator.flink.answers import TaskManager
from weir_operator.flink.configuration import RECOMMENDED
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.registration import (
    FORGOTTEN_WITHIN,
    forgotten_within,
    wait_unregistered,
)

FLINKS_TIMEOUT = 50.0
"""`heartbeat.timeout` of Flink 2.3.0, seconds."""


class Listing(FlinkRest):
    """A JobManager that lists what it is told to."""

    def __init__(self, *answers):
        super().__init__("http://127.0.0.1:1")
        self.answers = list(answers)

    async def task_managers(self):
        listed = self.answers.pop(0)
        return tuple(TaskManager(id=each, slots=1, extended_resources={}) for each in listed)


def test_one_whose_address_answers_nobody_is_waited_for_until_flink_gives_it_up():
    assert "heartbeat.timeout" not in RECOMMENDED  # else it is that which has to pass
    assert FORGOTTEN_WITHIN > FLINKS_TIMEOUT


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("5 min", 300), ("180000", 180), ("PT2M", 120), ("50 s", 50), ("1 s", 1), ("soon", 0)],
)
def test_who_gives_flink_more_time_is_waited_for_longer(timeout, seconds):
    limit = forgotten_within({"heartbeat.timeout": timeout})

    assert limit >= FORGOTTEN_WITHIN
    assert limit > seconds


async def test_others_that_are_listed_are_not_waited_for():
    await wait_unregistered(Listing(["a", "b"], ["b"]), ["a"], timeout=60.0)


async def test_who_is_still_listed_after_the_time_is_named():
    with pytest.raises(TemporaryError, match=r"\['a'\]"):
        await wait_unregistered(Listing(["a"]), ["a"], timeout=0.0)
