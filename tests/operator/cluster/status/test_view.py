"""What people read of a StreamApp, and when it is written."""

from __future__ import annotations

import asyncio
import math
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import cast, get_args

import pytest

from tests.docs.blocks import ROOT
from tests.operator.api.memory_api import MemoryApi
from tests.operator.cluster.process.two_controllers import PATH, OpenFence
from tests.operator.loop.test_decision_records import a_record
from tests.operator.rescale.fakes import FakeClock
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.reporter import REFRESH, StatusWriter
from weir_operator.cluster.status.conditions import Aspect, AspectType, judge_tuning
from weir_operator.cluster.status.store import StatusClient
from weir_operator.cluster.status.view import (
    Facts,
    figures_of,
    first_facts,
    format_per_second,
    format_seconds,
    job_runs,
    note_change,
    note_decisions,
    note_tick,
    note_trouble,
    render_status,
)
from weir_operator.loop.arbitrate import UNTUNED
from weir_operator.loop.bounds import Cause, Guard
from weir_operator.loop.gather import Snapshot
from weir_operator.loop.loop import Loop, Trouble
from weir_operator.loop.tick import ModelState, Tick, TuningView
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.streamapp.managers import Allowed
from weir_operator.streamapp.models import Mode
from weir_operator.streamapp.section import LONGEST_NAME
from weir_operator.streamapp.status import StreamAppStatus

RUNS = Aspect("Ready", "True", "JobRunning", "The job is running")


@pytest.fixture
def facts():
    pools = [{"name": "small", "sizes": ["500m", "1"], "memory": "1Gi", "price": "0.04"}]
    app = a_stream_app(nodePools=pools, operators=[{"name": "match"}])
    return replace(first_facts(3, app), ready=RUNS, deployments={"match": {"small/500m": 2}})


def condition(status, kind):
    [found] = [each for each in status.conditions if each.type == kind]
    return found


def test_columns_tell_replicas_bound_and_cost(facts):
    status = render_status(facts, StreamAppStatus(), now=0.0)

    assert status.replicas == 2
    assert status.objective == "200ms mean"
    # Two replicas of half a core and the JobManager's half core, at 0.04 per core and hour.
    assert status.cost_per_hour == "0.06"
    assert status.observed_generation == 3


def test_a_condition_keeps_its_time_until_its_status_changes(facts):
    first = render_status(facts, StreamAppStatus(), now=0.0)
    same = render_status(
        replace(facts, ready=replace(RUNS, reason="StillRunning")), first, now=60.0
    )
    other = render_status(replace(facts, mistake="wrong"), same, now=120.0)

    times = [condition(each, "Ready").last_transition_time for each in (first, same, other)]

    assert times == ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:02:00Z"]


@pytest.mark.parametrize(
    ("path", "says"), [("s3://states/1", "its state is in s3://states/1"), ("", "no state yet")]
)
def test_a_suspended_job_says_where_its_state_is(facts, path, says):
    stopped = replace(facts, suspended=path, deployments={})

    status = render_status(stopped, StreamAppStatus(), now=0.0)

    assert condition(status, "Ready").reason == "Suspended"
    assert says in condition(status, "Ready").message
    assert status.replicas == 0


def test_nothing_is_shown_of_what_a_suspended_job_did_before(facts):
    snapshot = SimpleNamespace(app=None, response=lambda statistic: 499.0)
    facts = replace(facts, tick=SimpleNamespace(snapshot=snapshot))
    running, suspended = (
        figures_of(each) for each in (facts, replace(facts, suspended="s3://states/1"))
    )

    assert running["response"] == 499.0
    assert all(map(math.isnan, suspended.values()))


def test_a_tick_that_fails_is_no_deciding_and_leaves_the_job_ready(facts):
    failed = note_trouble(facts, Trouble(Loop.TICK, "Prometheus does not answer"))

    status = render_status(failed, StreamAppStatus(), now=0.0)

    deciding = condition(status, "Deciding")
    assert (deciding.status, deciding.reason) == ("False", "TickFailed")
    assert deciding.message == "Prometheus does not answer"
    assert condition(status, "Ready").status == "True"


