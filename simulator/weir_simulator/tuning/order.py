"""The request and the result of a tuning, as values and as JSON files.

A `TuningRequest` has all that a result depends on except the trace that its experiment names; with
`rates` it has that, too, and another process or pod can answer it. Shares are parts of one, money
is the mean price per hour of what is paid, in the experiment's currency; budgets are seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, JsonValue, ValidationError, model_validator

from weir_policies.application_manager.search.protocol import (
    Algorithm,
    Limits,
    SurrogateName,
    TrialOutcome,
)
from weir_policies.policy import Tuning
from weir_simulator.errors import TuningError
from weir_simulator.experiment import Experiment
from weir_simulator.section import MAX_SEED, MAX_SLOTS, AtLeastZero, Duration, Probability
from weir_simulator.validation import Section, refusal

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
    slots: int | None = Field(default=None, ge=1, le=MAX_SLOTS, examples=[50_000])
    """Slots of a full evaluation, from the trace's first one used; `None` is all of them."""
    seed: int = Field(default=1, ge=0, le=MAX_SEED // 2, examples=[1])
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
    because those end up elsewhere with each seed. On made-up traffic, there are more of them."""
    judging_slots: int | None = Field(default=None, ge=1, le=MAX_SLOTS, examples=[525_533])
    """Slots of that comparison, from the trace's first one used; `None` is those of a full
    evaluation. More of them show seasons that the search did not see."""
    shortlist: int = Field(default=3, ge=1, le=1000, examples=[3])
    """Points of the search that are compared: its best may have been the luckiest. One more is,
    the cheapest within half of each constraint."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1, examples=[0.95])
    """How sure `better` must be, all comparisons with the incumbent together."""
    incumbent: Tuning | None = None
    """What is in force; `None` is equal weights and equal quotas, the paper's naive baseline."""
    warm_starts: tuple[Tuning, ...] = ()
    """Points worth trying early: former results, of this application or of similar ones. They are
    in the final comparison, or the choice for it, whatever the search thinks of them."""
    rates: tuple[AtLeastZero, ...] = ()
    """Records/s, one per slot, where they go with the request: whoever answers it puts them in
    place of the experiment's trace, before it asks `tune`. Empty where that trace is there."""
    watch: int | None = Field(default=None, ge=1)
    """Slots of the stretches that are forecast; `None` forecasts nothing."""
    train: int = Field(default=0, ge=0)
    """Slots that policies which learn by trying are trained for; 0 trains none."""
    train_incumbent: bool = Field(default=False, exclude_if=lambda each: not each)
    """Whether they are trained for the incumbent whatever is found, because it stays in force."""

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
    """Of the mean, over stretches of the trace and seeds; on made-up traffic, how far another run
    is from it. `None` where there were too few."""


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
    point: Tuning
    fidelity: float = Field(gt=0, le=1)
    """Its slots as a part of a full evaluation."""
    slots: int = Field(ge=1)
    money: AtLeastZero
    violations: Probability
    reconfigurations: Probability
    feasible: bool
    """Whether it kept the constraints."""

    @property
    def outcome(self) -> TrialOutcome:
        """As searches know it."""
        return TrialOutcome(
            money=self.money,
            violations=self.violations,
            reconfigurations=self.reconfigurations,
        )


class Forecast(Section):
    """What the simulator expects of any stretch of some intervals, with the best found."""

    intervals: int = Field(ge=1)
    """Length of a stretch."""
    violations: Probability
    """Share of violations that one stretch in a hundred exceeds."""
    money: AtLeastZero
    """Currency per hour that one stretch in a hundred exceeds."""
    restarts: Probability = 1.0
    """Share of restarts, by interval, that one stretch in a hundred exceeds; 1, than which nothing
    is more, in what was kept from before restarts were forecast."""


class TuningResult(Section):
    """What came of a tuning."""

    version: Literal[1] = 1
    algorithm: Algorithm
    best: Tuning
    """Of those compared the cheapest that is surely better; where none is, the cheapest that kept
    the constraints, else the one nearest."""
    prediction: Prediction
    """Of the best, on seeds that the search has not seen."""
    feasible: bool
    """Whether the means of that prediction keep the constraints."""
    incumbent: Tuning
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
    resampled: bool = Field(default=False, exclude_if=lambda resampled: not resampled)
    """Whether the final comparison had traffic that was made up from the trace's changes, because
    the trace is too short; the probabilities are then of a stretch that is as long."""
    forecast: Forecast | None = Field(default=None, exclude_if=lambda forecast: forecast is None)
    """Of the best; `None`, and not in the file, where none was asked for."""
    trained: dict[str, dict[str, JsonValue]] = Field(default={}, exclude_if=lambda each: not each)
    """Learned state by operator, for `load_state_dict`; empty, and not in the file, where none was
    asked for."""
    trained_jointly: dict[str, JsonValue] | None = Field(
        default=None, exclude_if=lambda state: state is None
    )
    """The same of a policy that decides for all operators at once."""

    @model_validator(mode="after")
    def _train_known_operators(self) -> Self:
        unknown = sorted(self.trained.keys() - self.best.budgets.keys())
        if unknown:
            raise ValueError(f"trained operators that have no budget: {unknown}")
        return self


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


def apply_tuning(experiment: Experiment, tuning: Tuning) -> Experiment:
    """Return the experiment with a tuning's weights and budgets."""
    operators = tuple(
        operator.model_copy(update={"budget": tuning.budgets[operator.name]})
        for operator in experiment.operators
    )
    return experiment.model_copy(update={"operators": operators, "weights": tuning.weights})


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
