"""The deep rows of Tables 2 to 5 of the 2023 paper, with ten seeds each.

Every cell is a part that is kept in `build/benchmarks/reproduce-deep/`: an interrupted run tells of
the cells that it has, and the next one goes on where it was. A cell holds when its mean cost is
within 30 % of the published one, or lower. Where it does not, chance explains it if the published
cost lies where a single run of ours may lie. Costs of single runs differ by up to a factor of ten,
because a network settles early on one deployment or another, and the published means seem to be of
one network each: the program behind them falls back to one and the same seed for weights and replay
where the configured one is no integer, as in its files (`1234L`), and the greedy policies draw
nothing else.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, Tables 2 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import stdev

from rich.console import Console
from scipy import stats

from benchmarks.figures import Figure, at_least
from benchmarks.papers.deep_parts import Part, PartOutcome, run_parts
from benchmarks.papers.departures import Departure
from benchmarks.papers.taas2023 import Cell, Setting, describe_for, read_cells
from benchmarks.rows import RESULTS, Row, write_rows

ABOUT = "deep rows of Tables 2-5 (TAAS 2023), ten seeds; goes on where it was interrupted"
DURATION = "4 h"

DEEP = ("dqn", "dqn-pds", "dqn-pds-plus")
SEEDS = tuple(range(1, 11))
TOLERANCE = 1.3
"""Part of the published cost up to which a mean holds."""


def list_departures() -> list[Departure]:
    """Return where this is not the paper's experiment, for the page."""
    return [
        Departure(
            what="seeds",
            paper="10, of which the printed numbers seem to show one network each",
            here=str(len(SEEDS)),
            why="the program behind the tables falls back to one seed where the configured one is "
            "no integer, as in its files",
        ),
        Departure(
            what="what holds",
            paper="",
            here=f"a mean up to {TOLERANCE:g} times the printed cost, however low, or one that "
            "chance explains",
            why="single runs differ tenfold",
        ),
    ]


def run() -> list[Figure]:
    """Run what is missing and compare every cell; on Ctrl-C, those that there are."""
    console = Console()
    outcomes = {}
    cells = deep_cells()
    try:
        for cell, outcome in run_cells(cells, SEEDS):
            outcomes[cell] = outcome
            console.print(say(cell, outcome), markup=False, highlight=False)
    except KeyboardInterrupt:
        console.print(f"Interrupted: {len(outcomes)} of {len(cells)} cells were run.")
    done = [cell for cell in cells if cell in outcomes]
    write_rows("reproduce-deep", [row_of(cell, outcomes[cell]) for cell in done])
    near = sum(is_near(cell, outcomes[cell]) for cell in done)
    held = sum(holds(cell, outcomes[cell]) for cell in done)
    return [
        Figure(figure="cells that were run", value=len(done), unit="cells"),
        Figure(figure="cells within 30 % or lower", value=near, unit="cells"),
        at_least(
            figure="these, or explained by chance", value=held, unit="cells", limit=len(cells)
        ),
    ]


def is_near(cell: Cell, outcome: PartOutcome) -> bool:
    """Return whether the mean cost is within 30 % of the published one, or lower."""
    return outcome.average_cost <= TOLERANCE * float(cell.cost)


def holds(cell: Cell, outcome: PartOutcome) -> bool:
    """Return whether the mean cost is near the published one, or chance explains it."""
    return is_near(cell, outcome) or outcome.average_cost <= float(cell.cost) + reach_of(outcome)


def row_of(cell: Cell, outcome: PartOutcome) -> Row:
    """Return a cell's line of the page on reproduction."""
    published = (cell.cost, cell.violations, cell.reconfigurations, cell.resources)
    ours = (
        f"{outcome.average_cost:.4f} ± {reach_of(outcome):.4f}",
        f"{outcome.violations:.1f}",
        f"{outcome.reconfigurations:.1f}",
        f"{outcome.resources:.2f}",
    )
    return Row(
        table=f"Table {cell.setting.table}, ten seeds; ± where a single run may lie",
        row=f"{cell.setting} {cell.row}",
        beside=" / ".join(published),
        ours=" / ".join(ours),
        holds=holds(cell, outcome),
        seeds=len(outcome.runs),
    )


def reach_of(outcome: PartOutcome) -> float:
    """Return how far a single run may lie from our mean, in 95 of 100 cases, by Student's t."""
    costs = [run.average_cost for run in outcome.runs]
    quantile = float(stats.t.ppf(0.975, len(costs) - 1))
    return quantile * stdev(costs) * math.sqrt(1 + 1 / len(costs))


def deep_cells(tables: Sequence[int] = (2, 3, 4, 5)) -> list[Cell]:
    """Return the published cells of the deep policies in these tables."""
    return [cell for cell in read_cells() if cell.policy in DEEP and cell.setting.table in tables]


def run_cells(
    cells: Sequence[Cell], seeds: Sequence[int], *, workers: int | None = None
) -> Iterator[tuple[Cell, PartOutcome]]:
    """Yield the outcome of each cell, those that are kept first, then others as they finish.

    Args:
        cells: Of `deep_cells`.
        seeds: One run each.
        workers: Processes; `None` is one per processor.
    """
    parts = {part_of(cell, seeds).name: cell for cell in cells}
    folder = RESULTS / "reproduce-deep"
    for outcome in run_parts([part_of(cell, seeds) for cell in cells], folder, workers=workers):
        yield parts[outcome.part.name], outcome


def part_of(cell: Cell, seeds: Sequence[int]) -> Part:
    """Return what to run for a cell, as the program behind the tables did it."""
    return Part(
        name=f"{name_of(cell.setting)}-{cell.policy}-{len(seeds)}",
        policy=cell.policy,
        parameters={"published": 1},
        experiment=describe_for(cell.policy, cell.setting),
        seeds=tuple(seeds),
    )


def name_of(setting: Setting) -> str:
    """Return a setting as part of a file's name, such as `table2-A3`."""
    return f"table{setting.table}-{setting.infrastructure}{setting.types}"


def say(cell: Cell, outcome: PartOutcome) -> str:
    """Return a line on a finished cell, ours and in parentheses what was published."""
    ours = [
        f"{outcome.average_cost:.4f} ({cell.cost})",
        f"violations {outcome.violations:.1f} % ({cell.violations})",
        f"reconfigurations {outcome.reconfigurations:.1f} % ({cell.reconfigurations})",
        f"resources {outcome.resources:.2f} ({cell.resources})",
    ]
    return f"{cell.setting} {cell.row}: {', '.join(ours)}; {outcome.seconds:.0f} s"
