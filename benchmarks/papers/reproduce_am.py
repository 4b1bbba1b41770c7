"""Figures 20 to 22: what the Application Manager saves by budgets, by weights, and by both.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.3. As there, a search has 25
evaluations beside the naive start, each a simulation of 50,001 slots; Algorithm 4 has four such
phases, ours, the joint search, half as many evaluations as Algorithm 4. Its figures print no
numbers; what is published are the claims: savings in all settings, the constraints of Figure 21
kept in 96 % of the settings (42 % by the naive baseline). Over which slots the paper judges it does
not say.

Here each search is repeated with several seeds. It tunes on the first slots of the taxi trace and
takes the best that it saw there. That is judged on another stretch, by which nothing was chosen;
the naive point, the first that a search evaluates, is simulated beside it. A policy begins each
stretch untrained. The year as a whole was known when the joint search was made.

With budgets alone (Figure 20) fewer settings saved on that stretch than the paper says. A short
simulation is mostly learning; so the tuning stretch was replayed until it is as long as the
stretch that judges, and what is found so is judged on a third stretch, by which nothing was chosen.

The naive rows are compared with a run of the program behind the paper. Which allowed shares the
figures sweep is not in our text: 2, 5 and 10 % of violations, 5 and 10 % of reconfigurations are
ours.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np

from benchmarks.figures import Figure, Row, at_least, count, count_all, count_matches, match_numbers
from benchmarks.papers.applications import EQUAL, GIVEN, Application, applications, describe
from benchmarks.papers.taas2023 import FOLDER, trace_file
from benchmarks.results import BUILD
from benchmarks.spawned import map_spawned
from weir_policies.application_manager.search.protocol import Algorithm, Limits, TrialOutcome, rank
from weir_policies.policy import Tuning
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate
from weir_simulator.traces import Trace, read_trace, write_trace
from weir_simulator.tuning.evaluation import SimulationRun, evaluate
from weir_simulator.tuning.order import Constraints, TuningRequest, TuningResult
from weir_simulator.tuning.tune import naive_tuning, tune

ABOUT = "the paper's Application Manager: naive rows, and Figures 20, 21 and 22"
DURATION = "90 min"

SEEDS = tuple(range(1, 11))
TUNED_ON = (0, 50_001)
"""First slot and number of slots."""
JUDGED_ON = (50_001, 237_766)
"""The first half of the rest of the trace."""
FRESH = (287_767, 237_766)
"""The second half, for what was changed after a look at the first."""
REPLAYS = 5
"""How often the tuning stretch follows itself, so that it is as long as the judging one."""
VIOLATIONS = (0.02, 0.05, 0.10)
RECONFIGURATIONS = (0.05, 0.10)
PHASE = 26
"""The naive point and the paper's 25 evaluations."""
WHOLE = 100
"""Evaluations of Algorithm 4: two rounds. Ours gets half of them."""
PAPER_KEEPS = 96
"""Percent of Figure 21's settings in which the paper's Application Manager keeps its limits."""
PAPER_LIMITS = Limits(violations=0.05, reconfigurations=0.10)
"""The paper's, where it says no others; Figure 20 was searched without that on reconfigurations."""
REPLAYED = "Figure 20, replayed"
REPLAYED_FILE = BUILD / "reproduce-am" / "replayed.txt"
"""The tuning stretch that follows itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    figure: str
    application: Application
    algorithm: Algorithm
    violations: float
    reconfigurations: float

    @property
    def limits(self) -> Limits:
        """What a solution must keep."""
        return Limits(violations=self.violations, reconfigurations=self.reconfigurations)

    @property
    def weights(self) -> dict[str, float]:
        """The naive point's: Figure 20 is about budgets at the other experiments' weights."""
        return GIVEN if self.figure.startswith("Figure 20") else EQUAL

    @property
    def replays(self) -> int:
        """How often the tuning stretch follows itself."""
        return REPLAYS if self.figure == REPLAYED else 1

    @property
    def judged_on(self) -> tuple[int, int]:
        return FRESH if self.figure == REPLAYED else JUDGED_ON

    def __str__(self) -> str:
        """Return a name such as `A, N=3, 40 ms, 5 % / 10 %, weights`."""
        limits = f"{100 * self.violations:g} % / {100 * self.reconfigurations:g} %"
        return f"{self.application}, {limits}, {self.algorithm}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What searches found for a case, and the naive point, on slots that no search has seen."""

    case: Case
    ours: tuple[TrialOutcome, ...]
    """Of the point that each seed's search found."""
    naive: TrialOutcome

    @property
    def savings(self) -> list[float]:
        """What each seed's point costs less than the naive one, percent of it."""
        return [100 * (1 - each.money / self.naive.money) for each in self.ours]

    @property
    def saves(self) -> bool:
        """Whether it costs less with every seed."""
        return min(self.savings) > 0

    @property
    def keeps(self) -> list[bool]:
        """Whether each seed's point is within the case's limits."""
        return [each.keeps(self.case.limits) for each in self.ours]

    @property
    def naive_keeps(self) -> bool:
        return self.naive.keeps(self.case.limits)


