"""Calls a function again and again beside a run, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def call_repeatedly(step: Callable[[], None], *, period: float, name: str) -> Iterator[None]:
    """Call a function until the block is left; raise there what it raised, after which it stops.

    Args:
        step: What is called.
        period: Seconds between two calls, and before the first.
        name: Of the thread.
    """
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
