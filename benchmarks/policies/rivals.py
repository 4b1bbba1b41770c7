"""The planner against policies that others have published since 2017, in the simulator.

`dhalion` (VLDB 2017), `conttune` (VLDB 2023), `daedalus` (ICPE 2024) and `justin` (DAIS 2025), each
with its published or default settings, which were chosen on nothing here. Four kinds of cases:

- settings of tables 2 and 4 of the 2023 paper, with 3 node types: the exact model, jumps allowed,
  steady states, and a clairvoyant optimum that is known;
- the judged cases of `first-hours`, one seed: jobs that nobody has seen, where changes take time;
- those of 24 h once more, with a bound on response times that only an operator exceeds that falls
  behind: the rivals plan for throughput, and none of them knows response times;
- those of 24 h in which a change costs most, with one operator that has state and three amounts of
  memory to choose from (`EFFECTS`): `justin`, `ds2`, and `justin` that changes replicas alone, its
  own baseline. `planner` believes what memory does as it believes speeds, with an error of either
  sign for each amount; or, in *memory, guessed*, what the live controller guesses from the misses
  with the first amount, for the whole run. Live, a trial of an amount replaces the guess.

They know neither prices nor node types, and keep the mix that they start with. With memory, all
start with the least: Justin's lowest level is the default amount, and DS2 knows no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from rich.progress import track

from benchmarks.figures import Figure, at_most
from benchmarks.papers.taas2023 import describe as describe_setting
from benchmarks.papers.taas2023 import settings
from benchmarks.policies.clairvoyant import least_cost
from benchmarks.policies.first_hours import Case, list_cases
from benchmarks.policies.first_hours import describe as describe_case
from benchmarks.policies.planner import geometric_mean
from weir_simulator.experiment import Experiment, MemoryEffect
from weir_simulator.run import simulate

ABOUT = "the planner against Dhalion, ContTune, Daedalus and Justin, simulated"
DURATION = "2 min"

RIVALS = ("dhalion", "daedalus", "conttune", "justin")
ALONE = "justin, replicas alone"
MEMORY_RIVALS = ("ds2", ALONE, "justin")
PARAMETERS: Mapping[str, tuple[str, Mapping[str, float]]] = {ALONE: ("justin", {"min_hit_rate": 0})}
"""Policies that do not run with their defaults: the name, and settings."""
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
CORE, GIB = 0.0316, 0.0042
"""Price per hour of a core and of 1 GiB, as in `docs/operating.md`."""
AMOUNTS = {256: 1, 512: 2, 1024: 4}
"""MiB of managed memory of a replica with one core, and GiB that are paid for."""
STATEFUL = {"one": "op", "chain": "count"}
"""The operator with state, by dataflow."""
EFFECTS = {
    # A miss costs much: of a record's work, 60 % with the least memory. Both fall as 1 / memory.
    "misses fall": ((1.0, 0.4), (0.7, 0.2), (0.55, 0.1)),
    # CPU per record and misses with 66, 128 and 246 MiB that `memory` measured on 2026-11-26.
    "measured": ((1.0, 0.333), (0.447, 0.27), (0.428, 0.072)),
    # State far larger than any amount.
    "misses stay": ((1.0, 0.5), (0.98, 0.48), (0.95, 0.45)),
}
"""A record's work, and share of reads that miss the cache, with each amount."""
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
    limits: Mapping[str, float]
    """Clairvoyant optimum by the case's name, per slot; empty where it is not known."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """The policies that `planner` is compared with."""
        return rivals_in(self.name)

    def of(self, policy: str) -> list[Outcome]:
        """Return what a policy came to in each case."""
        return [self.outcomes[case, policy] for case in self.cases]


def run() -> list[Figure]:
    """Run all cases with all policies, and compare."""
    chosen = [
        each for each in settings() if each.max_replicas == MAX_REPLICAS and each.types == TYPES
    ]
    limits = {str(each): least_cost(describe_setting(each)) for each in chosen}
    with TemporaryDirectory() as folder:
        described = _describe_first_hours(Path(folder))
        for each in chosen:
            described[each.workload, str(each)] = [describe_setting(each)]
        groups = _run_all(described, limits)
    return [
        *(figure for group in groups for figure in _compare(group)),
        *(figure for group in groups for figure in _sum_up(group)),
        *(figure for group in groups for figure in _list_wins(group)),
    ]


def rivals_in(group: str) -> tuple[str, ...]:
    """Return the policies that `planner` is compared with in a group."""
    return MEMORY_RIVALS if group.startswith("memory") else RIVALS


def _describe_first_hours(folder: Path) -> dict[tuple[str, str], list[Experiment]]:
    """Return the cases of `first-hours` by group and name; their traces are written."""
    described: dict[tuple[str, str], list[Experiment]] = {}
    for case in sorted(list_cases("judged"), key=_hours_of):
        experiments = [describe_case(case, folder, seed) for seed in SEEDS]
        described[f"first {case.hours} h", str(case)] = experiments
    longest = [key for key in described if key[0] == "first 24 h"]
    for _, name in longest:
        described["loose bound", f"{name}, loose bound"] = [
            _loosen(each) for each in described["first 24 h", name]
        ]
    return described | _describe_memory(folder)


def _describe_memory(folder: Path) -> dict[tuple[str, str], list[Experiment]]:
    """Return the cases with a choice of memory by group and name."""
    described: dict[tuple[str, str], list[Experiment]] = {}
    chosen = [
        case
        for case in list_cases("judged")
        if case.dataflow in STATEFUL and case.world == "state" and case.hours == 24
    ]
    for effect in EFFECTS:
        for case in chosen:
            plain = [describe_case(case, folder, seed) for seed in SEEDS]
            name = f"{case}, {effect}"
            known = [_offer_memory(each, case, effect) for each in plain]
            described[f"memory, {effect}", name] = known
            described["memory, loose bound", f"{name}, loose bound"] = [
                _loosen(each) for each in known
            ]
            described["memory, guessed", f"{name}, guessed"] = [
                each.model_copy(
                    update={"believed": each.believed.model_copy(update={"memory": "guessed"})}
                )
                for each in known
            ]
    return described


def _offer_memory(experiment: Experiment, case: Case, effect: str) -> Experiment:
    """Return a case with one operator that has state, and with three amounts of memory."""
    least = min(AMOUNTS)
    base = CORE + AMOUNTS[least] * GIB
    node_types = [
        {
            "name": f"{managed}",
            "speedup": 1.0,
            "price": (CORE + paid * GIB) / base,
            "memory": managed,
        }
        for managed, paid in AMOUNTS.items()
    ]
    effects = tuple(
        MemoryEffect(managed=managed, work=work, miss_share=missed)
        for managed, (work, missed) in zip(AMOUNTS, EFFECTS[effect], strict=True)
    )
    operators = tuple(
        each.model_copy(update={"memory": effects})
        if each.name == STATEFUL[case.dataflow]
        else each
        for each in experiment.operators
    )
    begun = sum((experiment.initial or {}).values())
    fields = {name: getattr(experiment, name) for name in Experiment.model_fields}
    changes = {
        "operators": operators,
        "node_types": node_types,
        "initial": {f"{least}": begun},
    }
    return Experiment.model_validate(fields | changes, strict=False)


def _hours_of(case: Case) -> int:
    return case.hours


def _loosen(experiment: Experiment) -> Experiment:
    objective = experiment.objective.model_copy(update={"response_time": LOOSE})
    return experiment.model_copy(update={"objective": objective})


def _run_all(
    described: Mapping[tuple[str, str], Sequence[Experiment]], limits: Mapping[str, float]
) -> list[Group]:
    """Run every case with every policy, on all cores; return the cases by group."""
    tasks = [
        Task(group=group, case=case, policy=policy, experiments=experiments)
        for (group, case), experiments in described.items()
        for policy in ("planner", *rivals_in(group))
    ]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        found = list(track(pool.map(measure, tasks), total=len(tasks), description="rivals"))
    groups = []
    for name in dict.fromkeys(task.group for task in tasks):
        outcomes = {
            (task.case, task.policy): outcome
            for task, outcome in zip(tasks, found, strict=True)
            if task.group == name
        }
        cases = list(dict.fromkeys(case for case, _ in outcomes))
        known = {case: limits[case] for case in cases if case in limits}
        groups.append(Group(name=name, cases=cases, outcomes=outcomes, limits=known))
    return groups


def measure(task: Task) -> Outcome:
    """Return what a policy comes to in one case."""
    policy, parameters = PARAMETERS.get(task.policy, (task.policy, {}))
    results = [
        simulate(experiment, seed=seed, policy=policy, parameters=parameters)
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
    for policy in group.rivals:
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
    for policy in ("planner", *group.rivals):
        found = group.of(policy)
        reference = "clairvoyant" if group.limits else "planner"
        divisors = group.limits or {
            case: group.outcomes[case, "planner"].cost for case in group.cases
        }
        yield Figure(
            figure=f"{group.name}: cost of {policy} / {reference}",
            value=geometric_mean(
                [group.outcomes[case, policy].cost / divisors[case] for case in group.cases]
            ),
            unit="",
        )
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


def _list_wins(group: Group) -> Iterator[Figure]:
    """Yield the cases in which a rival is cheaper."""
    for policy in group.rivals:
        for case in group.cases:
            ratio = group.outcomes[case, policy].cost / group.outcomes[case, "planner"].cost
            if ratio < 1:
                yield Figure(figure=f"{policy} / planner in {case}", value=ratio, unit="")
