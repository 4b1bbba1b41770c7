"""Processes that evaluate points; each loads the trace and the kernels once per tuning."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import TracebackType
from typing import Self

from weir_simulator.arrivals import arrival_rates
from weir_simulator.errors import TuningError
from weir_simulator.experiment import Experiment
from weir_simulator.processes import count_processors
from weir_simulator.traces import Trace
from weir_simulator.tuning.evaluation import RunResult, SimulationRun, evaluate

LOOK = 0.2
"""Seconds between two checks of whether to stop."""

_task: tuple[Experiment, Trace]
"""What a worker process evaluates; set once, when it starts."""


class Workers:
    """Evaluates runs, in this process where one worker is asked for, else in others."""

    def __init__(self, experiment: Experiment, trace: Trace, *, count: int) -> None:
        self._experiment, self._trace, self._count = experiment, trace, count
        self._pool = self._make_pool() if count > 1 else None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes; what has not begun shall not begin."""
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def evaluate(
        self, runs: Sequence[SimulationRun], *, should_stop: Callable[[], bool]
    ) -> list[RunResult | None]:
        """Return what came of the runs; `None` for those not begun, or lost, when it was to stop.

        Raises:
            WeirPolicyError: The policy cannot take this experiment.
            SimulatorError: A trace cannot be read, or a process was killed from outside.
        """
        if self._pool is None:
            return [
                None if should_stop() else evaluate(self._experiment, self._trace, run)
                for run in runs
            ]
        try:
            with _holding_back_ctrl_c():
                futures = [self._pool.submit(_evaluate, run) for run in runs]
            unfinished: set[Future[RunResult]] = set(futures)
            while unfinished:
                _, unfinished = wait(unfinished, timeout=LOOK)
                if unfinished and should_stop():
                    for future in unfinished:
                        future.cancel()
            return [None if future.cancelled() else future.result() for future in futures]
        except BrokenProcessPool as error:
            if not should_stop():
                raise TuningError(
                    "Another process killed an evaluation, perhaps because memory ran out; "
                    "use fewer workers or fewer slots"
                ) from error
        # A signal to the whole group stops the search and ends its processes: others judge.
        self._pool = self._make_pool()
        return [None] * len(runs)

    def _make_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._count,
            # Spawned, not forked: a fork would copy the threads' locks of what is loaded here.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(self._experiment,),
        )


def count_workers(asked: int | None, batch: int) -> int:
    """Return how many processes to use: `None` is one per processor, no more than the batch."""
    return min(asked or count_processors(), batch)


@contextmanager
def _holding_back_ctrl_c() -> Iterator[None]:
    """Start processes that ignore Ctrl-C; this process handles it afterwards.

    It is for the process that asks, which decides what becomes of the evaluations. A process
    inherits from its first instruction on what is blocked; could it only choose to ignore Ctrl-C,
    it would have died of one during its imports.
    """
    # Python begins it with the first process, and lets Ctrl-C through after that.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _begin(experiment: Experiment) -> None:
    global _task
    # Torch reads it when a policy imports it; the processes use all processors already.
    os.environ["OMP_NUM_THREADS"] = "1"
    _task = experiment, arrival_rates(experiment.trace)


def _evaluate(run: SimulationRun) -> RunResult:
    experiment, trace = _task
    return evaluate(experiment, trace, run)
