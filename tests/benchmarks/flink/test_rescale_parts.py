"""What the benchmarks of a rescale work out by themselves, without Flink."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

from benchmarks.flink import rescale_state


def test_a_state_for_which_the_disk_has_no_room_is_left_out(monkeypatch):
    usage = SimpleNamespace(free=12 * rescale_state.GB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    monkeypatch.setenv("STATE_GB", "5")

    [left_out] = rescale_state.run()

    assert left_out.value == 12