def run() -> list[Figure | Row]:
    """Make all naive rows and all figures."""
    naive = list(naive_rows())
    judged = judge_all(list(cases()))
    names = dict.fromkeys(each.case.figure for each in judged)
    return [
        *count_matches(naive, "naive rows, money against that of a rerun by others"),
        *itertools.chain.from_iterable(
            summarise(name, [each for each in judged if each.case.figure == name]) for name in names
        ),
        *naive,
        *map(describe_judged, judged),
    ]


def summarise(name: str, judged: Sequence[Judged]) -> list[Figure]:
    """Return the figures of one of the paper's figures."""
    runs = [saving for each in judged for saving in each.savings]
    fair = [saving for each in judged if each.naive_keeps for saving in each.savings]
    figures = [
        count_all(
            f"{name}: settings that cost less than naive with every seed",
            [each.saves for each in judged],
        ),
        count(
            f"{name}: settings that cost less in the mean over seeds",
            [fmean(each.savings) > 0 for each in judged],
        ),
        count(f"{name}: runs that cost less than naive", [saving > 0 for saving in runs]),
        count(
            f"{name}: the same where naive keeps the constraints", [saving > 0 for saving in fair]
        ),
        Figure(f"{name}: saving of a run, least", min(runs), "%"),
        Figure(f"{name}: saving of a run, mean", fmean(runs), "%"),
        Figure(f"{name}: saving of a run, greatest", max(runs), "%"),
    ]
    if name.startswith("Figure 20"):
        return [*figures, *_count_within_paper_limits(name, judged)]
    if name == "Figure 21":
        kept = at_least(
            f"{name}: settings that keep the constraints with every seed, "
            f"the paper's {PAPER_KEEPS} %",
            _share([all(each.keeps) for each in judged]),
            PAPER_KEEPS,
            "%",
        )
    else:
        kept = at_least(
            f"{name}: runs that keep the constraints",
            _share([kept for each in judged for kept in each.keeps]),
            100,
            "%",
        )
    return [
        *figures,
        kept,
        count(f"{name}: settings in which naive keeps them", [each.naive_keeps for each in judged]),
    ]


def _count_within_paper_limits(name: str, judged: Sequence[Judged]) -> Iterator[Figure]:
    """Yield what of Figure 20 keeps the paper's limits, though it was not searched with them."""
    runs = [each for case in judged for each in case.ours]
    fair = [case for case in judged if case.naive.keeps(PAPER_LIMITS)]
    savings = [saving for case in fair for saving in case.savings]
    limits = "the paper's 5 and 10 %"
    yield Figure(f"{name}: settings in which naive keeps {limits}", len(fair), f"of {len(judged)}")
    yield count(f"{name}: runs that keep {limits}", [each.keeps(PAPER_LIMITS) for each in runs])
    yield count(
        f"{name}: runs that cost less than naive where naive keeps {limits}",
        [saving > 0 for saving in savings],
    )


def cases() -> Iterator[Case]:
    """Yield every tuning: Figure 20 at both bounds, the others at 40 ms."""
    for figure in ("Figure 20", REPLAYED):
        for application in applications():
            yield Case(
                figure=figure, application=application, algorithm="budgets",
                violations=0.05, reconfigurations=1.0,
            )  # fmt: skip
    for application in applications(milliseconds=(40,)):
        for violations, reconfigurations in itertools.product(VIOLATIONS, RECONFIGURATIONS):
            yield Case(
                figure="Figure 21", application=application, algorithm="weights",
                violations=violations, reconfigurations=reconfigurations,
            )  # fmt: skip
    kinds: tuple[tuple[str, Algorithm], ...] = (
        ("Figure 22, Algorithm 4", "alternating"),
        ("Figure 22, joint", "joint"),
    )
    for figure, algorithm in kinds:
        for application in applications(milliseconds=(40,)):
            for violations in VIOLATIONS:
                yield Case(
                    figure=figure, application=application, algorithm=algorithm,
                    violations=violations, reconfigurations=0.10,
                )  # fmt: skip


def judge_all(planned: Sequence[Case]) -> list[Judged]:
    """Search for every case with every seed, and judge what was found."""
    write_replayed()
    searches = list(itertools.product(planned, SEEDS))
    points = dict(zip(searches, map_spawned(find_point, searches, label="Searches"), strict=True))
    found = [(case, [points[case, seed] for seed in SEEDS]) for case in planned]
    return list(map_spawned(judge_case, found, label="Cases"))


def find_point(job: tuple[Case, int]) -> Tuning:
    """Tune a case with a seed on the tuning stretch alone; return the best that was seen there."""
    case, seed = job
    best = min(
        (each for each in search(case, seed).evaluations if each.fidelity == 1),
        key=lambda each: rank(each.outcome, case.limits),
    )
    return best.point


