"""How long a StreamApp is left alone after a life of its loops has failed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic.types import JsonValue

from weir_operator.rescale.journal import Step

FIRST_PAUSE = 2.0
LONGEST_PAUSE = 300.0
"""Seconds between a life that failed and the next one."""
LONGEST_MID_CHANGE = 20.0
"""The same while a change is unfinished."""
LOOK_ELSEWHERE = 60.0
"""Seconds between two looks at a StreamApp that another installation looks after."""
HEALTHY_AFTER = 600.0
"""Seconds of a life after which the next pause is short again."""


def choose_pause(kind: str, before: float, *, mid_change: bool) -> float:
    """Return seconds until the next life.

    Args:
        kind: Of the error that ended the last one.
        before: Seconds that the last pause took.
        mid_change: Whether a change is unfinished: the job may be down until somebody goes on.
    """
    if kind == "fenced":
        return FIRST_PAUSE  # the next life finds out who the owner is
    if mid_change and kind != "elsewhere":
        return min(LONGEST_MID_CHANGE, 2 * before)
    if kind == "permanent":
        return LONGEST_PAUSE
    return min(LOOK_ELSEWHERE if kind == "elsewhere" else LONGEST_PAUSE, 2 * before)


def is_mid_change(status: Mapping[str, JsonValue]) -> bool:
    """Return whether a change is unfinished, by the StreamApp's status."""
    journal = status.get("rescale")
    step = journal.get("step") if isinstance(journal, dict) else None
    return isinstance(step, str) and step in {str(each) for each in Step if not each.is_end}
