"""Answers a request for a tuning: `python -m weir_operator.tuning.worker`.

Reads the request from a file, runs the tuning, and writes the answer: to a file, completely or not
at all, or in frames to standard output (`write_frames`), which is how it leaves a pod. Evaluations
are stored in the folder, so that an equal request resumes.

Ends with status 3 and a sentence if the tuning is impossible. SIGTERM and Ctrl-C end the search
with the best so far. With `--tied`, it ends as soon as its standard input is closed, because then
the caller is gone. Modules that compute are imported after that is set up: importing them takes
seconds, and minutes if kernels must be compiled.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir_simulator.tuning.order import TuningRequest, TuningResult

POLITE = 15
"""Niceness: where there is but one machine, the job that is tuned for runs on it. Beside a job that
uses all of its cores a thread of this niceness gets 3 % of one."""


def main(arguments: Sequence[str]) -> int:
    """Answer the request; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m weir_operator.tuning.worker", description=__doc__
    )
    parser.add_argument("work", type=Path, help="file that holds the request")
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
    return answer_file(given.work, given.folder, printed=given.print, stop=stop)


def answer_file(path: Path, folder: Path, *, printed: bool, stop: threading.Event) -> int:
    """Answer the request of a file; return the exit status."""
    from weir_operator.errors import WeirError
    from weir_operator.runtime.files import write_atomically
    from weir_operator.tuning.protocol import REFUSED, unpack_request, write_frames
    from weir_policies.errors import WeirPolicyError
    from weir_simulator.errors import SimulatorError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        request = unpack_request(path.read_bytes())
        answer = run_tuning(request, folder, stop=stop).model_dump_json(by_alias=True)
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


def run_tuning(request: TuningRequest, folder: Path, *, stop: threading.Event) -> TuningResult:
    """Return the result of a request that includes its rates.

    Raises:
        SimulatorError: The tuning cannot be made.
        WeirPolicyError: The policy cannot take the experiment.
    """
    from weir_simulator.experiment import TraceSource
    from weir_simulator.traces import as_trace, write_trace
    from weir_simulator.tuning.tune import tune

    trace = folder / "trace.txt"
    write_trace(trace, as_trace(request.rates))
    experiment = request.experiment.model_copy(update={"trace": TraceSource(file=trace)})
    placed = request.model_copy(update={"experiment": experiment, "rates": ()})
    return tune(placed, should_stop=stop.is_set, study=folder / "study")


def end_with_the_asker() -> None:
    """Wait until standard input is closed, then end this process and those that it began."""
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