def test_what_is_too_large_to_be_read_is_a_condition_until_it_is_read(facts):
    sentence = "Weir cannot read the metrics page of 10.0.0.1:9249: it has more than 4 MiB"

    before, after = [
        condition(render_status(each, StreamAppStatus(), now=0.0), "WithinLimits")
        for each in (replace(facts, refusal=sentence), facts)
    ]

    assert (before.status, before.reason, before.message) == ("False", "TooLarge", sentence)
    assert after.status == "True"


def test_a_defect_in_deciding_is_told_by_ready_too_until_it_is_over(facts):
    broken = note_trouble(facts, Trouble(Loop.TICK, "An unexpected KeyError", unexpected=True))
    mended = note_trouble(broken, Trouble(Loop.TICK, ""))

    before, after = [
        condition(render_status(each, StreamAppStatus(), now=0.0), "Ready")
        for each in (broken, mended)
    ]

    assert (before.status, before.reason) == ("False", "UnexpectedError")
    assert after.status == "True"
    assert job_runs(broken) == 1.0


def test_a_job_that_does_not_run_is_down_whatever_else_fails(facts):
    ticks = note_trouble(facts, Trouble(Loop.TICK, "An unexpected KeyError", unexpected=True))
    down = note_trouble(ticks, Trouble(Loop.HEALTH_CHECK, "The job restarts"))

    ready = condition(render_status(down, StreamAppStatus(), now=0.0), "Ready")

    assert (ready.reason, ready.message) == ("JobDown", "The job restarts")
    assert job_runs(down) == 0.0


@pytest.mark.parametrize(
    ("ready", "runs"),
    [
        (RUNS, 1.0),
        (Aspect("Ready", "False", "ReconcileFailed", ""), 0.0),
        (Aspect("Ready", "False", "Starting", ""), 0.0),
        (Aspect("Ready", "False", "JobFinished", ""), math.nan),
        (Aspect("Ready", "False", "Deleting", ""), math.nan),
        (Aspect("Ready", "True", "Advising", ""), math.nan),
        (Aspect("Ready", "Unknown", "Reconciling", ""), math.nan),
    ],
    ids=lambda each: getattr(each, "reason", None),
)
def test_a_job_is_down_only_where_it_is_to_run(facts, ready, runs):
    found = job_runs(replace(facts, ready=ready))

    assert (found == runs) or (math.isnan(found) and math.isnan(runs))
    assert math.isnan(job_runs(replace(facts, ready=ready, suspended="s3://states/1")))


@pytest.mark.parametrize(
    ("kind", "step", "runs"),
    [
        (Kind.RECOVER, Step.START, 0.0),
        (Kind.RECOVER, Step.DONE, 1.0),
        (Kind.RESCALE, Step.START, 1.0),
    ],
)
def test_a_job_that_is_being_recovered_is_down_until_that_has_ended(facts, kind, step, runs):
    change = plan(kind=kind, reason="lost", now=0.0, source={}, target={}, old_job="j")

    assert job_runs(note_change(facts, change.at(step, 4.0))) == runs


def test_a_job_that_never_started_because_its_spec_is_wrong_is_down():
    assert job_runs(replace(first_facts(1, None), mistake="no such policy")) == 0.0


def a_view(**fields):
    model = ModelState(fitted=None, reason="TooFewSamples", sentence="12 of 25 intervals")
    return TuningView(model=model, tuned=UNTUNED, **fields)


@pytest.mark.parametrize(
    ("view", "status", "message"),
    [
        (a_view(failure="It ran out of memory", answered=True), "False", "It ran out of memory"),
        (a_view(answered=True), "True", "Tuning found no better settings"),
        (a_view(), "Unknown", "There is no tuning yet: 12 of 25 intervals"),
    ],
)
def test_whether_the_tuner_answers_is_a_condition(view, status, message):
    aspect = judge_tuning(view)

    assert (aspect.type, aspect.status, aspect.message) == ("Tuned", status, message)


