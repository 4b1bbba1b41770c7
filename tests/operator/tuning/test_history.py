"""A volume that hangs costs a thread and a wait, once; everything else goes on."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from dataclasses import replace

import pytest
import structlog

from tests.operator.tuning.tuning_setting import HOURS
from weir_operator.errors import TemporaryError
from weir_operator.tuning.history import HistoryReader, Past
from weir_policies.model.season import HOURS as HOURS_OF_WEEK
from weir_policies.model.season import Season
from weir_simulator.fitting.history import History
from weir_simulator.fitting.samples import Samples

HISTORY = History(
    samples=Samples(intervals=()), begin=0.0, rates={}, seasons={}, used=(), left_out={}
)
SEASON = Season(rates=(20.0,) * HOURS_OF_WEEK, weeks=1.0)
NOT_ANSWERING = "the volume does not answer: a read did not end within"


class Volume:
    """A place whose reads hang until a test lets them go on."""

    def __init__(self, *, hangs):
        self.answers = threading.Event()
        if not hangs:
            self.answers.set()
        self.threads = []
        self.begun = threading.Event()

    def read(self, app, *, operators, node_types):
        self.seasons(app)
        return HISTORY

    def seasons(self, app):
        self.threads.append(threading.current_thread())
        self.begun.set()
        self.answers.wait()
        return {app: SEASON}

    def come_back(self):
        """Answer, and wait until everybody who read has been told."""
        self.answers.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def hanging():
    volume = Volume(hangs=True)
    yield volume
    volume.come_back()


async def test_who_asks_while_a_read_is_overdue_waits_for_nothing(hanging):
    reader = HistoryReader(hanging, within=0.01)
    with pytest.raises(TemporaryError):
        await reader.seasons("trips")
    reader = use_within(reader, 3600.0)

    with pytest.raises(TemporaryError, match=NOT_ANSWERING):
        await reader.seasons("other")


def use_within(reader, seconds):
    """Give the next reads more time than a test has."""
    reader.within = seconds
    return reader


async def test_where_no_thread_can_be_had_the_next_read_is_no_worse_off(hanging, monkeypatch):
    reader = HistoryReader(hanging, within=30)
    hanging.come_back()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(TemporaryError, match="can't start new thread"):
            await reader.seasons("trips")

    assert await reader.seasons("trips") == {"trips": SEASON}


async def test_history_is_read_again_once_the_volume_answers(hanging):
    reader = HistoryReader(hanging, within=0.01)
    with pytest.raises(TemporaryError):
        await reader.seasons("trips")

    hanging.come_back()

    assert await use_within(reader, 60.0).seasons("trips") == {"trips": SEASON}


async def test_who_waits_for_the_reads_of_others_waits_no_longer_than_for_a_read(hanging):
    reader = HistoryReader(hanging, within=3600.0)
    slow = asyncio.create_task(reader.seasons("slow"))
    await asyncio.to_thread(hanging.begun.wait)
    use_within(reader, 0.01)

    others = [asyncio.create_task(reader.seasons(f"trips-{number}")) for number in range(40)]
    told, waiting = await asyncio.wait(others, timeout=10)

    assert not waiting
    assert all(NOT_ANSWERING in str(each.exception()) for each in told)
    hanging.come_back()
    assert await slow == {"slow": SEASON}
    assert len(hanging.threads) == 1  # nobody reads for those who have gone


async def test_no_end_of_the_process_waits_for_a_read_that_hangs(hanging):
    reader = HistoryReader(hanging, within=0.01)

    with pytest.raises(TemporaryError):
        await reader.seasons("trips")

    [thread] = hanging.threads
    assert thread.daemon


async def test_a_read_whose_asker_has_gone_is_not_taken_for_one_that_hangs(hanging):
    reader = HistoryReader(hanging, within=60.0)
    gone = asyncio.create_task(reader.seasons("deleted"))
    await asyncio.to_thread(hanging.begun.wait)
    gone.cancel()

    waiting = asyncio.create_task(reader.seasons("trips"))
    await asyncio.wait({gone})
    hanging.answers.set()

    assert await waiting == {"trips": SEASON}


class Kept(History):
    """A history whose end can be watched: one with slots has no place for that."""


async def test_a_history_that_was_let_go_is_not_kept_in_memory():
    class Source(Volume):
        def read(self, app, *, operators, node_types):
            self.seasons(app)
            history = Kept(
                samples=Samples(intervals=()), begin=0.0, rates={}, seasons={}, used=(), left_out={}
            )
            self.given = weakref.ref(history)
            return history

    source = Source(hangs=False)
    reader = HistoryReader(source)

    async with reader.opened("trips", operators=(), node_types=()) as history:
        assert history is source.given()
        del history
    source.come_back()
    await asyncio.sleep(0)  # the loop holds what woke this step until the next

    gc.collect()
    assert source.given() is None


async def test_a_defect_in_reading_means_no_history_and_is_logged():
    class Defective(Volume):
        def seasons(self, app):
            raise ZeroDivisionError(app)

    volume = Defective(hangs=False)

    with structlog.testing.capture_logs() as logged, pytest.raises(TemporaryError) as told:
        await HistoryReader(volume).seasons("trips")

    assert "ZeroDivisionError: trips" in str(told.value)
    [entry] = logged
    assert (entry["event"], entry["log_level"]) == ("defect in reading history", "error")
    assert entry["exc_info"] is True


async def test_the_next_history_is_read_once_the_one_before_is_let_go():
    volume = Volume(hangs=False)
    reader = HistoryReader(volume)
    where = {"operators": (), "node_types": ()}

    async def open_next():
        async with reader.opened("next", **where):
            pass

    async with reader.opened("trips", **where):
        waiting = asyncio.create_task(open_next())
        assert await reader.seasons("other") == {"other": SEASON}  # which is not held up
        held = len(volume.threads)
    await waiting

    assert (held, len(volume.threads)) == (2, 3)


async def test_a_job_whose_history_hangs_is_fitted_to_its_own_samples(setting_of, hanging):
    past = Past(reader=HistoryReader(hanging, within=0.01), app="streams/trips")
    later = tuple(replace(each, time=each.time + 3600.0) for each in HOURS)
    setting = setting_of(intervals=later, past=past)

    await setting.loop.attempt()

    assert setting.loop.view.model.fitted is True
    [told] = [each for each in setting.events if each.reason == "HistoryUnused"]
    assert NOT_ANSWERING in told.message
