"""How long a StreamApp waits after a run that failed, and when its next tick is."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from types import SimpleNamespace
from typing import cast

import pytest

from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.app.task import (
    FIRST_PAUSE,
    LONGEST_MID_CHANGE,
    LONGEST_PAUSE,
    LOOK_ELSEWHERE,
    AppTask,
    choose_pause,
    has_stopped_the_job,
    is_mid_change,
)


def pauses(kind, times, *, mid_change):
    pause, taken = FIRST_PAUSE, []
    for _ in range(times):
        pause = choose_pause(kind, pause, mid_change=mid_change)
        taken.append(pause)
    return taken


@pytest.mark.parametrize("kind", ["permanent", "temporary", "defect"])
def test_a_change_that_is_unfinished_is_gone_on_with_soon_whatever_the_error(kind):
    taken = pauses(kind, 10, mid_change=True)

    assert taken[0] == 2 * FIRST_PAUSE
    assert max(taken) == LONGEST_MID_CHANGE


def test_a_permanent_error_is_tried_again_late_where_no_change_is_under_way():
    assert pauses("permanent", 2, mid_change=False) == [LONGEST_PAUSE, LONGEST_PAUSE]


def test_who_must_not_act_any_more_looks_soon_who_is_to():
    assert pauses("fenced", 3, mid_change=True) == 3 * [FIRST_PAUSE]


def test_other_pauses_grow_to_their_bounds():
    assert max(pauses("temporary", 10, mid_change=False)) == LONGEST_PAUSE
    assert max(pauses("elsewhere", 10, mid_change=False)) == LOOK_ELSEWHERE


@pytest.mark.parametrize(
    ("rescale", "expected"),
    [
        ('{"step":"Stopping"}', True),
        ('{"step":"Verifying"}', True),
        ('{"step":"Done"}', False),
        ('{"step":"Failed"}', False),
        ('{"step":["damaged"]}', False),
        ("damaged", False),
        ({"step": "damaged"}, False),
        (None, False),
    ],
)
def test_whether_a_change_is_unfinished_is_read_from_the_status(rescale, expected):
    assert is_mid_change({"rescale": rescale}) is expected


@pytest.mark.parametrize(
    ("kind", "step", "direction", "expected"),
    [
        ("Rescale", "Starting", "Forward", False),
        ("Rescale", "Stopping", "Forward", True),
        ("Rescale", "Verifying", "Forward", True),
        ("Rescale", "Starting", "Back", True),
        ("Upgrade", "Starting", "Forward", True),
        ("Upgrade", "Done", "Forward", False),
        ("Start", "Starting", "Forward", False),
        ("Suspend", "Stopping", "Forward", False),
    ],
)
def test_whether_a_change_has_stopped_the_job_is_read_from_the_status(
    kind, step, direction, expected
):
    journal = {"kind": kind, "step": step, "direction": direction}

    assert has_stopped_the_job({"rescale": json.dumps(journal)}) is expected


EVENT = ContextVar("event", default="")


async def test_a_task_keeps_nothing_of_the_event_for_which_it_was_started():
    seen = asyncio.get_running_loop().create_future()

    class Looking(AppTask):
        """One that only looks at what its context has."""

        def __init__(self, resource):
            self.resource = resource
            self._task = None

        async def run(self):
            seen.set_result(EVENT.get())

    EVENT.set("a StreamApp of many KiB, which kopf has in the context of its handlers")
    Looking(
        Resource.of({"metadata": {"namespace": "streams", "name": "trips", "uid": "u1"}})
    ).start()

    assert await seen == ""


@pytest.mark.parametrize(
    "edit",
    [
        {"mode": "Off"},
        {"state": "Suspended"},
        {"windows": [{"name": "peak", "schedule": "0 17 * * *", "duration": "2h"}]},
        {"fallback": {"after": "10m", "deployment": "Hold"}},
        {"resetNonce": 1},
        {"deletionPolicy": "Delete"},
        {"objective": {"responseTime": "300ms"}},
        {"nodePools": "none that can be read"},
    ],
    ids=lambda edit: next(iter(edit)),
)
async def test_an_edit_of_the_spec_ends_the_pause_after_a_failure(edit):
    def edition(generation, **spec):
        made = a_manifest(**spec)
        made["metadata"] |= {"namespace": "streams", "uid": "u1", "generation": generation}
        return Resource.of(made)

    context = SimpleNamespace(api=None, fence=SimpleNamespace(home="weir"))
    task = AppTask(edition(1), cast(ControllerContext, context))
    task._changed.clear()
    waiting = asyncio.create_task(task._wait_before_retry(LONGEST_PAUSE))
    await asyncio.sleep(0)

    task.note(edition(2, **edit))

    await asyncio.wait_for(waiting, timeout=5.0)
