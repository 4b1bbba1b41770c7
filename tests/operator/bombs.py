"""Answers that grow a thousandfold when they are decompressed, and what reading one costs."""

from __future__ import annotations

import functools
import threading
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


@functools.cache
def gzipped(megabytes: int, line: bytes = b"0" * 64) -> bytes:
    """Return so many MB of equal lines as gzip: a thousandth of that."""
    block = (line + b"\n") * (10**6 // (len(line) + 1))
    member = zlib.compressobj(9, wbits=31)
    return b"".join(member.compress(block) for _ in range(megabytes)) + member.flush()


async def peak_memory_of(
    work: Awaitable[object], error: type[Exception] | tuple[type[Exception], ...], sentence: str
) -> int:
    """Do what must fail with a sentence, and return the bytes of memory at its peak."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=sentence):
            await work
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def noting_threads(
    work: Callable[[bytes], T], threads: list[threading.Thread]
) -> Callable[[bytes], T]:
    """Return what does the same work and notes the thread of each call."""

    def noted(body: bytes) -> T:
        threads.append(threading.current_thread())
        return work(body)

    return noted
