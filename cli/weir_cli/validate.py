"""`weir validate`: prints a sentence for each mistake in a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weir_operator.errors import InvalidStreamAppError
from weir_operator.streamapp.loading import load_manifest


def validate(
    files: Annotated[
        list[Path], typer.Argument(help="Manifests of StreamApps.", metavar="FILE...")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON list with one entry per file.")
    ] = False,
) -> None:
    """Check manifests without running anything; fail if one has a mistake."""
    mistakes = {file: _find_mistakes(file) for file in files}
    if as_json:
        report = [
            {"file": str(file), "ok": not found, "mistakes": found}
            for file, found in mistakes.items()
        ]
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        for file, found in mistakes.items():
            for sentence in found or ["ok"]:
                typer.echo(f"{file}: {sentence}")
    if any(mistakes.values()):
        raise typer.Exit(1)


def _find_mistakes(file: Path) -> list[str]:
    """Return a sentence for each mistake in the manifest, none where it is right."""
    try:
        app = load_manifest(file)
    except InvalidStreamAppError as error:
        return list(error.mistakes)
    from weir_operator.cluster.app.preflight import (
        find_refusals,  # loads what policies compute with
    )

    return list(find_refusals(app))
