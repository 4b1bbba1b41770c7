"""The deep rows of Tables 2 to 5 of the 2023 paper, 72 cells, resumed cell by cell.

A part is a cell with its ten seeds; its outcome, with a run for each seed, is kept in
`build/benchmarks/reproduce-deep/`. An interrupted run tells of the parts that it has, and the
next one goes on where it was.

A cell holds when its mean cost is within 30 % of the published one, or lower. Where it does not,
chance explains it if the published cost lies where a single run of ours may lie. Costs of single
runs differ by a factor of ten and more, because a network settles early on one deployment or
another, and the published means seem to be of one network each: the program behind them falls back
to one and the same seed for weights and replay where the configured one is no integer, as in its
files (`1234L`), and the greedy policies draw nothing else.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, Tables 2 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import numpy as np
from scipy import stats

from benchmarks.figures import NEAR, Figure, Row, at_least
from benchmarks.papers.deep_parts import Part, RunOutcome, read_part, run_batches
from benchmarks.papers.taas2023 import Cell, Setting, describe_for, read_cells
from benchmarks.pictures import Axes, draw_lines
from benchmarks.results import BUILD

ABOUT = "deep rows of Tables 2-5 (TAAS 2023), ten seeds; goes on where it was interrupted"
DURATION = "3 h on one core"

DEEP = ("dqn", "dqn-pds", "dqn-pds-plus")
TABLES = (3, 4, 5, 2)
"""In this order."""
LAST_TABLE = TABLES[-1]
SEEDS = tuple(range(1, 11))
"""Run together: ten take less than twice as long as three."""
TOLERANCE = 1.3
"""Part of the published cost up to which a mean holds."""
FOLDER = BUILD / "reproduce-deep"


def run() -> list[Figure | Row]:
    """Run what is missing and compare every cell; on Ctrl-C, those that there are."""
    cells = deep_cells()
    try:
        for outcome in run_batches(list_batches(), FOLDER):
            print(f"{outcome.part.name}: {outcome.average_cost:.4f}", flush=True)
    except KeyboardInterrupt:
        print("Interrupted: what was run is kept.")
    runs = {cell: read_runs(cell) for cell in cells}
    done = {cell: kept for cell, kept in runs.items() if kept}
    draw_convergence(done)
    return [*judge(runs), *(row_of(cell, kept) for cell, kept in done.items())]


def draw_convergence(done: Mapping[Cell, Sequence[RunOutcome]]) -> None:
    """Draw the deep half of Figure 23: the mean cost so far, mean over seeds."""
    lines = {
        f"{cell.policy}, {len(runs)} seeds": (
            np.array(runs[0].curve_slots),
            np.mean([run.curve for run in runs], axis=0),
        )
        for cell, runs in done.items()
        if cell.setting == Setting("taxi", 10, "A", 3)
    }
    if lines:
        draw_lines(
            "figure-23-deep",
            lines,
            Axes(
                title="Mean cost so far, deep policies (as Figure 23)",
                across="slot",
                up="mean cost so far",
                log_across=True,
                log_up=True,
            ),
        )


def judge(runs: Mapping[Cell, Sequence[RunOutcome]]) -> list[Figure]:
    """Return how many cells were run, and how many of those hold."""
    done = {cell: kept for cell, kept in runs.items() if kept}
    within = sum(is_within(cell, kept) for cell, kept in done.items())
    best = sum(float(cell.cost) >= min(costs_of(kept)) for cell, kept in done.items())
    above = sum(float(cell.cost) > max(costs_of(kept)) for cell, kept in done.items())
    near = sum(is_near(cell, kept) for cell, kept in done.items())
    by_chance = [
        kept for cell, kept in done.items() if holds(cell, kept) and not is_near(cell, kept)
    ]
    figures = [
        Figure(
            figure=f"Table {table}: cells that were run",
            value=sum(cell.setting.table == table for cell in done),
            unit=f"of {sum(cell.setting.table == table for cell in runs)}",
        )
        for table in sorted(TABLES)
    ]
    figures += [
        Figure(
            figure="mean within 10 % of the published",
            value=within,
            unit=f"of {len(done)}",
        ),
        Figure(
            figure="the published cost lies within our seeds, or above",
            value=best,
            unit=f"of {len(done)}",
        ),
        Figure(
            figure="the published cost lies above all our seeds",
            value=above,
            unit=f"of {len(done)}",
        ),
        Figure(figure="within 30 % or lower", value=near, unit=f"of {len(done)}"),
        Figure(
            figure="explained by chance alone",
            value=len(by_chance),
            unit=f"of {len(done)}",
        ),
        Figure(
            figure="explained by chance alone, where any published cost would be: the interval of "
            "a single run reaches below 0",
            value=sum(fmean(costs_of(kept)) <= reach_of(kept) for kept in by_chance),
            unit=f"of {len(by_chance)}",
        ),
    ]
    if done:
        figures.append(
            at_least(
                figure="within 30 % or lower, or explained by chance",
                value=sum(holds(cell, kept) for cell, kept in done.items()),
                unit=f"of {len(done)}",
                limit=len(done),
            )
        )
    return figures


def read_runs(cell: Cell) -> Sequence[RunOutcome]:
    """Return the runs of a cell that are kept, in the order of seeds."""
    outcome = read_part(part_of(cell), FOLDER)
    return () if outcome is None else outcome.runs


def costs_of(runs: Sequence[RunOutcome]) -> list[float]:
    """Return the average cost of each run."""
    return [run.average_cost for run in runs]


def is_near(cell: Cell, runs: Sequence[RunOutcome]) -> bool:
    """Return whether the mean cost is within 30 % of the published one, or lower."""
    return fmean(costs_of(runs)) <= TOLERANCE * float(cell.cost)


def is_within(cell: Cell, runs: Sequence[RunOutcome]) -> bool:
    """Return whether the mean cost is within 10 % of the published one."""
    return abs(fmean(costs_of(runs)) / float(cell.cost) - 1) <= NEAR


def holds(cell: Cell, runs: Sequence[RunOutcome]) -> bool:
    """Return whether the mean cost is near the published one, or chance explains it."""
    return is_near(cell, runs) or fmean(costs_of(runs)) <= float(cell.cost) + reach_of(runs)


def row_of(cell: Cell, runs: Sequence[RunOutcome]) -> Row:
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
        table=f"Table {cell.setting.table}, deep rows; in parentheses the range over seeds",
        row=f"{cell.row}, {cell.setting.infrastructure}, {cell.setting.types} types",
        beside=" / ".join(published),
        ours=" / ".join(ours),
        holds=holds(cell, runs),
        claim="holds",
        seeds=len(runs),
    )


def reach_of(runs: Sequence[RunOutcome]) -> float:
    """Return how far a single run may lie from our mean, in 95 of 100 cases, by Student's t."""
    costs = costs_of(runs)
    quantile = float(stats.t.ppf(0.975, len(costs) - 1))
    return quantile * stdev(costs) * math.sqrt(1 + 1 / len(costs))


def deep_cells(tables: Sequence[int] = TABLES) -> list[Cell]:
    """Return the published cells of the deep policies in these tables, in this order."""
    cells = [cell for cell in read_cells() if cell.policy in DEEP]
    return [cell for table in tables for cell in cells if cell.setting.table == table]


def list_batches() -> list[list[Part]]:
    """Return what is computed together: a policy on A and on B, with so many node types."""
    batches: dict[tuple[bool, int, int, str], list[Part]] = {}
    for cell in deep_cells():
        table, types = cell.setting.table, cell.setting.types
        key = (table == LAST_TABLE, types, TABLES.index(table), cell.policy)
        batches.setdefault(key, []).append(part_of(cell))
    return [batches[key] for key in sorted(batches)]


def part_of(cell: Cell) -> Part:
    """Return what to run for a cell, as the program behind the tables did it."""
    return Part(
        name=f"{name_of(cell.setting)}-{cell.policy}",
        policy=cell.policy,
        parameters={"published": 1},
        experiment=describe_for(cell.policy, cell.setting),
        seeds=SEEDS,
    )


def name_of(setting: Setting) -> str:
    """Return a setting as part of a file's name, such as `table2-A3`."""
    return f"table{setting.table}-{setting.infrastructure}{setting.types}"
