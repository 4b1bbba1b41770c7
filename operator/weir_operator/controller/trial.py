"""Whether reality agrees with what the simulator expected of a tuning. Pure.

A tuning is on trial for as many intervals as its forecast's stretches have. It is taken back where
more of them violated the objective, or they cost more, than one stretch in a hundred of the
simulated ones; violations as soon as they are too many, costs at the end. One violation beyond the
forecast is borne, for the least that a short trial can have is one. Intervals in which more arrived
than the tuning has ever seen count for nothing: they are no fault of its. Where they are many, the
trial ends without a verdict: traffic has grown, and only another tuning can see it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from weir_operator.controller.verdict import Verdict
from weir_operator.tuning.work import Forecast

BORNE = 1
"""Violations beyond the forecast."""
MOST_BEYOND = 0.5
"""Times the intervals of a trial that may be beyond what the tuning has seen."""
MODEL_ERROR = 1.1
"""How many times the forecast cost is borne: a good fit errs by as much."""


class Trial(BaseModel):
    """What was measured since a tuning was taken."""

    model_config = ConfigDict(frozen=True)

    intervals: int = 0
    late: int = 0
    """Of them, the ones that violated the objective."""
    money: float = 0.0
    """Sum over them of the currency per hour that the scaled operators cost."""
    beyond: int = 0
    """Intervals beside them, in which more arrived than the tuning has ever seen."""

    def with_interval(self, *, late: bool, money: float) -> Trial:
        """Return the trial with one more interval."""
        return self.model_copy(
            update={
                "intervals": self.intervals + 1,
                "late": self.late + late,
                "money": self.money + money,
            }
        )

    def with_interval_beyond(self) -> Trial:
        """Return the trial with one more interval that counts for nothing."""
        return self.model_copy(update={"beyond": self.beyond + 1})


def find_overgrown(trial: Trial, forecast: Forecast) -> str:
    """Return why a trial ends without a verdict, one sentence; empty where it goes on."""
    if trial.beyond < MOST_BEYOND * forecast.intervals:
        return ""
    return (
        f"more arrived in {trial.beyond} intervals than the tuning has ever seen, "
        f"{trial.intervals} of {forecast.intervals} could be judged"
    )


def judge_trial(trial: Trial, forecast: Forecast) -> tuple[Verdict, str]:
    """Return the verdict so far, and its reason, one sentence."""
    most = int(forecast.violations * forecast.intervals) + BORNE
    if trial.late > most:
        return Verdict.GO_BACK, (
            f"{trial.late} of {trial.intervals} intervals violated the objective, at most {most} "
            f"of {forecast.intervals} were expected"
        )
    if trial.intervals < forecast.intervals:
        return Verdict.WAIT, f"{trial.intervals} of {forecast.intervals} intervals judged"
    money = trial.money / trial.intervals
    if money > MODEL_ERROR * forecast.money:
        return Verdict.GO_BACK, (
            f"{money:.4g} an hour was paid over {trial.intervals} intervals, at most "
            f"{forecast.money:.4g} was expected"
        )
    return Verdict.KEEP, (
        f"{trial.late} of {trial.intervals} intervals violated the objective at {money:.4g} an "
        "hour, as expected"
    )
