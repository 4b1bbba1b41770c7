"""What a tuner is asked to do and what it answers, as values and as JSON.

A `TuningWork` holds everything, the trace included, so that it can be done in another process or in
another pod; where the trace lies is the worker's affair. An answer that is not whole, of another
version or of other operators is none.
"""

from __future__ import annotations

import gzip
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from weir_operator.errors import PermanentError, TemporaryError
from weir_simulator.tuning.order import TuningRequest, TuningResult

REFUSED = 3
"""Exit status of a worker that cannot do its work; Python itself ends with 1 where it fails."""


class TuningLostError(TemporaryError):
    """The work came to no answer: its process died, was too late, or wrote something else."""


class TuningRefusedError(PermanentError):
    """The work cannot be done as it is asked for; the sentence says why."""


class _Value(BaseModel):
    """A frozen value that refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Forecast(_Value):
    """What the simulator lets any stretch of some intervals come to, with the best point."""

    intervals: int = Field(ge=1)
    """Length of a stretch."""
    violations: float = Field(ge=0, le=1)
    """Share of violations that one stretch in a hundred exceeds."""
    money: float = Field(ge=0)
    """Currency per hour that one stretch in a hundred exceeds."""
    restarts: float = Field(default=1.0, ge=0, le=1)
    """Share of restarts, by interval, that one stretch in a hundred exceeds; 1, than which nothing
    is more, in what was kept from before restarts were forecast."""


class TuningWork(_Value):
    """A tuning, and what is wanted beside its result."""

    version: Literal[1] = 1
    order: TuningRequest
    """Whose experiment's trace is that of `rates`, whatever file it names."""
    rates: tuple[float, ...] = Field(min_length=1)
    """Records/s, one per slot."""
    watch: int = Field(default=60, ge=1)
    """Slots of the stretches that are forecast."""
    train: int = Field(default=0, ge=0)
    """Slots that the policies are let learn from in the simulator; 0 trains nobody."""


class TuningAnswer(_Value):
    """What came of it."""

    version: Literal[1] = 1
    result: TuningResult
    forecast: Forecast
    trained: dict[str, dict[str, JsonValue]] = {}
    """Learned state by operator, for `load_state_dict`; empty where none was wanted."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        unknown = sorted(self.trained.keys() - self.result.best.budgets.keys())
        if unknown:
            raise ValueError(f"trained operators that have no budget: {unknown}")
        return self


def pack_work(work: TuningWork) -> bytes:
    """Return the work as a small file."""
    # Without the time of its making: equal work, equal bytes.
    return gzip.compress(work.model_dump_json(by_alias=True).encode(), mtime=0)


def unpack_work(packed: bytes) -> TuningWork:
    """Return the work of a file.

    Raises:
        TuningRefusedError: It holds none.
    """
    try:
        return TuningWork.model_validate_json(gzip.decompress(packed))
    except (OSError, EOFError, ValidationError) as error:
        raise TuningRefusedError(
            f"Expected the work of a tuning, got something else ({_first(error)}); "
            "use a tuner of the same version as the controller"
        ) from error


def read_answer(text: str | bytes) -> TuningAnswer:
    """Return an answer from its JSON.

    Raises:
        TuningLostError: It is none.
    """
    try:
        return TuningAnswer.model_validate_json(text)
    except ValidationError as error:
        raise TuningLostError(
            f"Expected the answer of a tuning, got something else ({_first(error)}); it is "
            "made again"
        ) from error


def _first(error: Exception) -> str:
    """Return the first mistake of several, in one line."""
    if isinstance(error, ValidationError):
        mistake = error.errors()[0]
        where = ".".join(str(step) for step in mistake["loc"])
        return f"{where}: {mistake['msg']}" if where else str(mistake["msg"])
    return str(error)
