"""Options that several commands read from text."""

from __future__ import annotations

from weir_operator.streamapp.quantities import Duration
from weir_simulator.errors import ExperimentError


def read_seconds(text: str, option: str) -> float:
    """Return the seconds that a duration such as 50ms says.

    Raises:
        ExperimentError: It says none.
    """
    try:
        return Duration(text.strip()).seconds
    except ValueError as error:
        raise ExperimentError(
            (f"{option}: expected {Duration.expected}, got {text!r}; add its unit",)
        ) from error
