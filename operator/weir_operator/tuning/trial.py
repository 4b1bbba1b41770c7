"""Whether measurements agree with what the simulator expected of a tuning. Pure.

A tuning is on trial for as many intervals as a stretch of its forecast has. It is rolled back if
more of them violated the objective, or they cost more, than in one of a hundred simulated
stretches; violations are judged at once, costs at the end. One violation beyond the forecast is
accepted, because a short trial cannot have less than one. Restarts are judged like violations, but
as many as the objective allows are accepted even if fewer were forecast. Intervals with more
traffic than the tuning has ever seen do not count. If there are many, the trial ends without a
verdict: traffic has grown, and only another tuning can take that into account.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from weir_operator.loop.verify import Verdict
from weir_simulator.tuning.order import Forecast

BORNE = 1
"""Violations beyond the forecast, and restarts beyond forecast and objective."""
MAX_BEYOND = 0.5
"""Times the intervals of a trial that may be beyond what the tuning has seen."""
ROUNDING = 1e-9
"""Intervals."""
MODEL_ERROR = 1.1
"""How many times the forecast cost is accepted: a good fit errs by as much."""


class TuningTrial(BaseModel):
    """What was measured since a tuning was taken."""

    model_config = ConfigDict(frozen=True)

    intervals: int = 0
    late: int = 0
    """Of them, the ones that violated the objective."""
    money: float = 0.0
    """Sum over them of the currency per hour that the scaled operators cost."""
    restarts: int = 0
    """Of them, the ones in which the operators were granted a restart."""
    beyond: int = 0
    """Intervals beside them, in which more arrived than the tuning has ever seen."""

    def with_interval(self, *, late: bool, money: float, restarted: bool) -> TuningTrial:
        """Return the trial with one more interval."""
        return self.model_copy(
            update={
                "intervals": self.intervals + 1,
                "late": self.late + late,
                "money": self.money + money,
                "restarts": self.restarts + restarted,
            }
        )

    def with_interval_beyond(self) -> TuningTrial:
        """Return the trial with one more interval that counts for nothing."""
        return self.model_copy(update={"beyond": self.beyond + 1})


def find_overgrown(trial: TuningTrial, forecast: Forecast) -> str:
    """Return why a trial ends without a verdict, one sentence; empty if it continues."""
    if trial.beyond < MAX_BEYOND * forecast.intervals:
        return ""
    return (
        f"{trial.beyond} intervals had more traffic than the tuning has seen; "
        f"{trial.intervals} of {forecast.intervals} could be used"
    )


def judge_trial(
    trial: TuningTrial, forecast: Forecast, *, most_restarts: float
) -> tuple[Verdict, str]:
    """Return the verdict so far, and its reason, one sentence.

    `most_restarts` is the share of intervals in which the objective allows a restart.
    """
    maximum = _most(forecast.violations, forecast)
    if trial.late > maximum:
        return Verdict.ROLL_BACK, (
            f"{trial.late} of {trial.intervals} intervals violated the objective; at "
            f"most {maximum} of {forecast.intervals} were expected"
        )
    borne = _most(max(forecast.restarts, most_restarts), forecast)
    if trial.restarts > borne:
        return Verdict.ROLL_BACK, (
            f"{trial.restarts} of {trial.intervals} intervals asked for a restart; at "
            f"most {borne} of {forecast.intervals} were expected or are allowed"
        )
    if trial.intervals < forecast.intervals:
        return Verdict.WAIT, f"{trial.intervals} of {forecast.intervals} intervals completed"
    money = trial.money / trial.intervals
    if money > MODEL_ERROR * forecast.money:
        return Verdict.ROLL_BACK, (
            f"the scaled operators cost {money:.4g} per hour over {trial.intervals} intervals; at "
            f"most {forecast.money:.4g} was expected"
        )
    return Verdict.KEEP, (
        f"{trial.late} of {trial.intervals} intervals violated the objective at a "
        f"cost of {money:.4g} per hour for the scaled operators, as expected"
    )


def _most(share: float, forecast: Forecast) -> int:
    """Return of how many intervals of a trial a share is not exceeded."""
    # 15 / 22 * 22 is a little less than 15, and the share is often such a quotient.
    return math.floor(share * forecast.intervals + ROUNDING) + BORNE
