"""Weir's own metrics: what is documented is served, and what is served is documented."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.operator.rescale.fakes import FakeClock
from weir_operator.api.objects import Key
from weir_operator.clock import SystemClock
from weir_operator.cluster.status.telemetry import (
    LAG_EVERY,
    LAG_ROUNDS,
    Telemetry,
    measure_memory,
    watch_event_loop,
    watch_state_volume,
)
from weir_operator.loop.record import DecisionRecord
from weir_operator.metrics.keys import KeyReport
from weir_operator.rescale.journal import Kind, RescaleJournal, Step, plan
from weir_operator.streamapp.status import Condition, StreamAppStatus
from weir_policies.kernels.staying import stay
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Candidate, Decision, Expectation
from weir_policies.testing import an_observation
from weir_simulator.experiment import Objective

DOCUMENT = Path(__file__).parents[4] / "docs/metrics.md"
KEY = Key("streams", "trips")
READY = Condition(
    type="Ready",
    status="True",
    reason="JobRunning",
    message="",
    last_transition_time="2026-01-31T08:00:00Z",
)


@pytest.fixture
def telemetry():
    return Telemetry()


def families(telemetry):
    page = telemetry.render().decode()
    return {family.name: family for family in text_string_to_metric_families(page)}


def samples(telemetry, name):
    """Return the values by the labels' values, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in families(telemetry).values()
        for sample in family.samples
        if sample.name == name
    }


def documented():
    rows = re.findall(r"^\| `(weir_\w+)` \| (\w+) \|", DOCUMENT.read_text(), re.MULTILINE)
    return dict(rows)


def test_every_metric_is_documented_with_its_type(telemetry):
    served = {
        f"{name}_total" if family.type == "counter" else name: family.type
        for name, family in families(telemetry).items()
    }

    assert served == documented()


def a_change(*, started, ended, gap, step=Step.DONE):
    journal: RescaleJournal = plan(
        kind=Kind.RESCALE, reason="", now=started, source={}, target={}, old_job="j"
    )
    journal = journal.at(Step.STOP, ended - gap - 1.0).at(Step.REMOVE, ended - gap)
    return journal.at(step, ended)


def test_a_change_that_has_ended_is_counted_with_duration_and_gap(telemetry):
    telemetry.note_change(KEY, a_change(started=100.0, ended=110.0, gap=0.75))

    assert samples(telemetry, "weir_rescales_total") == {
        ("trips", "Rescale", "streams", "Done"): 1.0
    }
    assert samples(telemetry, "weir_rescale_duration_seconds_sum") == {
        ("trips", "Rescale", "streams"): 10.0
    }
    assert samples(telemetry, "weir_rescale_gap_seconds_sum") == {("trips", "streams"): 0.75}


def test_the_end_of_a_change_is_shown_as_a_time(telemetry):
    for ended in (110.0, 210.0):
        telemetry.note_change(KEY, a_change(started=100.0, ended=ended, gap=0.75))

    assert samples(telemetry, "weir_last_change_timestamp_seconds") == {
        ("trips", "Rescale", "streams", "Done"): 210.0
    }


def test_the_first_rescale_is_an_increase(telemetry):
    telemetry.note_status(KEY, StreamAppStatus(conditions=(READY,)))
    before = samples(telemetry, "weir_rescales_total")

    telemetry.note_change(KEY, a_change(started=1.0, ended=5.0, gap=1.0))

    done = ("trips", "Rescale", "streams", "Done")
    assert (before[done], samples(telemetry, "weir_rescales_total")[done]) == (0.0, 1.0)


def test_a_decision_shows_what_it_expects_and_how_it_stands_beside_its_rivals(telemetry):
    seen = an_observation()
    here, there = seen.deployment, Deployment((0, 3, 0))
    expected = Expectation(response_time=0.02, utilisation=0.4, cost_per_hour=0.1)
    decision = Decision(
        target=there,
        reason="more arrive",
        candidates=(
            Candidate(deployment=there, score=0.2, expectation=expected, verdict="best"),
            Candidate(deployment=here, score=0.5, expectation=expected, verdict="too slow"),
        ),
        expectation=expected,
        urgency=0.8,
    )

    telemetry.note_decision(KEY, a_record(seen, decision))

    assert samples(telemetry, "weir_decision_score") == {
        ("trips", "chosen", "streams", "match"): 0.2,
        ("trips", "stay", "streams", "match"): 0.5,
        ("trips", "rival", "streams", "match"): 0.5,
    }
    of_match = ("trips", "streams", "match")
    assert samples(telemetry, "weir_predicted_response_time_seconds") == {of_match: 0.02}
    assert samples(telemetry, "weir_predicted_utilisation_ratio") == {of_match: 0.4}
    assert samples(telemetry, "weir_decision_urgency_ratio") == {of_match: 0.8}


