"""`weir crd`: writes the CustomResourceDefinition and the schema for editors, or checks them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weir_operator.streamapp.crd import find_stale, find_unconventional, write_crd


def crd(
    out: Annotated[Path, typer.Option(help="Folder in which to write the definition.")] = Path(
        "crds"
    ),
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; fail if a file is not up to date, or a field is not as "
            "the conventions of Kubernetes' API ask.",
        ),
    ] = False,
) -> None:
    """Write the CustomResourceDefinition of StreamApps, and their JSON schema for editors."""
    if check and (unconventional := find_unconventional()):
        for sentence in unconventional:
            typer.echo(sentence, err=True)
        raise typer.Exit(1)
    if not check:
        for path in write_crd(out):
            typer.echo(path)
    elif (stale := find_stale(out)) is not None:
        typer.echo(f"{stale} is not up to date: write it again with weir crd --out {out}", err=True)
        raise typer.Exit(1)
