"""Run a benchmark by name, or list them: `python -m benchmarks [NAME]`.

Prints the figures as a table and writes them, with the circumstances of the run, to
`benchmarks/results/NAME.json`, of which `tables.py` makes a page. Ends with status 1 when a goal
was missed, 2 when the name, or what a variable chooses, is unknown.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog
from rich.console import Console
from rich.table import Table

from benchmarks.figures import NOT_SHOWN, Figure
from benchmarks.registry import FOLDER, Benchmark, BenchmarkError, find_benchmark, find_benchmarks
from benchmarks.results import FOLDER as RESULTS
from benchmarks.results import begin, write_result

VERDICTS = {True: "[green]yes[/green]", False: "[bold red]no[/bold red]", None: ""}


def main(arguments: Sequence[str]) -> int:
    """List the benchmarks, or run the named one; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", help="the benchmark to run; without it, list them")
    name = parser.parse_args(arguments).name
    console = Console()
    try:
        if name is None:
            console.print(list_table(find_benchmarks().values()))
            return 0
        return run_benchmark(find_benchmark(name), console)
    except BenchmarkError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), markup=False)
        return 2


def run_benchmark(benchmark: Benchmark, console: Console) -> int:
    """Run one benchmark, print and write its figures; return 1 when a goal was missed."""
    console.print(f"{benchmark.name}: {benchmark.about} ({benchmark.duration})", markup=False)
    # A benchmark prints figures; what the controller logs on the way is noise beside them.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    begun = begin()
    found = benchmark.run()
    module = sys.modules[benchmark.run.__module__]
    path: Path = getattr(module, "result_path", lambda: RESULTS / f"{benchmark.name}.json")()
    write_result(path, begun, module, found)
    figures = [each for each in found if isinstance(each, Figure)]
    console.print(figures_table(figures))
    console.print(f"Written to {path.relative_to(FOLDER.parent)}", markup=False)
    return 1 if any(figure.holds is False for figure in figures) else 0


def list_table(benchmarks: Iterable[Benchmark]) -> Table:
    """Return a table of what can be run with `make bench NAME=...`."""
    table = Table("name", "shows", "takes", title="make bench NAME=...", title_justify="left")
    for benchmark in benchmarks:
        table.add_row(benchmark.name, benchmark.about, benchmark.duration)
    return table


def figures_table(figures: Iterable[Figure]) -> Table:
    table = Table("figure", "value", "unit", "goal", "holds")
    table.columns[1].justify = "right"
    for figure in figures:
        value = "not measured" if figure.value is None else f"{figure.value:.6g}"
        verdict = NOT_SHOWN if figure.is_open else VERDICTS[figure.holds]
        table.add_row(figure.figure, value, figure.unit, figure.goal, verdict)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
