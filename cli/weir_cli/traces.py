"""`weir traces`: inspects, changes and generates arrival traces.

A trace is a text file with one rate in records/s per line, one line per slot. Commands that make a
trace read FILE and write OUT; if they leave out a part of FILE, OUT must be another file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from weir_simulator.errors import TraceError
from weir_simulator.section import MAX_SEED, MAX_SLOTS
from weir_simulator.traces import (
    Trace,
    TraceKind,
    TraceStatistics,
    compress,
    cut,
    describe,
    read_trace,
    scale_to_maximum,
    synthesise,
    write_trace,
)

app = typer.Typer(
    help="Inspect, change and generate arrival traces.",
    no_args_is_help=True,
    add_completion=False,
)

File = Annotated[Path, typer.Argument(help="Trace to read.", metavar="FILE")]
Out = Annotated[Path, typer.Argument(help="Trace to write.", metavar="OUT")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("inspect")
def inspect_trace(file: File, as_json: AsJson = False) -> None:
    """Print the statistics of a trace."""
    statistics = describe(read_trace(file))
    if as_json:
        typer.echo(json.dumps(_to_plain(file, statistics), indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=str(file), title_justify="left", show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, value in _rows(statistics):
        table.add_row(name, value)
    Console().print(table)


@app.command("cut")
def cut_trace(
    file: File,
    out: Out,
    slots: Annotated[int, typer.Option(help="Number of slots to keep.")],
    start: Annotated[int, typer.Option(help="First slot to keep; 0 is the trace's first.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Keep a part of a trace."""
    _refuse_same(file, out)
    _write(out, cut(read_trace(file), start=start, slots=slots), as_json)


@app.command("scale")
def scale_trace(
    file: File,
    out: Out,
    maximum: Annotated[float, typer.Option("--max", help="Scale to this highest rate, records/s.")],
    as_json: AsJson = False,
) -> None:
    """Scale a trace to a maximum."""
    _write(out, scale_to_maximum(read_trace(file), maximum=maximum), as_json)


@app.command("compress")
def compress_trace(
    file: File,
    out: Out,
    slots: Annotated[int, typer.Option(help="How many slots to average into one.")],
    as_json: AsJson = False,
) -> None:
    """Average groups of slots, so that the trace takes less time to replay."""
    _refuse_same(file, out)
    _write(out, compress(read_trace(file), slots=slots), as_json)


@app.command("synth")
def synthesise_trace(
    kind: Annotated[TraceKind, typer.Argument(help="The published trace to imitate.")],
    out: Out,
    slots: Annotated[
        int, typer.Option(help="Length, in slots of a minute.", max=MAX_SLOTS)
    ] = 10080,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same trace.", min=0, max=MAX_SEED)
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Generate a trace similar to a published one."""
    _write(out, synthesise(kind, slots=slots, rng=np.random.default_rng(seed)), as_json)


def _refuse_same(file: Path, out: Path) -> None:
    """Keep the user's trace: what is left out of it would be gone."""
    if out.exists() and out.samefile(file):
        raise TraceError(f"OUT: expected another file than {file}, the input; choose a new name")


def _write(out: Path, trace: Trace, as_json: bool) -> None:
    write_trace(out, trace)
    statistics = describe(trace)
    if as_json:
        typer.echo(json.dumps(_to_plain(out, statistics), indent=2))
    else:
        typer.echo(
            f"{out}: {statistics.slots} slots, mean {statistics.mean:.4g}, "
            f"highest {statistics.maximum:.4g} records/s"
        )


def _to_plain(file: Path, statistics: TraceStatistics) -> dict[str, object]:
    """Return the statistics as plain JSON values; what does not exist is null."""
    return {
        "file": str(file),
        "slots": statistics.slots,
        "mean": statistics.mean,
        "standardDeviation": statistics.standard_deviation,
        "minimum": statistics.minimum,
        "quantiles": {f"{p:g}": rate for p, rate in statistics.quantiles.items()},
        "maximum": statistics.maximum,
        "autocorrelations": {
            str(lag): None if math.isnan(value) else value
            for lag, value in statistics.autocorrelations.items()
        },
        "meanStep": statistics.mean_step,
        "zeroShare": statistics.zero_share,
    }


def _rows(statistics: TraceStatistics) -> list[tuple[str, str]]:
    return [
        ("slots", f"{statistics.slots:,}"),
        ("mean", f"{statistics.mean:,.1f} records/s"),
        ("standard deviation", f"{statistics.standard_deviation:,.1f} records/s"),
        ("minimum", f"{statistics.minimum:,.1f} records/s"),
        *(
            (f"{100 * p:g} % below", f"{rate:,.1f} records/s")
            for p, rate in statistics.quantiles.items()
        ),
        ("maximum", f"{statistics.maximum:,.1f} records/s"),
        ("mean step", f"{statistics.mean_step:,.1f} records/s"),
        ("slots without arrivals", f"{100 * statistics.zero_share:.1f} %"),
        *(
            (f"autocorrelation, lag {lag}", f"{value:.3f}")
            for lag, value in statistics.autocorrelations.items()
        ),
    ]
