"""The planner against policies that others have published since 2017, in the simulator.

`dhalion` (VLDB 2017), `conttune` (VLDB 2023), `daedalus` (ICPE 2024) and `justin` (DAIS 2025,
without its choice of memory), each with its published or default settings, which were chosen on
nothing here. They are the package `examples/rivals`, which has to be installed. Three kinds of
cases:

- settings of tables 2 and 4 of the 2023 paper, with 3 node types: the exact model, jumps allowed,
  steady states;
- the cases of `first-hours`, one seed: jobs that nobody has seen, where changes take time;
- those of 24 h once more, with a bound on response times that only an operator exceeds that falls
  behind: the rivals plan for throughput, and none of them knows response times.

They know neither prices nor node types, and keep the mix that they start with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, at_most, count
from benchmarks.papers.taas2023 import describe as describe_setting
from benchmarks.papers.taas2023 import settings
from benchmarks.policies.first_hours import describe as describe_case
from benchmarks.policies.first_hours import list_cases
from benchmarks.policies.planner import geometric_mean
from benchmarks.spawned import map_spawned
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate

ABOUT = "the planner against Dhalion, ContTune, Daedalus and Justin, simulated"
DURATION = "2 min"
DETERMINISTIC = True

RIVALS = ("dhalion", "daedalus", "conttune", "justin")
SEED = 1
"""Of the cases of `first-hours`; the settings of the paper have nothing that is drawn."""
MAX_REPLICAS = 10
"""Of the settings of the paper."""
TYPES = 3
"""Their number of node types. The rivals never leave the first one."""
LOOSE = 5.0
"""Seconds of response time that only an operator exceeds that falls behind: 30 and more times what
an idle dataflow takes."""
GOAL = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A case and a policy."""

    group: str
    case: str
    policy: str
    experiment: Experiment = field(compare=False)


def run() -> list[Figure]:
    """Run all cases with all policies, and compare."""
    chosen = [
        each for each in settings() if each.max_replicas == MAX_REPLICAS and each.types == TYPES
    ]
    with TemporaryDirectory() as folder:
        described = _describe_first_hours(Path(folder))
        for each in chosen:
            described[each.workload, str(each)] = describe_setting(each)
        tasks = [
            Task(group=group, case=case, policy=policy, experiment=experiment)
            for (group, case), experiment in described.items()
            for policy in ("planner", *RIVALS)
        ]
        costs = dict(zip(tasks, map_spawned(measure, tasks), strict=True))
    groups = dict.fromkeys(group for group, _ in described)
    return [figure for group in groups for figure in _compare(group, costs)]


def _describe_first_hours(folder: Path) -> dict[tuple[str, str], Experiment]:
    """Return the cases of `first-hours` by group and name; their traces are written."""
    described = {
        (f"first {case.hours} h", str(case)): describe_case(case, folder, SEED)
        for case in sorted(list_cases(), key=lambda case: case.hours)
    }
    loose = {
        ("loose bound", f"{name}, loose bound"): _loosen(experiment)
        for (group, name), experiment in described.items()
        if group == "first 24 h"
    }
    return described | loose


def _loosen(experiment: Experiment) -> Experiment:
    objective = experiment.objective.model_copy(update={"response_time": LOOSE})
    return experiment.model_copy(update={"objective": objective})


def measure(task: Task) -> float:
    """Return the mean cost per slot of a policy in one case."""
    return simulate(task.experiment, seed=SEED, policy=task.policy).average_cost


def _compare(group: str, costs: Mapping[Task, float]) -> Iterator[Figure]:
    """Yield the goals: the planner's cost divided by each rival's."""
    of_policy = {
        policy: {
            task.case: cost
            for task, cost in costs.items()
            if (task.group, task.policy) == (group, policy)
        }
        for policy in ("planner", *RIVALS)
    }
    for policy in RIVALS:
        ratios = [ours / of_policy[policy][case] for case, ours in of_policy["planner"].items()]
        yield at_most(
            f"{group}: planner / {policy}, geometric mean of {len(ratios)} cases",
            geometric_mean(ratios),
            GOAL,
        )
        yield count(f"{group}: {policy} is cheaper", [ratio > 1 for ratio in ratios], "cases")
