"""How old what is kept of a job may be for whoever steers it by that now."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from weir_pipelines.errors import InputError

MOST_AGE = timedelta(days=7)
"""How long ago the last day may be. The controller remembers eight days of its own, so what is kept
still meets them; what ended earlier is another job's, and nobody has looked at the nights since."""


def refuse_old(root: Path, app: str, last: date, *, now: float | None) -> None:
    """Refuse what ended too long ago; nothing where no time is given.

    Args:
        root: Folder of the tables.
        app: As the label `weir_app` has it.
        last: The last day of it.
        now: Unix time; `None` refuses nothing.

    Raises:
        InputError: It is older than `MOST_AGE`.
    """
    if now is not None and datetime.fromtimestamp(now, UTC).date() - last > MOST_AGE:
        raise InputError(
            f"{root}: expected a day of {app!r} of the last {MOST_AGE.days} that can be used, got "
            f"{last} as the latest; look why weir pipelines run adds none"
        )
