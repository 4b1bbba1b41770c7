"""What a tuning is asked for and what it answers, as values and as JSON files.

A `TuningRequest` holds all that a result depends on, so that a process of its own, or a Kubernetes
Job, needs nothing else but the trace that its experiment names. Shares are parts of one, money is
the mean price per hour of what is paid, in the experiment's currency; budgets are seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from weir_policies.application_manager.search.algorithms import Algorithm, SurrogateName
from weir_policies.application_manager.search.protocol import Limits, Outcome
from weir_policies.application_manager.search.space import Tuned
from weir_simulator.errors import TuningError
from weir_simulator.experiment import Experiment, Weights
from weir_simulator.section import (
    MOST_SEED,
    MOST_SLOTS,
    AboveZero,
    AtLeastZero,
    Duration,
    Probability,
    Section,
    refusal,
)

DAY = 86_400.0
"""Seconds."""


class Constraints(Section):
    """What tuned weights and budgets must keep."""

    max_violations: Probability = Field(default=0.05, examples=[0.05])
    """Most violations of the response time, as a share of the slots."""
    max_reconfigurations: Probability = Field(default=0.10, examples=[0.10])
    """Most reconfigurations, as a share of the slots."""

    @property
    def limits(self) -> Limits:
        """As searches know them."""
        return Limits(violations=self.max_violations, reconfigurations=self.max_reconfigurations)


def share_of_restarts(per_day: float, slot: float) -> float:
    """Return the share of slots that so many restarts a day are; `slot` is its length, s."""
    return min(1.0, per_day * slot / DAY)


class Point(Section):
    """Weights and budgets: what a tuning chooses."""

    weights: Weights
    budgets: dict[str, AboveZero] = Field(examples=[{"op": 0.025}])
    """Seconds of response time granted to each operator."""


class TuningRequest(Section):
    """A tuning to make."""

    version: Literal[1] = 1
    experiment: Experiment
    """What is simulated; its policy is the one that is tuned."""
    constraints: Constraints = Constraints()
    algorithm: Algorithm = "joint"
    """How to search."""
    surrogate: SurrogateName = "numpy"
    """What the search models outcomes with; BoTorch's needs the extra `tune` and more time."""
    evaluations: int = Field(default=25, ge=1, le=100_000, examples=[25])
    """How much to simulate at most, counted in full evaluations; short ones count their part."""
    slots: int | None = Field(default=None, ge=1, le=MOST_SLOTS, examples=[50_000])
    """Slots of a full evaluation, from the trace's first one used; `None` is all of them."""
    seed: int = Field(default=1, ge=0, le=MOST_SEED // 2, examples=[1])
    """Decides what the search draws, and what happens by chance in the simulations."""
    batch: int = Field(default=2, ge=1, le=1000, examples=[2])
    """Evaluations that are proposed at once. The result depends on it, not on `workers`."""
    workers: int | None = Field(default=None, ge=1, le=1000, examples=[2])
    """Processes; `None` is one per processor, but no more than the batch."""
    deadline: Duration | None = Field(default=None, gt=0, examples=["10m"])
    """Seconds after which the best so far is the result; `None` is no limit."""
    judging_seeds: int | None = Field(default=None, ge=1, le=1000, examples=[3])
    """Seeds, none of them seen by the search, on which the best is compared with the incumbent;
    with a single one nothing is sure. `None` is three, and six for policies that learn by trying,
    because those end up elsewhere with each seed."""
    judging_slots: int | None = Field(default=None, ge=1, le=MOST_SLOTS, examples=[525_533])
    """Slots of that comparison, from the trace's first one used; `None` is those of a full
    evaluation. More of them show seasons that the search did not see."""
    shortlist: int = Field(default=3, ge=1, le=1000, examples=[3])
    """Points of the search that are compared: its best may have been the luckiest. One more is,
    the cheapest within half of each constraint."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1, examples=[0.95])
    """How sure `better` must be, all comparisons with the incumbent together."""
    incumbent: Point | None = None
    """What is in force; `None` is equal weights and equal quotas, the paper's naive baseline."""
    warm_starts: tuple[Point, ...] = ()
    """Points worth trying early: former results, of this application or of similar ones. They are
    in the final comparison whatever the search thinks of them."""

    @model_validator(mode="after")
    def _budget_each_operator(self) -> Self:
        names = {operator.name for operator in self.experiment.operators}
        points = () if self.incumbent is None else (self.incumbent,)
        for point in (*points, *self.warm_starts):
            if point.budgets.keys() != names:
                raise refusal(
                    f"a budget for each of {sorted(names)} and no other",
                    f"the point has budgets for {sorted(point.budgets)}: correct its names",
                )
        return self


class Estimate(Section):
    """A mean and how sure it is."""

    mean: float
    standard_error: AtLeastZero | None
    """Of the mean, over stretches of the trace and seeds; `None` where there were too few."""


class Prediction(Section):
    """What is expected of a point."""

    money: Estimate
    violations: Estimate
    """Share of the slots."""
    reconfigurations: Estimate
    """Share of the slots."""


class Evaluation(Section):
    """One simulation of a search."""

    number: int = Field(ge=0)
    """In the order in which they were proposed."""
    origin: str
    """Why the point was proposed."""
    point: Point
    fidelity: float = Field(gt=0, le=1)
    """Its slots as a part of a full evaluation."""
    slots: int = Field(ge=1)
    money: AtLeastZero
    violations: Probability
    reconfigurations: Probability
    feasible: bool
    """Whether it kept the constraints."""

    @property
    def outcome(self) -> Outcome:
        """As searches know it."""
        return Outcome(
            money=self.money,
            violations=self.violations,
            reconfigurations=self.reconfigurations,
        )


class TuningResult(Section):
    """What came of a tuning."""

    version: Literal[1] = 1
    algorithm: Algorithm
    best: Point
    """Of those compared the cheapest that is surely better; where none is, the cheapest that kept
    the constraints, else the one nearest."""
    prediction: Prediction
    """Of the best, on seeds that the search has not seen."""
    feasible: bool
    """Whether the means of that prediction keep the constraints."""
    incumbent: Point
    """What the best was compared with: the order's, or the naive baseline."""
    incumbent_prediction: Prediction
    """On the same seeds."""
    better: bool
    """Whether the best should replace the incumbent: it surely keeps each constraint and is surely
    cheaper, or it is surely nearer to them where the incumbent breaks them."""
    certainty: Probability | None
    """Probability that the best costs less than the incumbent, by paired stretches of the trace and
    seeds; `None` where there were too few to say anything."""
    keeping: Probability | None = None
    """Probability that the best keeps that constraint of which this is least sure, by the same
    stretches and seeds; `None` where there were too few, and in results of before it was asked."""
    required: Probability
    """How probable each of the two must be, because several were compared, and in two ways where
    the incumbent breaks the constraints."""
    doubt: str
    """Why `certainty` or `keeping` is `None`, a clause; empty where both are known."""
    evaluations: tuple[Evaluation, ...]
    simulated_slots: int = Field(ge=0)
    """By the search; those of the final comparison are not counted."""
    seconds: AtLeastZero
    """Wall time."""
    ended: Literal["finished", "stopped", "deadline"]
    """Why the search ended."""


Document = TypeVar("Document", TuningRequest, TuningResult)


def write_document(document: TuningRequest | TuningResult) -> str:
    """Return an order or a result as JSON."""
    return document.model_dump_json(by_alias=True, indent=1)


def read_order(path: Path) -> TuningRequest:
    """Return the order that a file holds.

    Raises:
        TuningError: It cannot be read, or holds none.
    """
    return _read(path, TuningRequest)


def read_result(path: Path) -> TuningResult:
    """Return the result that a file holds.

    Raises:
        TuningError: It cannot be read, or holds none.
    """
    return _read(path, TuningResult)


def apply_point(experiment: Experiment, point: Point) -> Experiment:
    """Return the experiment with a point's weights and budgets."""
    operators = tuple(
        operator.model_copy(update={"budget": point.budgets[operator.name]})
        for operator in experiment.operators
    )
    return experiment.model_copy(update={"operators": operators, "weights": point.weights})


def point_of(tuned: Tuned) -> Point:
    """Return what a search found as a point."""
    violations, resources, reconfigurations = tuned.weights
    return Point(
        weights=Weights(
            violations=violations, resources=resources, reconfigurations=reconfigurations
        ),
        budgets=dict(tuned.budgets),
    )


def tuned_of(point: Point) -> Tuned:
    """Return a point as searches know it."""
    weights = point.weights
    return Tuned(
        weights=(weights.violations, weights.resources, weights.reconfigurations),
        budgets=point.budgets,
    )


def _read(path: Path, kind: type[Document]) -> Document:
    name = "an order" if kind is TuningRequest else "a result"
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TuningError(
            f"Expected {name} of a tuning in {path}, got an error ({error}); correct the path"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"]) or "the file"
        raise TuningError(
            f"Expected {name} of a tuning in {path}, got a mistake in {where} ({first['msg']}); "
            "write it again"
        ) from error
