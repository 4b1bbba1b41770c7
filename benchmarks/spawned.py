"""Runs a function on all cores, in processes that are spawned: a fork copies locks of threads.

Or a command, and watches its memory; or a function again and again, beside something else.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import psutil
from rich.progress import track

Given = TypeVar("Given")
Found = TypeVar("Found")


def map_spawned(
    function: Callable[[Given], Found],
    items: Sequence[Given],
    *,
    at_once: int = 1,
    label: str | None = None,
) -> Iterator[Found]:
    """Yield what the function returns of each item, in order.

    Args:
        function: A function of a module.
        items: What it is called with.
        at_once: How many a process takes.
        label: Shown with how many are done; `None` shows nothing.
    """
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        found: Iterable[Found] = pool.map(function, items, chunksize=at_once)
        yield from found if label is None else track(found, label, len(items))


@dataclass(frozen=True, slots=True)
class Watched:
    """What came of a command."""

    output: str
    seconds: float
    memory: float
    """Bytes of all its processes together at the most, what they share counted once."""


def run_watched(command: Sequence[str]) -> Watched:
    """Run a command and watch the memory of it and all that it starts, twice a second.

    Raises:
        RuntimeError: It failed.
    """
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    held = [0.0]
    with call_repeatedly(lambda: held.append(_memory_of(process.pid)), period=0.5, name="memory"):
        output, errors = process.communicate()
        seconds = time.monotonic() - began
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{errors[-2000:]}")
    return Watched(output, seconds, max(held))


def _memory_of(pid: int) -> float:
    total = 0
    try:
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            total += each.memory_full_info().pss
    except psutil.NoSuchProcess:
        return float(total)  # it has just ended
    return float(total)


@contextmanager
def call_repeatedly(step: Callable[[], None], *, period: float, name: str) -> Iterator[None]:
    """Call a function until the block is left; raise there what it raised, after which it stops."""
    over = threading.Event()
    failures: list[Exception] = []

    def call() -> None:
        while not over.wait(period):
            try:
                step()
            except Exception as error:  # raised where the block is left
                failures.append(error)
                return

    thread = threading.Thread(target=call, name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if failures:
            raise failures[0]
