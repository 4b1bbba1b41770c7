"""A study: a folder with a request, every evaluation and the result, each complete or absent.

A request names files of rates, whose content may change. So the study stores a digest of each
trace, and is not resumed if one has other rates.

A tuning that runs again on the folder asks its search again, uses the stored outcomes, and
continues with the first that is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from weir_policies.application_manager.search.protocol import rank
from weir_policies.policy import Tuning
from weir_simulator.errors import TuningError
from weir_simulator.experiment import Experiment
from weir_simulator.traces import Trace
from weir_simulator.tuning.order import (
    Evaluation,
    TuningRequest,
    TuningResult,
    read_order,
    read_result,
    write_document,
)
from weir_simulator.whole_files import write_whole

FREE = {
    "evaluations",
    "workers",
    "deadline",
    "judging_seeds",
    "judging_slots",
    "shortlist",
    "confidence",
    "watch",
    "train",
}
"""Fields of an order that may differ when a study is resumed: no evaluation depends on them."""
DIGESTS = "traces.json"
"""What the rates of the study's traces were, as digests."""


class Study:
    """The folder of one order.

    Args:
        folder: Made where it is not there.
        order: What is worked on.
        traces: The rates that evaluations depend on, records/s, by where the experiment names them.

    Raises:
        TuningError: The folder holds another order or other rates, or cannot be written.
    """

    def __init__(self, folder: Path, order: TuningRequest, traces: Mapping[str, Trace]) -> None:
        self._folder = folder
        path = folder / "order.json"
        digests = {name: _digest(rates) for name, rates in traces.items()}
        if path.exists():
            known = read_order(path)
            differing = sorted(
                name
                for name in TuningRequest.model_fields
                if name not in FREE and getattr(known, name) != getattr(order, name)
            )
            if differing:
                raise TuningError(
                    f"Expected in {folder} a study of this order, got one that differs in "
                    f"{', '.join(differing)}; name another folder, or remove this one"
                )
            _refuse_other_rates(folder, digests)
        self._write(DIGESTS, json.dumps(digests, indent=1))  # first: an order is never without
        self._write("order.json", write_document(order))

    def read(self, number: int) -> Evaluation | None:
        """Return a stored evaluation; `None` if there is none of this number.

        Raises:
            TuningError: Its file holds something else.
        """
        return _read_evaluation(self._path_of(number))

    def keep(self, evaluation: Evaluation) -> None:
        """Write an evaluation.

        Raises:
            TuningError: The folder cannot be written.
        """
        name = self._path_of(evaluation.number).relative_to(self._folder)
        self._write(str(name), evaluation.model_dump_json(by_alias=True, indent=1))

    def finish(self, result: TuningResult) -> None:
        """Write the result.

        Raises:
            TuningError: The folder cannot be written.
        """
        self._write("result.json", write_document(result))

    def _path_of(self, number: int) -> Path:
        return self._folder / "evaluations" / f"{number:05d}.json"

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            raise TuningError(
                f"Expected to write {path}, got an error ({error.strerror or error}); free some "
                "space or change its rights, then call the same again"
            ) from error


def read_best(folder: Path) -> tuple[Experiment, Tuning]:
    """Return what the study in a folder tunes, and the best that it has found so far.

    Raises:
        TuningError: There is no study, or nothing was simulated in full yet.
    """
    order = read_order(folder / "order.json")
    if (folder / "result.json").exists():
        return order.experiment, read_result(folder / "result.json").best
    made = [_read_evaluation(path) for path in sorted((folder / "evaluations").glob("*.json"))]
    full = [each for each in made if each is not None and each.fidelity == 1.0]
    if not full:
        raise TuningError(
            f"Expected in {folder} a study with a full simulation, got none; let it "
            "run longer, or leave it out"
        )
    limits = order.constraints.limits
    return order.experiment, min(full, key=lambda each: rank(each.outcome, limits)).point


def _digest(rates: Trace) -> str:
    return hashlib.sha256(np.ascontiguousarray(rates, dtype="<f8").tobytes()).hexdigest()


def _refuse_other_rates(folder: Path, digests: Mapping[str, str]) -> None:
    path = folder / DIGESTS
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TuningError(
            f"Expected in {path} the digests of a study's traces, got an error ({error}); "
            "name another folder, or remove this one"
        ) from error
    if known != digests:
        differing = sorted(name for name, digest in digests.items() if known.get(name) != digest)
        raise TuningError(
            f"Expected in {folder} a study of these rates, got one of others in "
            f"{', '.join(differing)}: its results mean little here; name another "
            f"folder and start from its results (--warm-start {folder}), or remove "
            "this one"
        )


def _read_evaluation(path: Path) -> Evaluation | None:
    try:
        return Evaluation.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise TuningError(
            f"Expected an evaluation in {path}, got something else "
            f"({type(error).__name__}); remove the file to repeat it"
        ) from error
