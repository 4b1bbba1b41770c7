"""Runs a function on all cores, in processes that are spawned: a fork copies locks of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

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
