"""The `weir` command: its list of commands, and how errors are printed.

A command's module is imported only when the command is called, because together they import the
whole product (HTTP, charts, scipy) and `weir --help` must answer at once. So the group has
placeholders with a line of help each, and replaces one by the real command when it is called; a
test keeps these lines equal to the commands' own.

Errors of Weir's own hierarchies are sentences for people, and so is a package that only an extra
brings: they go to stderr without a stack trace, with exit code 1. `WEIR_DEBUG=1` shows the stack
trace. Any other exception is a defect of Weir and always shows it.
"""

from __future__ import annotations

import importlib
import os
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from weir_operator.errors import WeirError
from weir_pipelines.errors import PipelineError
from weir_policies.distribution import DISTRIBUTION, install_command
from weir_policies.errors import WeirPolicyError
from weir_simulator.errors import SimulatorError

COMMANDS = {
    "local": ("weir_cli.local:local", "Run a StreamApp on this machine, without a cluster."),
    "controller": (
        "weir_cli.controller:controller",
        "Run the controller: manage StreamApps on the cluster.",
    ),
    "graph": (
        "weir_cli.graph:graph",
        "Print a job's operators, and the manifest's list of them.",
    ),
    "adopt": (
        "weir_cli.adopt:adopt",
        "Print the StreamApp that would replace a FlinkDeployment, and the commands of the move.",
    ),
    "explain": (
        "weir_cli.explain:explain",
        "Show measurements, candidates, expectations and results of decisions.",
    ),
    "validate": (
        "weir_cli.validate:validate",
        "Check manifests without running anything; fail if one has a mistake.",
    ),
    "crd": (
        "weir_cli.crd:crd",
        "Write the CustomResourceDefinition of StreamApps, and their JSON schema for editors.",
    ),
    "estimate": (
        "weir_cli.estimate:estimate",
        "Estimate what a job's scaling would have cost by Weir, before anything is installed.",
    ),
    "simulate": (
        "weir_cli.simulate:simulate",
        ("Simulate how a policy scales a dataflow through a trace, and what it costs."),
    ),
    "compare": (
        "weir_cli.compare:compare",
        ("Compare policies: run experiments with several policies and seeds in parallel."),
    ),
    "tune": (
        "weir_cli.tune:tune",
        ("Find the weights and latency budgets that meet an objective at the lowest cost."),
    ),
    "frontier": (
        "weir_cli.frontier:frontier",
        ("Price objectives: cost for each response-time bound and share of violations."),
    ),
    "pipelines": (
        "weir_cli.pipelines:app",
        "Turn the history of metrics into arrival traces, service times and profiles.",
    ),
    "traces": ("weir_cli.traces:app", "Inspect, change and generate arrival traces."),
}
"""Where each command is found (`module:attribute`, a function or a Typer app) and its help."""

_TUNE = ("tune", "the tuner's image, `weir-tuner`")
_SPARK = ("spark", "the pipelines' image, `weir-pipelines`")
EXTRAS = {
    "botorch": _TUNE,
    "gpytorch": _TUNE,
    "prometheus_api_client": _SPARK,
    "pyarrow": _SPARK,
    "pyspark": _SPARK,
    "torch": _TUNE,
}
"""Which extra brings a package, and which image. Commands that pyarrow alone is enough for say so
themselves."""


class LazyGroup(TyperGroup):
    """A group that imports a command when it is called, and not to list it."""

    def __init__(self, **attributes: Any) -> None:  # Any: whatever Typer hands to a group
        super().__init__(**attributes)
        for name, (_, line) in COMMANDS.items():
            self.add_command(TyperCommand(name=name, help=line))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, imported now, with its name and arguments."""
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, placeholder if name is None else load_command(name), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; turn Weir's own errors into a sentence and exit code 1."""
        try:
            return super().invoke(ctx)
        except (WeirError, WeirPolicyError, SimulatorError, PipelineError) as error:
            if os.environ.get("WEIR_DEBUG") == "1":
                raise
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(1) from error
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in EXTRAS or os.environ.get("WEIR_DEBUG") == "1":
                raise
            extra, image = EXTRAS[package]
            typer.echo(
                f"Error: Expected the package {package}, which this command needs, got no such "
                f"package; run {install_command(extra)}, or use {image}",
                err=True,
            )
            raise typer.Exit(1) from error


def load_command(name: str) -> Any:
    """Import a command and return it as Typer's command object."""
    module, attribute = COMMANDS[name][0].split(":")
    found = getattr(importlib.import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    single = typer.Typer(add_completion=False)
    single.command(name)(found)
    return typer.main.get_command(single)


# Pretty tracebacks print local variables' context and wrap lines; a plain one can be reported.
app = typer.Typer(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"weir {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def weir(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Scale Apache Flink jobs operator by operator over node pools."""


def main() -> None:
    """Run the command line."""
    app(prog_name="weir")


if __name__ == "__main__":
    main()
