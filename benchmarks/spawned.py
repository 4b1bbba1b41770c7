"""Runs a function on all cores, in processes that are spawned: a fork copies locks of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


def map_spawned(
    function: Callable[[Given], Found], items: Sequence[Given], *, at_once: int = 1
) -> Iterator[Found]:
    """Yield what the function returns of each item, in order; a process takes so many at once."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from pool.map(function, items, chunksize=at_once)
