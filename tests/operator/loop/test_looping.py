"""The loops of a StreamApp go on whatever fails in one pass, and say what fails."""

from __future__ import annotations

import pytest

from weir_operator.errors import JobFailedError, PermanentError, TemporaryError
from weir_operator.loop.lifecycle import Health
from weir_operator.loop.loop import Loop, Trouble, try_tick, watch_job
from weir_policies.errors import DataflowError

AWAY = TemporaryError("The JobManager did not answer")


class Job:
    """A job whose looks find what a test says, and which has then come to its end."""

    def __init__(self, *found):
        self.found = [*found, Health.FINISHED]
        self.troubles = []

    async def heal(self):
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def rest(self):
        """Look again at once."""

    async def looked_after(self):
        await watch_job(self.heal, self.rest, self.troubles.append)
        return [trouble.sentence for trouble in self.troubles]


async def test_one_look_in_vain_is_no_trouble():
    found = await Job(Health.RUNS, AWAY, Health.RUNS, Health.RESTARTING, Health.RUNS).looked_after()

    assert found == ["", "", ""]


async def test_looks_in_vain_one_after_the_other_are_trouble_until_the_job_runs():
    found = await Job(AWAY, Health.RESTARTING, AWAY, Health.RUNS).looked_after()

    restarts, away, over = found
    assert "restarting" in restarts
    assert "The JobManager did not answer" in away
    assert over == ""


async def test_a_change_under_way_neither_ends_trouble_nor_makes_any():
    found = await Job(AWAY, Health.CHANGING, Health.CHANGING, AWAY).looked_after()

    assert len(found) == 1


async def test_a_job_that_cannot_be_kept_running_ends_the_looks():
    with pytest.raises(JobFailedError):
        await Job(JobFailedError("no slot")).looked_after()


async def tick_that(error):
    troubles: list[Trouble] = []

    async def tick():
        if error is not None:
            raise error

    await try_tick(tick, troubles.append)
    [trouble] = troubles
    return trouble


@pytest.mark.parametrize(
    "error", [AWAY, PermanentError("refused (401)"), DataflowError("expected an operator")]
)
async def test_a_tick_that_fails_is_trouble_in_its_own_words(error):
    assert await tick_that(error) == Trouble(Loop.TICK, str(error))


async def test_an_unexpected_error_is_told_by_its_kind_and_place_and_not_by_its_text():
    trouble = await tick_that(KeyError("the secret 271828"))

    assert trouble.unexpected
    assert "KeyError" in trouble.sentence
    assert "271828" not in trouble.sentence


async def test_a_tick_that_succeeds_ends_the_trouble():
    assert await tick_that(None) == Trouble(Loop.TICK, "")