def search(case: Case, seed: int) -> TuningResult:
    """Return everything that a search on the tuning stretch came to."""
    experiment = describe(case.application, weights=case.weights)
    if case.replays > 1:
        source = experiment.trace.model_copy(update={"file": REPLAYED_FILE})
        experiment = experiment.model_copy(update={"trace": source})
    return tune(
        TuningRequest(
            experiment=experiment,
            constraints=Constraints(
                max_violations=case.violations, max_reconfigurations=case.reconfigurations
            ),
            algorithm=case.algorithm,
            evaluations={"alternating": WHOLE, "joint": WHOLE // 2}.get(case.algorithm, PHASE),
            slots=case.replays * TUNED_ON[1],
            seed=seed,
            workers=1,
            judging_seeds=1,  # its own judgement, on the tuning stretch, is not used
            shortlist=1,
            incumbent=begin_naively(experiment),
        )
    )


def begin_naively(experiment: Experiment) -> Tuning:
    """Return the naive point: equal quotas along the longest path, and the case's weights."""
    return replace(naive_tuning(experiment), weights=experiment.weights)


def write_replayed() -> None:
    """Write the tuning stretch, again and again, as a trace."""
    begin, slots = TUNED_ON
    stretch = read_trace(trace_file("taxi"))[begin : begin + slots]
    REPLAYED_FILE.parent.mkdir(parents=True, exist_ok=True)
    write_trace(REPLAYED_FILE, np.tile(stretch, REPLAYS))


def judge_case(job: tuple[Case, Sequence[Tuning]]) -> Judged:
    """Simulate the points of a case and the naive one on what no search has seen."""
    case, points = job
    return Judged(
        case=case,
        ours=tuple(evaluate_on(case, point, case.judged_on) for point in points),
        naive=evaluate_naively(case, case.judged_on),
    )


def evaluate_on(case: Case, point: Tuning, stretch: tuple[int, int]) -> TrialOutcome:
    """Return what comes of a point on a stretch, the policy untrained at its beginning."""
    begin, slots = stretch
    experiment = describe(case.application, weights=case.weights)
    rates = whole_trace()[begin : begin + slots]
    return evaluate(experiment, rates, SimulationRun(point=point, slots=slots, seed=1)).outcome


_naive: dict[tuple[Application, bool, tuple[int, int]], TrialOutcome] = {}
"""Of the naive points, which many cases share."""


def evaluate_naively(case: Case, stretch: tuple[int, int]) -> TrialOutcome:
    """Return what comes of the naive point on a stretch."""
    key = case.application, case.weights is GIVEN, stretch
    if key not in _naive:
        experiment = describe(case.application, weights=case.weights)
        _naive[key] = evaluate_on(case, begin_naively(experiment), stretch)
    return _naive[key]


@cache
def whole_trace() -> Trace:
    """Return the taxi trace, read once per process."""
    return arrival_rates(describe(next(applications())).trace)


def _share(kept: Sequence[bool]) -> float:
    """Return how many of these are true, percent."""
    return 100 * sum(kept) / len(kept)


def naive_rows() -> Iterator[Row]:
    """Yield the naive rows beside those of the program behind the paper."""
    with (FOLDER / "published" / "taas2023_naive.csv").open(newline="") as file:
        published = list(csv.DictReader(file))
    by_name = {str(application): application for application in applications()}
    for row in published:
        application = by_name[f"{row['application']}, N={row['types']}, {row['milliseconds']} ms"]
        weights = GIVEN if row["weights"] == "given" else EQUAL
        result = simulate(describe(application, weights=weights), seed=1)
        money = f"{result.resources:.2f}"
        yield Row(
            "Naive baseline, the whole year",
            f"{application}, {row['weights']} weights (cost, viol. %, rcf. %, money)",
            " / ".join(row[name] for name in ("cost", "violations", "reconfigurations", "money")),
            f"{result.average_cost:.4f} / {result.violations:.2f} / "
            f"{result.reconfigurations:.2f} / {money}",
            beside_what="a rerun by others, unpublished",
            match=match_numbers(result.resources, float(row["money"]), equal=money == row["money"]),
            claim="money",
        )


def describe_judged(judged: Judged) -> Row:
    """Return a case as a row: the naive point, ours over seeds, and what it saves."""
    naive, ours = judged.naive, judged.ours
    return Row(
        judged.case.figure,
        f"{judged.case} (money, viol. %, rcf. %)",
        f"{naive.money:.2f} / {100 * naive.violations:.2f} / {100 * naive.reconfigurations:.2f}",
        f"{fmean(each.money for each in ours):.2f} / "
        f"{100 * fmean(each.violations for each in ours):.2f} / "
        f"{100 * fmean(each.reconfigurations for each in ours):.2f}; saved "
        f"{fmean(judged.savings):.1f} % ({min(judged.savings):.1f} to {max(judged.savings):.1f})",
        beside_what="naive, ours",
        claim="cheaper and kept, every seed",
        holds=judged.saves and all(judged.keeps),
        seeds=len(ours),
    )