def test_an_open_window_is_named_and_pauses(facts):
    guard = Guard(
        cause=Cause.WINDOW, name="peak", allows=Allowed.SCALE_OUT, reason="the period is open"
    )

    status = render_status(replace(facts, guards=(guard,)), StreamAppStatus(), now=0.0)

    assert status.window == "peak"
    assert condition(status, "Paused").status == "True"


def a_change(step, **more):
    change = plan(kind=Kind.RESCALE, reason="load", now=0.0, source={}, target={}, old_job="j")
    return change.at(step, 4.0, **more)


def test_a_change_under_way_is_progress_and_one_that_was_rolled_back_degrades(facts):
    running = render_status(note_change(facts, a_change(Step.VERIFY)), StreamAppStatus(), now=0.0)
    undone = render_status(
        note_change(facts, a_change(Step.ROLLED_BACK, failure="it broke")), running, now=0.0
    )

    assert condition(running, "Progressing").reason == "Verifying"
    assert condition(running, "Degraded").status == "False"
    assert condition(undone, "Progressing").status == "False"
    assert condition(undone, "Degraded").message == "it broke"
    assert undone.last_action is not None
    assert "4 s" in undone.last_action


def test_a_status_stays_small_whatever_the_sentences_are(facts):
    loud = replace(facts, ready=replace(RUNS, message="x" * 10_000), mistake="y" * 10_000)

    status = render_status(loud, StreamAppStatus(), now=0.0)

    assert len(status.model_dump_json()) < 5000


def test_a_job_of_more_operators_than_a_status_holds_shows_the_first_of_them(facts):
    wide = replace(facts, deployments={f"o{n}": {"small/1": 1} for n in range(150)})

    status = render_status(wide, StreamAppStatus(), now=0.0)

    assert [each.name for each in status.operators] == [f"o{n}" for n in range(100)]
    assert status.replicas == 150


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0/s"), (0.01234, "0.0123/s"), (12.34, "12.3/s"), (1234.5, "1234/s"), (math.nan, None)],
)
def test_rates_have_three_digits_and_no_exponent(value, text):
    assert format_per_second(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0452, "45.2ms"), (1.234, "1.23s"), (math.inf, None), (math.nan, None)]
)
def test_times_have_a_unit_that_suits_them(value, text):
    assert format_seconds(value) == text


class WrittenStatus:
    """A writer over an API server in memory."""

    def __init__(self, facts):
        self.api = MemoryApi()
        meta = {"namespace": "streams", "name": "trips", "uid": "u1"}
        self.api.put(PATH, {"metadata": meta, "spec": {}})
        self.clock = FakeClock()
        self.facts = facts
        self.written = []

    async def open(self):
        writer = StatusClient(self.api, Resource.of(self.api.objects[PATH]), OpenFence("one/1"))
        await writer.open()
        self.writer = StatusWriter(
            writer, self.facts, clock=self.clock, on_written=self.written.append
        )
        await self.writer.flush()
        return self

    async def note(self, facts: Facts):
        self.writer.note(facts)
        await self.writer.flush()


async def test_what_a_person_would_act_on_is_written_at_once(facts):
    status = await WrittenStatus(facts).open()

    await status.note(replace(facts, deployments={"match": {"small/1": 1}}))

    assert len(status.written) == 2
    assert status.api.objects[PATH]["status"]["operators"][0]["deployment"] == {"small/1": 1}


async def test_a_sentence_that_only_repeats_figures_waits(facts):
    status = await WrittenStatus(facts).open()
    reworded = replace(facts, ready=replace(RUNS, message="The job has run for 61 s"))

    await status.note(reworded)
    early = len(status.written)
    status.clock.time += REFRESH
    await status.note(reworded)

    assert (early, len(status.written)) == (1, 2)


class HeldClock(FakeClock):
    """Lets nobody wake up before `passed` is set."""

    def __init__(self):
        super().__init__()
        self.sleeps = asyncio.Event()
        self.passed = asyncio.Event()

    async def sleep(self, seconds):
        self.sleeps.set()
        await self.passed.wait()


