"""What an evaluation keeps over restarts of the controller, in one small file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from weir_operator.errors import PermanentError
from weir_operator.rescale.journal import DeploymentMap
from weir_operator.runtime.files import read_if_present, storing, write_atomically

EVALUATION = "evaluation.json"
"""The file, in the folder of each StreamApp's state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationState:
    """What must outlive the controller."""

    asked: str
    """`spec.evaluation`, as JSON."""
    began: float
    """Unix time."""
    baseline: DeploymentMap
    ended: str = ""
    """Why it is over, one sentence; empty while it is not."""
    late_block: int = -1
    """The block of the baseline that `late` counts."""
    late: int = 0


_STATE = TypeAdapter(EvaluationState)


class EvaluationStore:
    """The state of one StreamApp's evaluation, one JSON file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> EvaluationState | None:
        """Return the state; `None` where none is kept.

        Raises:
            PermanentError: The file cannot be read.
        """
        try:
            text = read_if_present(self._path)
            return None if text is None else _STATE.validate_json(text)
        except (OSError, ValueError) as error:  # pydantic's errors and those of UTF-8 are the last
            raise PermanentError(
                f"Expected the state of an evaluation in {self._path}, got: {error}"
            ) from error

    def save(self, state: EvaluationState) -> None:
        """Replace the file in one step.

        Raises:
            TemporaryError: The disk is full.
            PermanentError: The folder cannot be written.
        """
        write_atomically(self._path, _STATE.dump_json(state))

    def remove(self) -> None:
        """Remove the file, if there is one.

        Raises:
            PermanentError: It cannot be removed.
        """
        with storing(self._path):
            self._path.unlink(missing_ok=True)
