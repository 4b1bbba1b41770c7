"""`weir adopt`: from a FlinkDeployment to a StreamApp, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def adopt(
    name: Annotated[str, typer.Argument(help="Name of the FlinkDeployment.", show_default=False)],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace.")] = "default",
    objective: Annotated[
        str, typer.Option(help="The response time that the job must meet, such as 500ms.")
    ] = "1s",
    filename: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            help="A StreamApp to use, such as the printed one with your changes. "
            "If unset, Weir makes one from the FlinkDeployment.",
        ),
    ] = None,
) -> None:
    """Print the StreamApp that would replace a FlinkDeployment, and the commands of the move.

    Reads the cluster that KUBECONFIG names, and changes nothing. Fails if something stops the move,
    and says what.
    """
    import asyncio

    import yaml

    from weir_operator.advise.adopt import AdoptionRequest, show
    from weir_operator.advise.adoption_plan import describe_move
    from weir_operator.cluster.app.preflight import find_refusals
    from weir_operator.streamapp.loading import parse_manifest

    request = AdoptionRequest(
        namespace=namespace, name=name, objective=objective, manifest=filename
    )
    deployment, found = asyncio.run(show(request))
    typer.echo(yaml.safe_dump(found.manifest, sort_keys=False), nl=False)
    for sentence in found.remarks:
        typer.echo(f"# {sentence}")
    # First what stops the move of any manifest; then what `weir validate` would say of this one.
    stops = found.stops or find_refusals(parse_manifest(found.manifest))
    if stops:
        for sentence in stops:
            typer.echo(f"Stops the move: {sentence}", err=True)
        raise typer.Exit(1)
    file = str(filename or f"{found.manifest['metadata']['name']}.yaml")
    typer.echo(f"\n{describe_move(deployment, found.manifest, file)}", err=True)
