"""What the commands of `weir pipelines` have in common: their options, and how those are read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from weir_pipelines.errors import InputError

Tables = Annotated[Path, typer.Option("--tables", help="Folder of the tables.")]
Apps = Annotated[
    list[str] | None,
    typer.Option("--app", help="Application, such as streams/trips. Default: all."),
]
First = Annotated[
    str | None, typer.Option("--from", help="First day, such as 2026-03-02. Default: yesterday.")
]
Last = Annotated[str | None, typer.Option("--to", help="Last day. Default: the first.")]
Days = Annotated[
    int | None, typer.Option("--days", help="So many days up to yesterday instead.", min=1)
]
CaFile = Annotated[
    Path | None, typer.Option(help="File with the certificates to check the server's against.")
]
Master = Annotated[str, typer.Option(help="Where Spark runs, as Spark has it.")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="KEY=VALUE of Spark's own configuration.")
]
Again = Annotated[bool, typer.Option("--again", help="Also days that are there already.")]
Replace = Annotated[
    bool, typer.Option("--again", help="Replace days that are there from other input.")
]
Url = Annotated[str, typer.Option("--prometheus", help="Address of the Prometheus server.")]
Matchers = Annotated[
    list[str] | None,
    typer.Option("--match", help="LABEL=VALUE that all series must have, such as cluster=eu."),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with a bearer token for the Prometheus server.")
]
KeepDays = Annotated[
    int | None,
    typer.Option(
        "--keep-days",
        help="First remove the samples of days before the last so many, if they are worked up; "
        "what was made of them stays. Default: none.",
        min=1,
    ),
]

DEFAULT_TABLES = Path(".weir/history")


def read_days(first: str | None, last: str | None, count: int | None) -> list[date]:
    """Return the days from first to last, or so many up to yesterday (UTC); without any, it."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    if count is not None:
        if first is not None or last is not None:
            raise InputError("--days: expected no --from and --to beside it; leave them out")
        return [yesterday - timedelta(days=age) for age in reversed(range(count))]
    low = yesterday if first is None else read_day("--from", first)
    high = low if last is None else read_day("--to", last)
    if high < low:
        raise InputError(f"--to: expected {low} or later, got {high}")
    return [low + timedelta(days=n) for n in range((high - low).days + 1)]


def read_day(option: str, text: str) -> date:
    """Return a day as it is written; `option` is the one that gave it, for the message."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{option}: expected a day such as 2026-03-02, got {text!r}") from error


def read_pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return what KEY=VALUE says; `option` is the one that gave it, for the message."""
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError(f"{option}: expected KEY=VALUE, got {text!r}")
        pairs[key] = value
    return pairs


def read_token(file: Path) -> str:
    """Return the token that a file holds."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"--token-file: {file} cannot be read: {error.strerror}") from error
