"""What the benchmarks of a rescale work out by themselves, without Flink."""

from __future__ import annotations

import shutil
from datetime import datetime
from types import SimpleNamespace

import pytest

from benchmarks.figures import Figure, at_most
from benchmarks.flink import rescale_state
from benchmarks.flink.gap_steps import STEPS, CpuOfFlink, Used, figures_of_steps
from benchmarks.flink.ledger import Arrival
from weir_operator.rescale.journal import Kind, Step, plan


def a_line(when, text):
    stamp = datetime.fromtimestamp(when).isoformat(timespec="milliseconds").replace(".", ",")
    return f"{stamp} INFO  {text}\n"


class Followed(CpuOfFlink):
    """CPU time that was seen at three moments."""

    def __init__(self, folder):
        super().__init__(folder)
        self._times = [1000.0, 1001.0, 1002.0]
        self._used = [
            Used(total=11.0, job_manager=5.0),
            Used(total=11.2, job_manager=5.1),
            Used(total=12.6, job_manager=5.3),
        ]


def test_a_state_for_which_the_disk_has_no_room_is_left_out(monkeypatch):
    usage = SimpleNamespace(free=12 * rescale_state.GB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    monkeypatch.setenv("STATE_GB", "5")

    [left_out] = rescale_state.run()

    assert left_out.value == 12


def test_several_runs_give_the_median_and_the_worst_of_what_has_a_goal(monkeypatch):
    measured = iter([(3.0, 0), (9.0, 1), (4.0, 0)])

    async def measure(size, backend, way, variant):
        gap, lost = next(measured)
        return [
            Figure(figure="it: output gap", value=gap, unit="s"),
            at_most(figure="it: lost or doubled", value=lost, unit="records", limit=0),
        ]

    monkeypatch.setattr(rescale_state, "WAYS", ("Savepoint",))
    monkeypatch.setattr(rescale_state, "_measure", measure)
    monkeypatch.setenv("STATE_RUNS", "3")
    monkeypatch.setenv("STATE_GB", "0.01")
    monkeypatch.setenv("STATE_BACKENDS", "rocksdb")

    gap, shortest, longest, lost = rescale_state.run()

    assert (gap.value, shortest.value, longest.value) == (4.0, 3.0, 9.0)
    assert (lost.value, lost.holds) == (1, False)


def test_the_steps_of_a_gap_are_its_parts(tmp_path):
    old, new = "a" * 32, "b" * 32
    change = plan(
        kind=Kind.RESCALE,
        reason="a test",
        now=1000.0,
        source={},
        target={},
        old_job=old,
    ).model_copy(update={"new_job": new})
    times = {Step.STOP: 1001.0, Step.SUBMIT: 1001.4, Step.DONE: 1001.9}
    change = change.model_copy(update={"times": {str(step): at for step, at in times.items()}})
    (tmp_path / "flink.log").write_text(
        a_line(1000.9, f"Completed checkpoint 7 for job {old} (1 bytes)")
        + a_line(1001.2, f"Completed checkpoint 8 for job {old} (1 bytes)")
        + a_line(1001.3, f"Job trips ({old}) switched from state RUNNING to FINISHED.")
        + a_line(1001.5, f"Job trips ({new}) switched from state CREATED to RUNNING.")
        + a_line(1001.6, "match (1/1) switched from SCHEDULED to DEPLOYING.")
    )
    arrivals = [Arrival(1, 0.0, 1001.1), Arrival(2, 0.0, 1001.8)]

    figures = figures_of_steps("it", [change], arrivals, tmp_path, Followed(tmp_path))

    parts, (used, of_job_manager) = figures[: len(STEPS)], figures[len(STEPS) :]
    assert [part.value for part in parts] == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.1, 0.2], abs=2e-3)
    assert used.value == pytest.approx(1.4)
    assert of_job_manager.value == pytest.approx(0.2)
