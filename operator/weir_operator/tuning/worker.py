"""Does the work of a tuning, in a process of its own: `python -m weir_operator.tuning.worker`.

Reads the work from a file, has it done (`run_tuning`), and writes the answer: to a file, whole or
not at all, or framed to standard output (`write_frames`), which is how it leaves a pod. What was
evaluated is kept in the folder, so that the same work goes on where it was left.

Ends with status 3 and a sentence where the work cannot be done. With `--tied` it ends as soon as
its standard input is closed: then whoever asked for it is gone. What computes is imported after
that is seen to, because to import it takes seconds, and minutes where kernels are to be compiled.

The log of a pod is the one way out of a pod that needs no right, no volume and no open port. But
others write to it too, its lines have a limited length, and what was rotated away is gone. So an
answer is packed and cut into short numbered lines with one digest: it is found whole or not at
all.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import os
import re
import signal
import sys
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from weir_operator.tuning.work import Forecast, TuningAnswer, TuningLostError, TuningWork
from weir_policies import registry
from weir_policies.model.arrays import Floats
from weir_simulator.experiment import Experiment
from weir_simulator.fitting.refit import with_trace
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_TIME, RESTART
from weir_simulator.traces import as_trace, write_trace
from weir_simulator.training import train_policies
from weir_simulator.tuning.order import apply_point
from weir_simulator.tuning.tune import tune

WIDTH = 4096
"""Characters of a frame; runtimes cut lines at 16 KiB."""
LARGEST = 64 * 2**20
"""Bytes that an answer may have: what is printed must not fill the controller's memory."""

_FRAME = re.compile(r"^weir-answer ([0-9a-f]{64}) (\d+)/(\d+) ([A-Za-z0-9+/=]+)$", re.MULTILINE)


def write_frames(text: str, out: TextIO) -> None:
    """Print a text in frames."""
    packed = base64.b64encode(zlib.compress(text.encode())).decode("ascii")
    digest = hashlib.sha256(packed.encode()).hexdigest()
    parts = [packed[begin : begin + WIDTH] for begin in range(0, len(packed), WIDTH)]
    for number, part in enumerate(parts, start=1):
        print(f"weir-answer {digest} {number}/{len(parts)} {part}", file=out)
    out.flush()


def read_frames(log: str) -> str:
    """Return the text whose frames are in a log.

    Raises:
        TuningLostError: It is not there, or not whole.
    """
    frames = _FRAME.findall(log)
    if not frames:
        raise TuningLostError("Expected an answer in the log of the tuning, found none")
    digest = frames[-1][0]
    parts = {int(number): part for found, number, _, part in frames if found == digest}
    packed = "".join(parts[number] for number in sorted(parts))
    if hashlib.sha256(packed.encode()).hexdigest() != digest:
        raise TuningLostError(
            f"Expected {frames[-1][2]} lines of an answer in the log of the tuning, got "
            f"{len(parts)} that do not make it whole"
        )
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(packed, validate=True), LARGEST)
        if unpacking.unconsumed_tail:
            raise TuningLostError(f"Expected an answer of at most {LARGEST} bytes, got more")
        return text.decode()
    except (zlib.error, binascii.Error, UnicodeDecodeError) as error:
        raise TuningLostError(f"Expected a packed answer in the log, got: {error}") from error


RARE = 0.99
"""Part of all stretches that keep what is forecast."""
FORECAST_SEEDS = 3


def run_tuning(work: TuningWork, folder: Path, *, stop: threading.Event) -> TuningAnswer:
    """Return what comes of the work.

    Args:
        work: What to do.
        folder: Where the trace and the study are kept.
        stop: Ends the search with the best so far.

    Raises:
        SimulatorError: The work cannot be done.
        WeirPolicyError: The policy cannot take the experiment.
    """
    trace = folder / "trace.txt"
    write_trace(trace, as_trace(work.rates))
    order = work.order.model_copy(
        update={"experiment": with_trace(work.order.experiment, trace=trace)}
    )
    result = tune(order, should_stop=stop.is_set, study=folder / "study")
    best = apply_point(order.experiment, result.best)
    seeds = range(order.seed, order.seed + FORECAST_SEEDS)
    trained = {}
    if work.train and registry.learns_by_trying(best.policy.name):
        trained = {
            name: dict(state)
            for name, state in train_policies(best, slots=work.train, seed=order.seed).items()
        }
    return TuningAnswer(
        result=result, forecast=forecast(best, seeds=seeds, intervals=work.watch), trained=trained
    )


def forecast(experiment: Experiment, *, seeds: Sequence[int], intervals: int) -> Forecast:
    """Return what a stretch of so many slots hardly ever exceeds.

    Args:
        experiment: With the weights and budgets in question.
        seeds: Of the runs that are looked at.
        intervals: Slots; a trace that is shorter is one stretch.
    """
    late, money, restarts = [], [], []
    for seed in seeds:
        history = simulate(experiment, seed=seed, history=True).history
        violated = history[:, AT_TIME] > experiment.objective.response_time
        late.append(_means_of_stretches(violated.astype(np.float64), intervals))
        money.append(_means_of_stretches(history[:, AT_PRICE], intervals))
        restarted = history[:, AT_CHANGE] == RESTART
        restarts.append(_means_of_stretches(restarted.astype(np.float64), intervals))
    return Forecast(
        intervals=intervals,
        violations=float(np.quantile(np.concatenate(late), RARE)),
        money=float(np.quantile(np.concatenate(money), RARE)),
        restarts=float(np.quantile(np.concatenate(restarts), RARE)),
    )


def _means_of_stretches(values: Floats, length: int) -> Floats:
    """Return the mean of every stretch of so many neighbours."""
    length = min(length, values.size)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[length:] - sums[:-length]) / length


POLITE = 15
"""Niceness: where there is but one machine, the job that is tuned for runs on it. Beside a job that
uses all of its cores a thread of this niceness gets 3 % of one."""


def main(arguments: Sequence[str]) -> int:
    """Do the work; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m weir_operator.tuning.worker", description=__doc__
    )
    parser.add_argument("work", type=Path, help="file that holds the work")
    parser.add_argument("folder", type=Path, help="folder to work in; the answer is answer.json")
    parser.add_argument("--print", action="store_true", help="print the answer in frames besides")
    parser.add_argument("--tied", action="store_true", help="end when standard input is closed")
    given = parser.parse_args(arguments)
    if given.tied:
        threading.Thread(target=end_with_the_asker, daemon=True).start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.nice(POLITE)
    return work_off(given.work, given.folder, printed=given.print, stop=stop)


def work_off(path: Path, folder: Path, *, printed: bool, stop: threading.Event) -> int:
    """Do the work of a file and write the answer; return the exit status."""
    from weir_operator.errors import WeirError
    from weir_operator.runtime.files import write_atomically
    from weir_operator.tuning.work import REFUSED, unpack_work
    from weir_operator.tuning.worker import run_tuning, write_frames
    from weir_policies.errors import WeirPolicyError
    from weir_simulator.errors import SimulatorError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = unpack_work(path.read_bytes())
        answer = run_tuning(work, folder, stop=stop).model_dump_json(by_alias=True)
        write_atomically(folder / "answer.json", answer)
    except (SimulatorError, WeirPolicyError, WeirError) as error:
        print(error, file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"Expected to read {path} and write {folder}: {error}", file=sys.stderr)
        return REFUSED
    if printed:
        write_frames(answer, sys.stdout)
    return 0


def end_with_the_asker() -> None:
    """Wait until standard input is closed, then end this process and those that it began."""
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
