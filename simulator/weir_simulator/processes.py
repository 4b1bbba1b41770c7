"""Distributes work over processes: one piece per processor at once, results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from weir_simulator.errors import SimulatorError

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")


def run_in_processes(
    work: Callable[[Piece], Answer],
    pieces: Sequence[Piece],
    *,
    on_finished: Callable[[Answer], None],
) -> list[Answer]:
    """Process each item, one per processor at once.

    Args:
        work: A function of a module, so that another process can import it.
        pieces: What to do; can be pickled.
        on_finished: Called after each piece, in the order in which they finish.

    Returns:
        The answers in the order of the pieces.

    Raises:
        SimulatorError: A process was killed from outside, for example for lack of memory.
    """
    finished: dict[int, Answer] = {}
    workers = max(1, min(len(pieces), count_processors()))
    # Spawned, not forked: a fork would copy the threads' locks of what is loaded here.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_settle) as pool:
        futures = {pool.submit(work, each): place for place, each in enumerate(pieces)}
        try:
            for future in as_completed(futures):
                answer = finished[futures[future]] = future.result()
                on_finished(answer)
        except BrokenProcessPool as error:
            raise SimulatorError(
                "A run was killed from outside, perhaps for lack of memory; run fewer at once"
            ) from error
        except BaseException:  # Ctrl-C as well: what has not begun shall not begin
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [finished[place] for place in range(len(pieces))]


def count_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _settle() -> None:
    """Make a new process end silently on Ctrl-C, and start no threads."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Torch reads it when a policy imports it; the processes use all processors already.
    os.environ["OMP_NUM_THREADS"] = "1"
