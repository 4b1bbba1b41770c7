"""`weir adopt`: from a FlinkDeployment to a StreamApp, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_cli.options import read_duration

if TYPE_CHECKING:
    from weir_operator.external.adopt import MoveRequest


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
    move: Annotated[
        bool,
        typer.Option(
            "--move", help="Move the job, or continue a move, and move it back if that fails."
        ),
    ] = False,
    back: Annotated[
        bool, typer.Option("--back", help="Move the job back to the FlinkDeployment.")
    ] = False,
    timeout: Annotated[
        str, typer.Option(help="Time limit for each step of a move that waits, such as 10m.")
    ] = "10m",
) -> None:
    """Print the StreamApp that would replace a FlinkDeployment, and what stops the move.

    Reads the cluster that KUBECONFIG names, and changes nothing without --move. Fails if something
    stops the move.
    """
    from weir_operator.external.adopt import MoveRequest

    if move and back:
        raise typer.BadParameter("expected --move or --back, got both; choose one")
    request = MoveRequest(
        namespace=namespace,
        name=name,
        objective=objective,
        manifest=filename,
        timeout=read_duration(timeout, "--timeout"),
    )
    if move or back:
        _change(request, back=back)
    else:
        _show(request)


def _show(request: MoveRequest) -> None:
    import asyncio

    import yaml

    from weir_operator.external.adopt import show
    from weir_operator.external.adoption_plan import describe_move

    deployment, found = asyncio.run(show(request))
    typer.echo(yaml.safe_dump(found.manifest, sort_keys=False), nl=False)
    for sentence in found.remarks:
        typer.echo(f"# {sentence}")
    if found.stops:
        for sentence in found.stops:
            typer.echo(f"Stops the move: {sentence}", err=True)
        raise typer.Exit(1)
    typer.echo(f"\n{describe_move(deployment)}", err=True)


def _change(request: MoveRequest, *, back: bool) -> None:
    import asyncio

    from weir_operator.external.adopt import move, move_back

    def say(sentence: str) -> None:
        typer.echo(sentence, err=True)

    place = f"{request.name} --namespace {request.namespace}"
    if back:
        asyncio.run(move_back(request, say=say))
        return
    moved = asyncio.run(move(request, say=say))
    if moved.already:
        begin = (
            f"FlinkDeployment {request.name} was moved already, to StreamApp {moved.stream_app} "
            f"from {moved.savepoint}; nothing was changed"
        )
    else:
        begin = f"Moved: StreamApp {moved.stream_app} runs the job, from {moved.savepoint}"
    typer.echo(
        f"{begin}. The way back is `weir adopt {place} --back`, for as long as the suspended "
        f"FlinkDeployment exists; to remove that, run `kubectl delete flinkdeployment {place}`"
    )
