"""The planner against policies that others have published since 2017, in the simulator.

`dhalion` (VLDB 2017), `conttune` (VLDB 2023) and `daedalus` (ICPE 2024), each with its published
or default settings, which were chosen on nothing here. Two kinds of cases:

- the 12 settings of tables 2 and 4 of the 2023 paper, those with at most 10 replicas: the exact
  model, jumps allowed, steady states, and a clairvoyant optimum that is known;
- the judged cases of `first-hours`: jobs that nobody has seen, where changes take time.

None of them knows response times, prices or node types. They keep the mix that they start with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate

ABOUT = "the planner against Dhalion, ContTune and Daedalus, simulated"
DURATION = "12 min"

RIVALS = ("dhalion", "daedalus", "conttune")
SEEDS = range(1, 4)
"""Of the cases of `first-hours`; the settings of the paper have nothing that is drawn."""
MAX_REPLICAS = 10
"""Of the settings of the paper: with those of 20 as well, it would take twice as long."""
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
class Group:
    """Cases that are summed up together."""

    name: str
    outcomes: Mapping[tuple[str, str], Outcome]
    """By the case's name and the policy."""
    limits: Mapping[str, float]
    """Clairvoyant optimum by the case's name, per slot; empty where it is not known."""

    @property
    def cases(self) -> list[str]:
        """The cases' names, in order."""
        return list(dict.fromkeys(case for case, _ in self.outcomes))

    def of(self, policy: str) -> list[Outcome]:
        """Return what a policy came to in each case."""
        return [self.outcomes[case, policy] for case in self.cases]


def run() -> list[Figure]:
    """Run all cases with all policies, and compare."""
    groups = [*_run_settings(), *_run_first_hours()]
    return [
        *(figure for group in groups for figure in _compare(group)),
        *(figure for group in groups for figure in _sum_up(group)),
        *(figure for group in groups for figure in _list_wins(group)),
    ]


def _run_settings() -> Iterator[Group]:
    for workload in ("taxi", "tweets"):
        chosen = [
            each
            for each in settings()
            if each.workload == workload and each.max_replicas == MAX_REPLICAS
        ]
        outcomes = {
            (str(each), policy): measure([describe_setting(each)], policy)
            for each in track(chosen, description=workload)
            for policy in ("planner", *RIVALS)
        }
        limits = {str(each): least_cost(describe_setting(each)) for each in chosen}
        yield Group(name=workload, outcomes=outcomes, limits=limits)


def _run_first_hours() -> Iterator[Group]:
    cases = list_cases("judged")
    with TemporaryDirectory() as folder:
        for hours in sorted({case.hours for case in cases}):
            chosen = [case for case in cases if case.hours == hours]
            outcomes = {
                (str(case), policy): measure(_describe_seeds(case, Path(folder)), policy)
                for case in track(chosen, description=f"first {hours} h")
                for policy in ("planner", *RIVALS)
            }
            yield Group(name=f"first {hours} h", outcomes=outcomes, limits={})


def _describe_seeds(case: Case, folder: Path) -> list[Experiment]:
    return [describe_case(case, folder, seed) for seed in SEEDS]


def measure(experiments: Sequence[Experiment], policy: str) -> Outcome:
    """Return what a policy comes to in one case, described once for each seed."""
    results = [
        simulate(experiment, seed=seed, policy=policy)
        for seed, experiment in enumerate(experiments, start=1)
    ]
    return Outcome(
        cost=fmean(result.average_cost for result in results),
        violations=fmean(result.violations for result in results),
        restarts=fmean(
            result.reconfigurations / 100 * DAY / experiment.slot
            for result, experiment in zip(results, experiments, strict=True)
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
    for policy in RIVALS:
        for case in group.cases:
            ratio = group.outcomes[case, policy].cost / group.outcomes[case, "planner"].cost
            if ratio < 1:
                yield Figure(figure=f"{policy} / planner in {case}", value=ratio, unit="")