def test_what_a_policy_does_not_predict_is_no_series(telemetry):
    seen = an_observation()
    silent = Expectation(response_time=math.nan, utilisation=math.nan, cost_per_hour=math.nan)
    decision = replace(stay(seen, "nothing is known"), expectation=silent, candidates=())

    telemetry.note_decision(KEY, a_record(seen, decision))

    assert samples(telemetry, "weir_predicted_response_time_seconds") == {}
    assert samples(telemetry, "weir_decision_score") == {}


def a_record(observation, decision):
    return DecisionRecord(
        id="tick-match",
        time=60.0,
        operator="match",
        policy="planner",
        observation=observation,
        decision=decision,
        verdict="",
        change=None,
    )


def test_a_change_under_way_is_not_counted_yet(telemetry):
    telemetry.note_change(KEY, a_change(started=1.0, ended=5.0, gap=1.0, step=Step.VERIFY))

    assert samples(telemetry, "weir_rescales_total") == {}


def test_the_series_of_an_app_that_is_gone_go_with_it(telemetry):
    for key in (KEY, Key("streams", "other")):
        telemetry.note_change(key, a_change(started=1.0, ended=5.0, gap=1.0))
        telemetry.note_status(key, StreamAppStatus(conditions=(READY,)))
        telemetry.note_decision(key, a_record(an_observation(), stay(an_observation(), "calm")))

    telemetry.forget(KEY)

    assert samples(telemetry, "weir_condition") == {("other", "streams", "Ready"): 1.0}
    assert {app for app, *_ in samples(telemetry, "weir_rescales_total")} == {"other"}
    assert samples(telemetry, "weir_decision_urgency_ratio") == {("other", "streams", "match"): 0.0}


def test_ages_are_those_of_the_streamapps_that_have_one_now(telemetry):
    telemetry.show_ages({KEY: 5.0, Key("streams", "other"): 5.0})
    telemetry.show_ages({KEY: 35.0})

    ages = samples(telemetry, "weir_reconcile_age_seconds")
    assert ages == {("trips", "streams"): 35.0}


def test_an_operator_that_the_job_has_no_more_has_no_series(telemetry):
    settings = SimpleNamespace(objective=Objective(response_time=1.0), max_violations=0.1)
    nothing = SimpleNamespace(
        app=None, problems=(), healthy=True, response=lambda statistic: math.nan
    )
    seen = an_observation()
    keys = KeyReport(replicas=(0.3, 0.7), heaviest=94, heaviest_share=0.6, heavy=(), counted=5000.0)

    for number in range(20):
        name = f"renamed-{number}"
        telemetry.note_decision(KEY, replace(a_record(seen, stay(seen, "calm")), operator=name))
        tick = SimpleNamespace(
            deployments={name: {"small/1": 1}}, budgets={name: 1.0}, snapshot=nothing,
            violated=None, restarts_left=math.nan, keys={name: keys},
        )  # fmt: skip
        telemetry.note_tick(KEY, tick, settings, cost=1.0)

    page = telemetry.render().decode()
    assert set(re.findall(r'operator="([^"]+)"', page)) == {"renamed-19"}
    [share] = samples(telemetry, "weir_operator_fullest_share_ratio").values()
    assert share == 0.7
    [group] = samples(telemetry, "weir_operator_heaviest_key_group").values()
    assert group == 94
    [part] = samples(telemetry, "weir_operator_heaviest_key_group_ratio").values()
    assert part == 0.6


MIB = 2**20


def version_2(root, *, limit):
    (root / "memory.current").write_text(f"{500 * MIB}\n")
    (root / "memory.max").write_text(f"{limit}\n")
    (root / "memory.stat").write_text(
        f"anon {300 * MIB}\nfile {120 * MIB}\nactive_file {20 * MIB}\ninactive_file {80 * MIB}\n"
    )


def version_1(root, *, limit):
    folder = root / "memory"
    folder.mkdir()
    (folder / "memory.usage_in_bytes").write_text(f"{500 * MIB}\n")
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(
        f"active_file 0\ntotal_active_file {20 * MIB}\ntotal_inactive_file {80 * MIB}\n"
    )


