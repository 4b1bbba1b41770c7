"""Options that several commands read from text, and their progress bar."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

from weir_operator.errors import PermanentError
from weir_operator.streamapp.quantities import Duration
from weir_simulator.errors import ExperimentError

FileOrApp = Annotated[
    str,
    typer.Argument(
        help=("Experiment, or StreamApp (NAME or NAMESPACE/NAME) with a fitted simulator."),
        metavar="FILE|APP",
    ),
]
PolicyName = Annotated[
    str | None,
    typer.Option(help="Use this policy, with its defaults, instead of the file's.", metavar="NAME"),
]
State = Annotated[Path, typer.Option(help="Folder of Weir's state, for a StreamApp.")]
DEFAULT_STATE = Path(".weir")


def find_experiment(name: str, state: Path) -> Path:
    """Return the experiment file that `name` is, or else the one fitted to a StreamApp.

    Raises:
        ExperimentError: There is neither.
    """
    from weir_operator.tuning.fitting import find_fitted
    from weir_operator.wiring.loops import state_directory

    if is_file(name):
        return Path(name)
    fitted = find_fitted(state_directory(state, name))
    if not fitted.exists():
        raise ExperimentError(
            (f"{name}: expected an experiment file, or a StreamApp in {state} with a "
"fitted simulator, found neither; correct the name or --state, or wait "
"until the condition ModelFitted is true with the reason Fitted",)
        )  # fmt: skip
    return fitted


def find_records(state: Path, app: str) -> Path:
    """Return the file of a StreamApp's decision records.

    Raises:
        PermanentError: There is none.
    """
    from weir_operator.loop.record import RECORDS
    from weir_operator.wiring.loops import state_directory

    path = state_directory(state, app) / RECORDS
    if not path.exists():
        known = [each.parent.name.replace(".", "/", 1) for each in state.glob(f"*/{RECORDS}")]
        there = f"; there are those of {', '.join(sorted(known))}" if known else ""
        raise PermanentError(
            f"Expected decision records of {app!r} in {state}, found none{there}: name the "
            "StreamApp as NAMESPACE/NAME, and its folder with --state"
        )
    return path


def is_file(name: str) -> bool:
    """Return whether a `FILE|APP` names a file, though it may not be there."""
    file = Path(name)
    return file.is_file() or file.suffix in (".yaml", ".yml", ".json")


def read_pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return what KEY=VALUE says; `option` is the one that gave it, for the message."""
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise PermanentError(
                f"{option}: expected KEY=VALUE, got {text!r}; write it as cluster=north"
            )
        pairs[key] = value
    return pairs


def read_duration(text: str, option: str) -> float:
    """Return the seconds that a duration such as 50ms says.

    Raises:
        PermanentError: It says none.
    """
    try:
        return Duration(text.strip()).seconds
    except ValueError as error:
        raise PermanentError(
            f"{option}: expected {Duration.expected}, got {text!r}; add its unit"
        ) from error


def read_words(text: str, option: str) -> tuple[str, ...]:
    """Return the words of a command line.

    Raises:
        PermanentError: A quote is open, or a backslash ends the line.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise PermanentError(
            f"{option}: expected words quoted as in a shell, got {text!r} ({error}); close the "
            "quotes, or remove a backslash at the end"
        ) from error


def read_time(text: str, now: float, option: str) -> float:
    """Return Unix seconds for a time as people write it.

    Args:
        text: 2026-05-04T17:05:00 (UTC unless it says otherwise), 17:05:00 (today) or -90s.
        now: Unix seconds.
        option: Whose value it is.

    Raises:
        PermanentError: The text is no time.
    """
    given = text
    try:
        if text.startswith("-"):
            return now - Duration(text[1:]).seconds
        if len(text) <= len("17:05:00"):
            text = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}T{text}"
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise PermanentError(
            f"Expected {option} as 2026-05-04T17:05:00, 17:05:00 or -90s, got {given!r}"
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Return a bar on stderr, with a description before it and these columns behind it."""
    shown = (TextColumn("{task.description}"), BarColumn(), *columns)
    return Progress(*shown, console=Console(stderr=True))
