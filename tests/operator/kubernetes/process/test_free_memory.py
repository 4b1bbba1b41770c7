"""Freed memory that lies between used memory goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
from pathlib import Path

import pytest

from tests.operator.rescale.fakes import FakeClock
from weir_operator.kubernetes.process.free_memory import release_free_memory

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc"
)


class OneTick(FakeClock):
    """A clock whose second sleep does not end."""

    def __init__(self):
        super().__init__()
        self.released = asyncio.Event()
        self._slept = 0

    async def sleep(self, seconds):
        self._slept += 1
        if self._slept > 1:
            self.released.set()
            await asyncio.Event().wait()


async def release_once(clock):
    """Let memory be released once; fail as that does."""
    releasing = asyncio.create_task(release_free_memory(clock=clock))
    released = asyncio.create_task(clock.released.wait())
    await asyncio.wait({releasing, released}, return_when=asyncio.FIRST_COMPLETED)
    if releasing.done():
        releasing.result()
    releasing.cancel()
    released.cancel()


def anonymous_memory():
    """Return the MiB of this process that no file holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


async def test_what_is_free_between_used_pieces_is_released():
    pieces = [bytearray(2_000) for _ in range(100_000)]
    used = pieces[::20]
    del pieces
    before, clock = anonymous_memory(), OneTick()

    await release_once(clock)

    assert anonymous_memory() < before - 100
    assert len(used) == 5_000


async def test_a_c_library_that_cannot_release_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    clock = OneTick()

    await release_once(clock)

    assert clock.released.is_set()
