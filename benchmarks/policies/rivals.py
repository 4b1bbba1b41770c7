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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, at_most
from benchmarks.papers.taas2023 import describe as describe_setting
from benchmarks.papers.taas2023 import settings
from benchmarks.policies.first_hours import Case, list_cases
from benchmarks.policies.first_hours import describe as describe_case
from benchmarks.policies.planner import geometric_mean
from benchmarks.spawned import map_spawned
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate

ABOUT = "the planner against Dhalion, ContTune, Daedalus and Justin, simulated"
DURATION = "2 min"

RIVALS = ("dhalion", "daedalus", "conttune", "justin")
SEEDS = (1,)
"""Of the cases of `first-hours`; the settings of the paper have nothing that is drawn."""
MAX_REPLICAS = 10
"""Of the settings of the paper."""
TYPES = 3
"""Their number of node types. The rivals never leave the first one."""
LOOSE = 5.0
"""Seconds of response time that only an operator exceeds that falls behind: 30 and more times what
an idle dataflow takes."""
DAY = 86_400
"""Seconds."""
GOAL = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a policy came to in a case, mean over seeds."""

    cost: float
    """Per slot."""
    violations: float
    """Percent of slots."""
    restarts: float
    """Per day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A case, described once for each seed, and a policy."""

    group: str
    case: str
    policy: str
    experiments: Sequence[Experiment]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Cases that are summed up together."""

    name: str
    cases: Sequence[str]
    outcomes: Mapping[tuple[str, str], Outcome]
    """By the case's name and the policy."""

    def of(self, policy: str) -> list[Outcome]:
        """Return what a policy came to in each case."""
        return [self.outcomes[case, policy] for case in self.cases]


def run() -> list[Figure]:
    """Run all cases with all policies, and compare."""
    chosen = [
        each for each in settings() if each.max_replicas == MAX_REPLICAS and each.types == TYPES
    ]
    with TemporaryDirectory() as folder:
        described = _describe_first_hours(Path(folder))
        for each in chosen:
            described[each.workload, str(each)] = [describe_setting(each)]
        groups = _run_all(described)
    return [
        *(figure for group in groups for figure in _compare(group)),
        *(figure for group in groups for figure in _sum_up(group)),
    ]


def _describe_first_hours(folder: Path) -> dict[tuple[str, str], list[Experiment]]:
    """Return the cases of `first-hours` by group and name; their traces are written."""
    described: dict[tuple[str, str], list[Experiment]] = {}
    for case in sorted(list_cases(), key=_hours_of):
        experiments = [describe_case(case, folder, seed) for seed in SEEDS]
        described[f"first {case.hours} h", str(case)] = experiments
    longest = [key for key in described if key[0] == "first 24 h"]
    for _, name in longest:
        described["loose bound", f"{name}, loose bound"] = [
            _loosen(each) for each in described["first 24 h", name]
        ]
    return described


def _hours_of(case: Case) -> int:
    return case.hours


def _loosen(experiment: Experiment) -> Experiment:
    objective = experiment.objective.model_copy(update={"response_time": LOOSE})
    return experiment.model_copy(update={"objective": objective})


def _run_all(
    described: Mapping[tuple[str, str], Sequence[Experiment]],
) -> list[Group]:
    """Run every case with every policy, on all cores; return the cases by group."""
    tasks = [
        Task(group=group, case=case, policy=policy, experiments=experiments)
        for (group, case), experiments in described.items()
        for policy in ("planner", *RIVALS)
    ]
    found = list(map_spawned(measure, tasks))
    groups = []
    for name in dict.fromkeys(task.group for task in tasks):
        outcomes = {
            (task.case, task.policy): outcome
            for task, outcome in zip(tasks, found, strict=True)
            if task.group == name
        }
        cases = list(dict.fromkeys(case for case, _ in outcomes))
        groups.append(Group(name=name, cases=cases, outcomes=outcomes))
    return groups


def measure(task: Task) -> Outcome:
    """Return what a policy comes to in one case."""
    results = [
        simulate(experiment, seed=seed, policy=task.policy)
        for seed, experiment in zip(SEEDS, task.experiments, strict=False)
    ]
    return Outcome(
        cost=fmean(result.average_cost for result in results),
        violations=fmean(result.violations for result in results),
        restarts=fmean(
            result.reconfigurations / 100 * DAY / experiment.slot
            for result, experiment in zip(results, task.experiments, strict=True)
        ),
    )


def _compare(group: Group) -> Iterator[Figure]:
    """Yield the goals: the planner's cost divided by each rival's."""
    ours = group.of("planner")
    for policy in RIVALS:
        ratios = [one.cost / other.cost for one, other in zip(ours, group.of(policy), strict=True)]
        yield at_most(
            figure=f"{group.name}: planner / {policy}, geometric mean of {len(ratios)} cases",
            value=geometric_mean(ratios),
            unit="",
            limit=GOAL,
        )
        yield Figure(
            figure=f"{group.name}: {policy} is cheaper",
            value=sum(ratio > 1 for ratio in ratios),
            unit=f"of {len(ratios)} cases",
        )


def _sum_up(group: Group) -> Iterator[Figure]:
    """Yield what each policy came to in the group."""
    for policy in ("planner", *RIVALS):
        found = group.of(policy)
        yield Figure(
            figure=f"{group.name}: violations with {policy}",
            value=fmean(each.violations for each in found),
            unit="%",
        )
        yield Figure(
            figure=f"{group.name}: restarts with {policy}",
            value=fmean(each.restarts for each in found),
            unit="a day",
        )
