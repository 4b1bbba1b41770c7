"""`weir local` obeys its manifest while it runs."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import pytest
import yaml

from tests.operator.rescale.fakes import FakeClock
from tests.operator.streamapp.builders import a_manifest
from weir_operator.local.run import ManifestWatch, stop_on_signals
from weir_operator.loop.events import Event
from weir_operator.streamapp.loading import load_manifest
from weir_operator.streamapp.models import Mode


class File:
    """A manifest in a file, and what its watch told."""

    def __init__(self, folder):
        self.path = folder / "trips.yaml"
        self.jar = folder / "trips.jar"
        self.jar.touch()
        self.events: list[Event] = []
        self._writes = 0
        self.write(a_manifest())
        self.watch = ManifestWatch(
            self.path,
            load_manifest(self.path),
            arguments=("--extra",),
            clock=FakeClock(),
            on_event=self.events.append,
        )

    def write(self, manifest):
        text = manifest if isinstance(manifest, str) else yaml.safe_dump(manifest)
        self.path.write_text(text)
        self._writes += 1
        os.utime(self.path, (self._writes, self._writes))  # a clock's grain hides no write

    @property
    def reasons(self):
        return [event.reason for event in self.events]


@pytest.fixture
def file(tmp_path):
    return File(tmp_path)


def test_a_file_that_changes_is_obeyed_without_a_new_start(file):
    manifest = a_manifest(mode="Advise")
    manifest["metadata"]["annotations"] = {"weir.dev/paused": "true"}

    file.write(manifest)

    asked = file.watch()
    assert asked.mode is Mode.ADVISE
    assert [pause.source for pause in asked.pauses] == ["weir.dev/paused"]
    assert file.reasons == []


def test_changed_arguments_are_another_revision(file):
    before = file.watch().revision

    file.write(a_manifest(flink={"job": {"jar": "trips.jar", "args": ["--window", "9m"]}}))

    after = file.watch().revision
    assert before.arguments == ("--extra",)
    assert after.arguments == ("--window", "9m", "--extra")
    assert after.processes == {"jar": str(file.jar)}
    assert after.id != before.id
    assert file.reasons == []


def test_a_file_that_cannot_be_right_changes_nothing_and_is_told_once(file):
    before = file.watch()

    file.write("kind: Nonsense")

    assert file.watch() == before
    assert file.watch() == before
    assert file.reasons == ["InvalidSpec"]


def test_a_file_that_is_away_for_a_moment_changes_nothing(file):
    before = file.watch()

    file.path.unlink()

    assert file.watch() == before


def test_what_needs_a_new_start_is_said(file):
    file.write(a_manifest(objective={"responseTime": "70ms"}))

    file.watch()

    assert file.reasons == ["RestartNeeded"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_closed_terminal_stops_the_job_as_ctrl_c_does(number):
    async with AsyncExitStack() as stack, asyncio.timeout(10):
        stop = stop_on_signals(stack)

        os.kill(os.getpid(), number)

        await stop.wait()
