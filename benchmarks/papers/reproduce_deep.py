"""The deep rows of Tables 2 to 5 of the 2023 paper, 72 cells of ten seeds each.

A cell is near where its mean cost is within a tenth of the published one, above or below. Costs of
single runs differ by a factor of ten and more, because a network settles early on one deployment or
another, and the published means seem to be of one network each: the program behind them falls back
to one and the same seed for weights and replay where the configured one is no integer, as in its
files (`1234L`), and the greedy policies draw nothing else.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, Tables 2 to 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean

import numpy as np

from benchmarks.figures import WITHIN, Figure, Row, count, count_all, match_numbers
from benchmarks.papers.taas2023 import Cell, Setting, describe_for, read_cells
from benchmarks.pictures import Axes, draw_lines
from benchmarks.spawned import map_spawned
from weir_simulator.result import Result

ABOUT = "deep rows of Tables 2-5 (TAAS 2023), ten seeds"
DURATION = "3 h on one core"

DEEP = ("dqn", "dqn-pds", "dqn-pds-plus")
TABLES = (3, 4, 5, 2)
"""In this order."""
SEEDS = tuple(range(1, 11))
"""Run together: ten take less than twice as long as three."""


def run() -> list[Figure | Row]:
    """Run and compare every cell."""
    batches = list_batches()
    found = map_spawned(run_batch, batches, label="Deep rows")
    runs = {
        cell: results
        for batch, of_batch in zip(batches, found, strict=True)
        for cell, results in zip(batch, of_batch, strict=True)
    }
    draw_convergence(runs)
    rows = [row_of(cell, runs[cell]) for cell in deep_cells()]
    return [*judge(rows, runs), *rows]


def run_batch(cells: Sequence[Cell]) -> list[list[Result]]:
    """Return the results of some cells of one policy and one shape, a result for each seed."""
    from weir_simulator.deep import simulate_deep  # here, so that listing benchmarks stays quick

    results: Iterator[Result] = iter(
        simulate_deep(
            [(describe_for(cell.policy, cell.setting), seed) for cell in cells for seed in SEEDS],
            policy=cells[0].policy,
            parameters={"published": 1},
        )
    )
    return [list(islice(results, len(SEEDS))) for _ in cells]


def draw_convergence(runs: Mapping[Cell, Sequence[Result]]) -> None:
    """Draw the deep half of Figure 23: the mean cost so far, mean over seeds."""
    lines = {
        f"{cell.policy}, {len(SEEDS)} seeds": (
            of_cell[0].curve_slots,
            np.mean([result.curve for result in of_cell], axis=0),
        )
        for cell, of_cell in runs.items()
        if cell.setting == Setting("taxi", 10, "A", 3)
    }
    draw_lines(
        "figure-23-deep",
        lines,
        Axes(
            "Mean cost so far, deep policies (as Figure 23)",
            "slot",
            "mean cost so far",
            log_across=True,
            log_up=True,
        ),
    )


def judge(rows: Sequence[Row], runs: Mapping[Cell, Sequence[Result]]) -> list[Figure]:
    """Return how many cells are near the published ones, and how far seeds differ."""
    costs = [(float(cell.cost), costs_of(each)) for cell, each in runs.items()]
    return [
        count_all("mean within 10 % of the published", [row.match == WITHIN for row in rows]),
        count(
            "the published cost lies within our seeds",
            [min(ours) <= theirs <= max(ours) for theirs, ours in costs],
        ),
    ]


def costs_of(runs: Sequence[Result]) -> list[float]:
    """Return the average cost of each run."""
    return [run.average_cost for run in runs]


def row_of(cell: Cell, runs: Sequence[Result]) -> Row:
    """Return a cell's line of the page on reproduction."""
    published = (cell.cost, cell.violations, cell.reconfigurations, cell.resources)
    costs = costs_of(runs)
    ours = (
        f"{fmean(costs):.4f} ({min(costs):.4f} to {max(costs):.4f})",
        f"{fmean(run.violations for run in runs):.1f}",
        f"{fmean(run.reconfigurations for run in runs):.1f}",
        f"{fmean(run.resources for run in runs):.2f}",
    )
    return Row(
        f"Table {cell.setting.table}, deep rows; in parentheses the range over seeds",
        f"{cell.row}, {cell.setting.infrastructure}, {cell.setting.types} types",
        " / ".join(published),
        " / ".join(ours),
        match=match_numbers(fmean(costs), float(cell.cost), equal=False),
        claim="match",
        seeds=len(runs),
    )


def deep_cells(tables: Sequence[int] = TABLES) -> list[Cell]:
    """Return the published cells of the deep policies in these tables, in this order."""
    cells = [cell for cell in read_cells() if cell.policy in DEEP]
    return [cell for table in tables for cell in cells if cell.setting.table == table]


def list_batches() -> list[list[Cell]]:
    """Return what is computed together: a policy on A and on B, with so many node types."""
    batches: dict[tuple[int, int, str], list[Cell]] = {}
    for cell in deep_cells():
        key = (cell.setting.table, cell.setting.types, cell.policy)
        batches.setdefault(key, []).append(cell)
    return list(batches.values())