@pytest.mark.parametrize("write", [version_2, version_1])
def test_pages_of_files_are_not_counted_as_in_use(tmp_path, write):
    write(tmp_path, limit=768 * MIB)

    assert measure_memory(tmp_path) == (400 * MIB, 768 * MIB)


@pytest.mark.parametrize(
    ("write", "unbounded"), [(version_2, "max"), (version_1, 9223372036854771712)]
)
def test_where_there_is_no_limit_none_is_shown(tmp_path, write, unbounded):
    write(tmp_path, limit=unbounded)

    used, limit = measure_memory(tmp_path)

    assert used == 400 * MIB
    assert math.isnan(limit)


@pytest.mark.parametrize("damage", ["", "one two three", "nothing of use\n"])
def test_what_cannot_be_read_is_not_known(tmp_path, damage):
    version_2(tmp_path, limit=768 * MIB)
    (tmp_path / "memory.stat").write_text(damage)

    assert all(map(math.isnan, measure_memory(tmp_path)))


def test_beside_no_cgroup_nothing_is_known(tmp_path):
    assert all(map(math.isnan, measure_memory(tmp_path)))


class EnoughError(Exception):
    """The clock of a test ends the watch."""


class ClockOf(FakeClock):
    """Ends a watch when nothing is left to happen between two looks."""

    def __init__(self, between):
        super().__init__()
        self._between = iter(between)

    async def sleep(self, seconds):
        try:
            next(self._between)()
        except StopIteration:
            raise EnoughError from None


def shown(telemetry):
    """Return size and free space as the metrics have them."""
    read = telemetry.registry.get_sample_value
    size, free = read("weir_state_volume_bytes"), read("weir_state_volume_free_bytes")
    assert size is not None
    assert free is not None
    return size, free


async def test_size_and_free_space_are_shown_though_the_folder_is_still_to_be_made(tmp_path):
    telemetry = Telemetry()
    before = shown(telemetry)

    with pytest.raises(EnoughError):
        await watch_state_volume(tmp_path / "state" / "one", telemetry, clock=ClockOf([]))

    size, free = shown(telemetry)
    assert all(math.isnan(each) for each in before)
    assert 0 < free <= size


async def test_a_volume_that_cannot_be_looked_at_is_unknown_until_it_can(tmp_path, monkeypatch):
    telemetry, seen = Telemetry(), []

    def fail(folder):
        raise OSError(5, "Input/output error")

    def mend():
        seen.append(shown(telemetry))
        monkeypatch.undo()

    monkeypatch.setattr("shutil.disk_usage", fail)
    with pytest.raises(EnoughError):
        await watch_state_volume(tmp_path, telemetry, clock=ClockOf([mend]))

    [unknown] = seen
    assert all(math.isnan(each) for each in unknown)
    assert shown(telemetry)[0] > 0


class LateClock(FakeClock):
    """Wakes late by the seconds given, one after the other, then ends the watch."""

    def __init__(self, delays: Iterator[float]) -> None:
        super().__init__()
        self._delays = delays

    async def sleep(self, seconds: float) -> None:
        delay = next(self._delays, None)
        if delay is None:
            raise EnoughError
        await super().sleep(seconds + delay)


async def shown_after(*delays):
    telemetry = Telemetry()
    with pytest.raises(EnoughError):
        await watch_event_loop(telemetry, clock=LateClock(iter(delays)))
    return telemetry.registry.get_sample_value("weir_event_loop_lag_seconds")


async def test_the_longest_delay_is_shown():
    assert await shown_after(0.1, 2.0, 0.5) == pytest.approx(2.0)


async def test_a_delay_is_shown_for_at_least_a_minute():
    rounds = int(60.0 / LAG_EVERY)

    assert await shown_after(*[0.0] * (LAG_ROUNDS - 1), 2.0, *[0.0] * rounds) == pytest.approx(2.0)


async def test_a_delay_of_long_ago_is_not_shown():
    assert await shown_after(2.0, *[0.0] * (2 * LAG_ROUNDS)) == pytest.approx(0.0)


async def test_a_step_that_keeps_the_loop_busy_is_seen():
    telemetry = Telemetry()
    task = asyncio.create_task(watch_event_loop(telemetry, clock=SystemClock()))
    await asyncio.sleep(0)

    time.sleep(LAG_EVERY + 0.3)
    await asyncio.sleep(0.05)
    task.cancel()

    seen = telemetry.registry.get_sample_value("weir_event_loop_lag_seconds")
    assert seen is not None
    assert seen >= 0.3
