"""`weir simulate`: runs an experiment once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from weir_cli.options import PolicyName
from weir_simulator.experiment_files import load_experiment
from weir_simulator.reports import wording
from weir_simulator.section import MAX_SEED

if TYPE_CHECKING:
    from weir_simulator.result import Result


def simulate(
    file: Annotated[Path, typer.Argument(help="Experiment to run.", metavar="FILE")],
    policy: PolicyName = None,
    trace: Annotated[
        Path | None, typer.Option(help="Use this whole trace instead of the file's.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Use this seed instead of the file's first.", min=0, max=MAX_SEED),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate how a policy scales a dataflow through a trace, and what it costs."""
    experiment = load_experiment(file, trace=trace)
    name = experiment.policy.name if policy is None else policy
    chosen_seed = experiment.seeds[0] if seed is None else seed
    # Imported here: a file with a mistake is refused before the simulator is compiled.
    from weir_simulator.run import simulate as run

    doing = f"{name} scales {file.name} (a policy is compiled the first time) ..."
    with Console(stderr=True).status(doing):
        result = run(experiment, seed=chosen_seed, policy=name)
    if as_json:
        typer.echo(json.dumps(_to_plain(result), indent=2))
    else:
        bounds = wording.objective(experiment.objective)
        Console().print(_table(f"{file.name}: {name}, seed {chosen_seed}", result, bounds))
        if result.violations >= ALWAYS:
            typer.echo(
                "Every slot missed the bound: it may be impossible on these node types; "
                "`weir frontier` says which bounds can be kept"
            )


ALWAYS = 99.995
"""Percent of slots over the bound that are shown as 100.00 %."""


def _to_plain(result: Result) -> dict[str, object]:
    return {
        "policy": result.policy,
        "seed": result.seed,
        "slots": result.slots,
        "averageCost": result.average_cost,
        "violations": result.violations,
        "reconfigurations": result.reconfigurations,
        "resources": result.resources,
        "replicas": dict(result.replicas),
        "slotsPerSecond": result.slots_per_second,
    }


def _table(title: str, result: Result, bounds: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column()
    rows = [
        ("average cost", f"{result.average_cost:.4f}", "per slot"),
        ("violations", f"{result.violations:.2f} %", f"of slots; {bounds}"),
        ("reconfigurations", f"{result.reconfigurations:.2f} %", "of slots"),
        *([("resizes in place", f"{result.resizes:.2f} %", "of slots")] if result.resizes else []),
        *([("lost replicas", f"{result.losses:,}", "")] if result.losses else []),
        ("resources", f"{result.resources:.3f}", "price per hour, mean"),
        *((f"replicas on {name}", f"{mean:.2f}", "mean") for name, mean in result.replicas.items()),
        ("slots", f"{result.slots:,}", ""),
        ("speed", f"{result.slots_per_second:,.0f}", "slots/s"),
    ]
    for row in rows:
        table.add_row(*row)
    return table
