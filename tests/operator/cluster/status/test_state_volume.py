"""The space on the volume of the controller's state is shown, and its absence ends nothing."""

from __future__ import annotations

import math

import pytest

from tests.operator.rescale.fakes import FakeClock
from weir_operator.cluster.status.telemetry import Telemetry, watch_state_volume


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


async def test_size_and_free_space_are_shown(tmp_path):
    telemetry = Telemetry()
    before = shown(telemetry)

    with pytest.raises(EnoughError):
        await watch_state_volume(tmp_path, telemetry, clock=ClockOf([]))

    size, free = shown(telemetry)
    assert all(math.isnan(each) for each in before)
    assert 0 < free <= size


async def test_a_folder_that_is_still_to_be_made_is_looked_for_where_it_will_be(tmp_path):
    telemetry = Telemetry()

    with pytest.raises(EnoughError):
        await watch_state_volume(tmp_path / "state" / "one", telemetry, clock=ClockOf([]))

    assert shown(telemetry)[0] > 0


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
