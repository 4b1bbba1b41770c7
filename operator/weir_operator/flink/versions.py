"""Which versions of Flink Weir runs. Pure."""

from __future__ import annotations

import re

from weir_operator.errors import PermanentError

OLDEST = (1, 20)
"""The oldest version whose REST interface, metrics and agent are those that Weir uses."""


def read_version(text: str) -> tuple[int, int]:
    """Return Flink's version, such as (1, 20); (0, 0) of a text that is none."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def refuse_old_version(text: str) -> None:
    """Refuse a Flink that Weir cannot run; a text that names no version is taken as new.

    Raises:
        PermanentError: It is older than `OLDEST`.
    """
    version = read_version(text)
    if (0, 0) < version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise PermanentError(
            f"spec.flink.image: expected Flink {oldest} or newer, got {text}; "
            "build the image from a newer one"
        )
