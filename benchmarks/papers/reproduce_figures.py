"""Figures 16 and 23 to 25 of the 2023 paper, as far as they can be known.

The paper's pictures cannot be read as numbers. Figures 16, 24 and 25 are held against the program
behind the paper, run again by others, who did not publish the rerun: equal, within 10 %, or
neither. Those but of Heinze, QL and QL+FA must be equal. Figure 23 is the cost so far over time;
`reproduce-deep` draws its deep half. The pictures go to `docs/pictures`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.figures import EQUAL, Figure, Row, count_all, count_matches, match_numbers
from benchmarks.papers.reproduce_tables import PUBLISHED, QUIRKS
from benchmarks.papers.taas2023 import (
    FOLDER,
    TAXI_SLOTS,
    TYPES,
    Setting,
    describe,
    describe_with_java_errors,
    speedups_of,
    trace_file,
)
from benchmarks.pictures import Axes, draw_bars, draw_lines
from benchmarks.results import BUILD
from benchmarks.spawned import map_spawned
from weir_simulator.experiment import Experiment
from weir_simulator.result import Result
from weir_simulator.run import simulate
from weir_simulator.traces import read_trace, write_trace

ABOUT = "figures 16 and 23-25 of the 2023 paper, with pictures"
DURATION = "4 min"
DETERMINISTIC = True

A3 = Setting("taxi", 10, "A", 3)
BASELINES = (
    "heinze-cheapest", "heinze-fastest", "lohrmann-cheapest", "lohrmann-fastest", "lohrmann-first",
    "drs-cheapest", "drs-fastest", "drs-first", "threshold-cheapest", "threshold-fastest",
    "ql-pds", "ql-pds-plus",
)  # fmt: skip
OVER_TIME = (
    "threshold-cheapest", "threshold-fastest", "ql", "ql-pds", "ql-pds-plus", "ql-fa",
    "value-iteration", "planner",
)  # fmt: skip
JAVA_SEED = 3842091
"""Of the model errors of QL+PDS+ in the reruns of figures 16, 24 and 25."""
CHANGE_AT = 200_000
DOUBLED_FROM = 262_500
"""Slot of the trace from which its rates are doubled in figure 24."""
UNSURE = ("heinze", "ql, ", "ql-fa")
"""Beginnings of rows that need not be equal: Heinze's table is chaotic (one update a slot earlier
or later changes the digits), the others draw."""
RERUN = "a rerun by others, unpublished"
ADAPTS = {("25", "threshold-cheapest"): " (ours goes by the new prices, theirs by the first)"}
"""Where ours is another rule than theirs, and why."""

Job = tuple[str, Experiment]


def run() -> list[Figure | Row]:
    """Make the pictures, compare the rows, count what holds."""
    figures = [*draw_convergence()]
    rows = [*compare_baselines(), *compare_changes()]
    for table in dict.fromkeys(row.table for row in rows):
        figures += count_table(
            table, [row for row in rows if row.table == table and row.match is not None]
        )
    return [*figures, *rows]


def count_table(table: str, rows: Sequence[Row]) -> list[Figure]:
    """Return how many rows of a table match, and whether those do that must be equal."""
    sure = [row for row in rows if row.row != "ql" and not row.row.startswith(UNSURE)]
    return [
        count_all(
            f"{table}: equal to the rerun, of the rows without Heinze, QL and QL+FA",
            [row.match == EQUAL for row in sure],
        ),
        *count_matches(rows, f"{table}, all rows"),
    ]


def compare_baselines() -> list[Row]:
    """Figure 16: the average cost of the baselines, held against the reference's reruns."""
    with (FOLDER / "published" / "taas2023_baselines.csv").open(newline="") as file:
        reruns = list(csv.DictReader(file))
    jobs = [
        (row["policy"], _baseline(row["policy"], row["infrastructure"], int(row["types"])))
        for row in reruns
    ]
    results = run_all(jobs, "Figure 16")
    rows = [
        Row(
            "Figure 16",
            f"{rerun['policy']}, {rerun['infrastructure']}, {rerun['types']} types",
            rerun["cost"],
            f"{result.average_cost:.4f}",
            beside_what=RERUN,
            claim="match",
            match=_match(result.average_cost, rerun["cost"]),
        )
        for rerun, result in zip(reruns, results, strict=True)
    ]
    cost = {
        (rerun["policy"], rerun["infrastructure"], rerun["types"]): result.average_cost
        for rerun, result in zip(reruns, results, strict=True)
    }
    for infrastructure in ("A", "B", "B2"):
        draw_bars(
            f"figure-16-{infrastructure.lower()}",
            [f"{types} types" for types in TYPES],
            {
                policy: [cost[policy, infrastructure, str(types)] for types in TYPES]
                for policy in BASELINES
            },
            Axes(
                f"Baselines, infrastructure {infrastructure} (taxi, 10 replicas)",
                "",
                "average cost",
            ),
        )
    return rows


