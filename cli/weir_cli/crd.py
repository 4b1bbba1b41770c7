"""`weir crd`: writes the CustomResourceDefinition, or checks that the written one is up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weir_operator.streamapp.crd import FILE_NAME, is_current, write_crd


def crd(
    out: Annotated[Path, typer.Option(help="Folder in which to write the definition.")] = Path(
        "crds"
    ),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the file is not up to date.")
    ] = False,
) -> None:
    """Write the CustomResourceDefinition of StreamApps from its models."""
    if not check:
        typer.echo(write_crd(out))
    elif not is_current(out):
        typer.echo(
            f"{out / FILE_NAME} is not up to date: write it again with weir crd --out {out}",
            err=True,
        )
        raise typer.Exit(1)
