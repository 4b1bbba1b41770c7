"""Makes a tuning in a process of its own: `python -m weir_simulator.tuning ORDER RESULT`.

The result is written whole or not at all. SIGTERM and Ctrl-C end the search with the best so far.
Ends with status 1 and one sentence where there can be no result.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from weir_policies.errors import WeirPolicyError
from weir_simulator.errors import SimulatorError
from weir_simulator.tuning.order import read_order, write_document
from weir_simulator.tuning.tune import tune
from weir_simulator.whole_files import write_whole


def main(arguments: Sequence[str]) -> int:
    """Make the tuning; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m weir_simulator.tuning", description=__doc__)
    parser.add_argument("order", type=Path, help="file that holds the order")
    parser.add_argument("result", type=Path, help="file to write the result to")
    parser.add_argument("--study", type=Path, help="folder to keep evaluations in, and resume from")
    given = parser.parse_args(arguments)
    stop = threading.Event()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, lambda *_: stop.set())
    try:
        result = tune(read_order(given.order), should_stop=stop.is_set, study=given.study)
        write_whole(given.result, write_document(result))
    except (SimulatorError, WeirPolicyError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Expected to write {given.result}, got an error ({error})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