def _match(ours: float, theirs: str) -> str:
    digits = min(len(theirs.partition(".")[2]), 4)
    return match_numbers(
        ours, float(theirs), equal=round(ours, digits) == round(float(theirs), digits)
    )


def _baseline(policy: str, infrastructure: str, types: int) -> Experiment:
    # Figure 16 has the list of table 1 for ten types as well; threshold begins with its own type.
    setting = Setting("taxi", 10, infrastructure, types)  # type: ignore[arg-type]
    if infrastructure == "B" and types == 10:
        return _with_printed_list(policy)
    return _begin_as_rerun(policy, setting)


def _begin_as_rerun(policy: str, setting: Setting) -> Experiment:
    if policy == "ql-pds-plus":
        return describe_with_java_errors(setting, JAVA_SEED)
    speedups = speedups_of(setting)
    first = {
        "threshold-cheapest": speedups.index(min(speedups)),
        "threshold-fastest": speedups.index(max(speedups)),
    }.get(policy, 0)
    return describe(setting, first_type=first)


def _with_printed_list(policy: str) -> Experiment:
    """Return infrastructure B with ten types as printed; B2 has the same speedups."""
    experiment = _begin_as_rerun(policy, Setting("taxi", 10, "B2", 10))
    types = tuple(each.model_copy(update={"price": each.speedup}) for each in experiment.node_types)
    return experiment.model_copy(update={"node_types": types})


def compare_changes() -> list[Row]:
    """Figures 24 and 25: a workload that doubles, prices that rise a hundredfold."""
    rates = read_trace(trace_file("taxi"))
    doubled = np.concatenate([rates[:CHANGE_AT], 2 * rates[DOUBLED_FROM:]])
    path = BUILD / "reproduce-figures" / "taxi-doubled.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_trace(path, doubled)
    trace = {"file": str(path), "slots": TAXI_SLOTS}
    dearer = {"changes": [{"slot": CHANGE_AT, "prices": {"t1": 100, "t2": 100}}]}
    with (FOLDER / "published" / "taas2023_changes.csv").open(newline="") as file:
        reruns = list(csv.DictReader(file))
    jobs = [
        (row["policy"], _changing(row["policy"], trace=trace))
        if row["figure"] == "24"
        else (row["policy"], _changing(row["policy"], world=dearer))
        for row in reruns
    ]
    results = run_all(jobs, "Figures 24, 25")
    titles = {
        "24": "The workload doubles at slot 200,000",
        "25": "All prices but one rise a hundredfold at slot 200,000",
    }
    for number, title in titles.items():
        draw_lines(
            f"figure-{number}",
            {
                rerun["policy"]: (result.curve_slots, result.curve)
                for rerun, result in zip(reruns, results, strict=True)
                if rerun["figure"] == number
            },
            Axes(title, "slot", "mean cost so far", log_across=True, log_up=True),
        )
    return [
        Row(
            f"Figure {rerun['figure']}",
            rerun["policy"] + ADAPTS.get((rerun["figure"], rerun["policy"]), ""),
            f"{float(rerun['cost']):.4f}",
            f"{result.average_cost:.4f}",
            beside_what=RERUN,
            claim="match",
            match=_match(result.average_cost, rerun["cost"]),
        )
        for rerun, result in zip(reruns, results, strict=True)
    ]


def _changing(policy: str, **sections: Any) -> Experiment:
    if policy == "ql-pds-plus":
        believed = describe_with_java_errors(A3, JAVA_SEED).believed
        return describe(A3, believed=believed, **sections)
    first = {"threshold-cheapest": 1, "threshold-fastest": 2}.get(policy, 0)
    if policy == "value-iteration":
        sections["training"] = {"file": str(trace_file("taxi-last-month"))}
    return describe(A3, first_type=first, **sections)


def draw_convergence() -> Iterator[Figure]:
    """Figure 23: the mean cost so far, three types, ten replicas, and where it ends."""
    jobs = [(policy, _changing(policy)) for policy in OVER_TIME]
    results = run_all(jobs, "Figure 23")
    curves = {
        policy: (each.curve_slots, each.curve)
        for policy, each in zip(OVER_TIME, results, strict=True)
    }
    draw_lines(
        "figure-23",
        curves,
        Axes(
            "Mean cost so far (taxi, infrastructure A, 3 types, 10 replicas)",
            "slot",
            "mean cost so far",
            log_across=True,
            log_up=True,
        ),
    )
    for policy, result in zip(OVER_TIME, results, strict=True):
        yield Figure(f"Figure 23: mean cost at the end, {policy}", result.average_cost)


def run_all(jobs: Sequence[Job], label: str) -> list[Result]:
    """Run the jobs on all cores, in order."""
    return list(map_spawned(_run_one, jobs, label=label))


def _run_one(job: Job) -> Result:
    policy, experiment = job
    return simulate(experiment, seed=1, policy=policy, parameters=_parameters(policy))


def _parameters(policy: str) -> dict[str, Any]:
    quirky = policy in QUIRKS or policy.startswith(("heinze", "drs"))
    return dict(PUBLISHED) if quirky else {}
