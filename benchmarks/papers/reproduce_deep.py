"""The deep rows of Tables 2 to 5 of the 2023 paper, 72 cells, resumed cell by cell.

The runs of a cell, one for each of ten seeds, are kept in `build/benchmarks/reproduce-deep/`. An
interrupted run tells of the cells that it has, and the next one goes on where it was.

A cell holds when its mean cost is within 30 % of the published one, or lower. Where it does not,
chance explains it if the published cost lies where a single run of ours may lie. Costs of single
runs differ by a factor of ten and more, because a network settles early on one deployment or
another, and the published means seem to be of one network each: the program behind them falls back
to one and the same seed for weights and replay where the configured one is no integer, as in its
files (`1234L`), and the greedy policies draw nothing else.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, Tables 2 to 5.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from benchmarks.figures import Figure, Row, at_least
from benchmarks.papers.taas2023 import Cell, Setting, describe_for, read_cells
from benchmarks.results import BUILD
from benchmarks.spawned import map_spawned
from weir_simulator.whole_files import write_whole

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
PARAMETERS = {"published": 1}
"""As the program behind the tables did it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOutcome:
    seed: int
    average_cost: float
    violations: float
    """Percent of slots."""
    reconfigurations: float
    """Percent of slots."""
    resources: float


def run() -> list[Figure | Row]:
    """Run what is missing and compare every cell; on Ctrl-C, those that there are."""
    cells = deep_cells()
    with suppress(KeyboardInterrupt):  # what was run is kept
        for _ in map_spawned(run_batch, list_batches()):
            pass
    runs = {cell: read_runs(cell) for cell in cells}
    done = {cell: kept for cell, kept in runs.items() if kept}
    return [*judge(runs), *(row_of(cell, kept) for cell, kept in done.items())]


def judge(runs: Mapping[Cell, Sequence[RunOutcome]]) -> list[Figure]:
    """Return how many cells were run, and how many of those hold."""
    done = {cell: kept for cell, kept in runs.items() if kept}
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


def costs_of(runs: Sequence[RunOutcome]) -> list[float]:
    """Return the average cost of each run."""
    return [run.average_cost for run in runs]


def is_near(cell: Cell, runs: Sequence[RunOutcome]) -> bool:
    """Return whether the mean cost is within 30 % of the published one, or lower."""
    return fmean(costs_of(runs)) <= TOLERANCE * float(cell.cost)


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


def list_batches() -> list[list[Cell]]:
    """Return what is missing by what runs together: a policy on A and B, so many node types."""
    batches: dict[tuple[bool, int, int, str], list[Cell]] = {}
    for cell in deep_cells():
        if not read_runs(cell):
            table, types = cell.setting.table, cell.setting.types
            key = (table == LAST_TABLE, types, TABLES.index(table), cell.policy)
            batches.setdefault(key, []).append(cell)
    return [batches[key] for key in sorted(batches)]


def run_batch(cells: Sequence[Cell]) -> None:
    """Run cells of one policy and one shape together, in this process, and keep their runs."""
    from weir_simulator.deep import simulate_deep  # here, so that listing benchmarks stays quick

    results = iter(
        simulate_deep(
            [(describe_for(cell.policy, cell.setting), seed) for cell in cells for seed in SEEDS],
            policy=cells[0].policy,
            parameters=PARAMETERS,
        )
    )
    for cell in cells:
        runs = [
            RunOutcome(
                seed=each.seed,
                average_cost=each.average_cost,
                violations=each.violations,
                reconfigurations=each.reconfigurations,
                resources=each.resources,
            )
            for each in islice(results, len(SEEDS))
        ]
        write_runs(cell, runs)


def read_runs(cell: Cell) -> Sequence[RunOutcome]:
    """Return the kept runs of a cell, in the order of seeds; none if they had other settings."""
    path = path_of(cell)
    if not path.exists():
        return ()
    kept = json.loads(path.read_text())
    if kept["settings"] != settings_of(cell):
        return ()
    return [RunOutcome(**run) for run in kept["runs"]]


def write_runs(cell: Cell, runs: Sequence[RunOutcome]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = {"settings": settings_of(cell), "runs": [asdict(run) for run in runs]}
    write_whole(path_of(cell), json.dumps(kept))


def settings_of(cell: Cell) -> dict[str, Any]:
    """Return what the runs depend on, as JSON values; the trace by its name alone."""
    experiment = describe_for(cell.policy, cell.setting)
    described = experiment.model_dump(mode="json", exclude_defaults=True)
    described["trace"]["file"] = Path(described["trace"]["file"]).name
    return {
        "policy": cell.policy,
        "parameters": PARAMETERS,
        "experiment": described,
        "seeds": list(SEEDS),
    }


def path_of(cell: Cell) -> Path:
    return FOLDER / f"{name_of(cell.setting)}-{cell.policy}.json"


def name_of(setting: Setting) -> str:
    """Return a setting as part of a file's name, such as `table2-A3`."""
    return f"table{setting.table}-{setting.infrastructure}{setting.types}"