async def test_what_changes_soon_after_another_change_is_written_with_it(facts):
    status = WrittenStatus(facts)
    status.clock = clock = HeldClock()
    await status.open()
    writing = asyncio.create_task(status.writer.run())
    await clock.sleeps.wait()

    for replicas in (1, 2):
        status.writer.note(replace(facts, deployments={"match": {"small/1": replicas}}))
        await asyncio.sleep(0)
    clock.sleeps.clear()
    clock.passed.set()
    while len(status.written) < 2:
        await asyncio.sleep(0)
    writing.cancel()

    assert [each.replicas for each in status.written] == [status.written[0].replicas, 2]


async def test_what_is_not_known_any_more_leaves_the_status(facts):
    advised = replace(facts, mode=Mode.ADVISE, advice="would save 3 a day")
    status = await WrittenStatus(advised).open()
    told = status.api.objects[PATH]["status"]["advice"]
    status.clock.time += REFRESH

    await status.note(facts)

    assert told == "would save 3 a day"
    assert "advice" not in status.api.objects[PATH]["status"]


async def test_a_refused_status_is_written_once_it_is_no_longer_refused(facts, monkeypatch):
    status = await WrittenStatus(facts).open()
    refusals = [RefusedByKubernetesError("cannot update streamapps/status", 403)]
    accept = status.api.replace
    written = asyncio.Event()

    async def replace_at_last(path, body):
        if refusals:
            raise refusals.pop()
        written.set()
        return await accept(path, body)

    monkeypatch.setattr(status.api, "replace", replace_at_last)
    status.writer.note(replace(facts, deployments={"match": {"small/1": 1}}))

    writing = asyncio.create_task(status.writer.run())
    try:
        await asyncio.wait_for(written.wait(), 10.0)
    finally:
        writing.cancel()

    assert refusals == []
    assert status.api.objects[PATH]["status"]["operators"][0]["deployment"] == {"small/1": 1}


@pytest.mark.parametrize("defect", [KeyError("small/1"), TypeError("None"), RecursionError()])
async def test_a_defect_in_rendering_one_status_does_not_end_the_telling(
    facts, monkeypatch, defect
):
    status = await WrittenStatus(facts).open()
    written, failures = asyncio.Event(), [defect]

    def render(*given):
        if failures:
            raise failures.pop()
        written.set()
        return render_status(*given)

    monkeypatch.setattr("weir_operator.cluster.app.reporter.render_status", render)
    status.writer.note(replace(facts, deployments={"match": {"small/1": 1}}))
    writing = asyncio.create_task(status.writer.run())
    try:
        await until(lambda: not failures)
        status.writer.note(replace(facts, deployments={"match": {"small/1": 2}}))
        await asyncio.wait_for(written.wait(), 10.0)
    finally:
        writing.cancel()

    assert status.api.objects[PATH]["status"]["operators"][0]["deployment"] == {"small/1": 2}


async def until(true):
    async with asyncio.timeout(10.0):
        while not true():
            await asyncio.sleep(0)


def test_the_decision_of_an_operator_with_the_longest_name_is_shown(facts):
    name = "o" * LONGEST_NAME
    record = a_record(f"{uuid.uuid4().hex[:12]}-{name}", operator=name)
    applied = {record.operator: {"small/1": 1}}
    decided = note_decisions(replace(facts, deployments=applied), [record])

    status = render_status(decided, StreamAppStatus(), now=0.0)

    assert status.operators[0].decision is not None
    assert status.operators[0].decision.id == record.id


def test_decisions_of_operators_that_the_job_has_no_more_are_forgotten(facts):
    for number in range(20):
        name = f"renamed-{number}"
        facts = note_decisions(facts, [a_record(f"t-{name}", operator=name)])
        tick = Tick(
            snapshot=cast(Snapshot, None),
            violated=None,
            deployments={name: {"small/1": 1}},
            budgets={},
        )
        facts = note_tick(facts, tick)

    assert [*facts.decisions] == ["renamed-19"]


def test_definition_and_operating_page_name_every_condition():
    described = StreamAppStatus.model_json_schema()["$defs"]["Condition"]["properties"]["type"]
    page = (ROOT / "docs/operating.md").read_text()

    missing = [
        name
        for name in get_args(AspectType)
        if name not in described["description"] or f"\n| `{name}` | " not in page
    ]

    assert missing == []
