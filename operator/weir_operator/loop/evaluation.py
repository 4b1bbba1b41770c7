"""An evaluation of a StreamApp: which side decides now, kept over restarts of the controller.

Blocks follow the clock from the first tick on that finds `spec.evaluation`, in mode Auto. In a
block of the baseline, Weir's policy neither decides nor learns. The evaluation ends with its last
block, when the field is removed, or when the objective is missed too often in one block of the
baseline (`switchback.is_missed_too_often`); the policy of the manifest decides from then on. An
evaluation that has ended does not begin again until the field changes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from pydantic import TypeAdapter, ValidationError

from weir_operator.errors import WeirError
from weir_operator.rescale.journal import DeploymentMap
from weir_operator.runtime.files import read_if_present, write_atomically
from weir_operator.streamapp.managers import BaselineDeployment, Evaluation
from weir_simulator.switchback import (
    BlockTotals,
    Design,
    Estimate,
    Place,
    Side,
    is_missed_too_often,
)

log = structlog.get_logger()

EVALUATION = "evaluation.json"
"""The file, in the folder of each StreamApp's state."""
TO_BASELINE = "The evaluation goes to its baseline"
"""Why the job restarts at the begin of a block of the baseline: not a decision of either side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluatedInterval:
    """Where an interval lies in an evaluation that was under way all the time."""

    began: float
    """Unix time of the begin of the evaluation, which names it."""
    design: Design
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluating:
    """What an evaluation says at one tick."""

    elapsed: EvaluatedInterval | None = None
    """`None` where the interval does not count: across two blocks, for instance."""
    side: Side | None = None
    """Who decides now; `None` without an evaluation."""
    message: str = ""
    """How it stands, one sentence; empty where the manifest asks for none."""


NO_EVALUATION = Evaluating()


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """What must outlive the controller."""

    asked: str
    """`spec.evaluation`, as JSON."""
    began: float
    baseline: DeploymentMap
    ended: str = ""
    """Why it is over, one sentence; empty while it is not."""
    late_block: int = -1
    """The block of the baseline that `late` counts."""
    late: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SideTotals:
    """What the judged time of all blocks of one side comes to."""

    blocks: int
    """Those with judged time."""
    hours: float
    cost_per_hour: float
    """Currency; NaN without judged time, as the next."""
    late: float
    """Share of intervals over the bound."""
    restarts: int

    @property
    def restarts_per_hour(self) -> float:
        """NaN without judged time."""
        return self.restarts / self.hours if self.hours else math.nan


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationReport:
    """What an evaluation has come to so far."""

    app: str
    began: float
    """Unix time."""
    until: float
    """Unix time of its last interval."""
    policy: str
    """Weir's."""
    bound: float
    """The objective, seconds."""
    statistic: str
    design: Design
    ended: str
    """What its end was reported with; empty where no end is known."""
    weir: SideTotals
    baseline: SideTotals
    estimate: Estimate | None
    """`None` where too few pairs of blocks are over."""
    blocks: dict[int, BlockTotals]


_STATE = TypeAdapter(_State)


class Evaluator:
    """Follows the evaluation of one StreamApp from tick to tick."""

    def __init__(
        self, path: Path, *, initial: DeploymentMap, interval: float, max_violations: float
    ) -> None:
        """Go on with what the file holds.

        Args:
            path: The file.
            initial: The first deployment of the manifest.
            interval: Seconds between two ticks.
            max_violations: Share of intervals that may exceed the bound, in [0, 1].
        """
        self._path = path
        self._initial = initial
        self._interval = interval
        self._max_violations = max_violations
        self._decided = False  # whether a side of this evaluation decided at the last tick
        self._news = ""
        self._state = self._restore()

    @property
    def baseline(self) -> DeploymentMap:
        """The baseline's deployment of each operator."""
        return {} if self._state is None else self._state.baseline

    def take_news(self) -> str:
        """Return what began or ended since the last call, one sentence; empty where nothing did."""
        news, self._news = self._news, ""
        return news

    def advance(
        self,
        asked: Evaluation | None,
        *,
        begin: float,
        now: float,
        late: bool | None,
        current: DeploymentMap,
        active: bool,
    ) -> Evaluating:
        """Take a tick.

        Args:
            asked: `spec.evaluation`.
            begin: Unix time of the begin of the interval that ends now.
            now: Unix time.
            late: Whether the interval exceeded the bound; `None` where that is unknown.
            current: What runs.
            active: Whether Weir scales the job: mode Auto, and the job runs.
        """
        decided, self._decided = self._decided, False
        if asked is None:
            self._forget()
            return NO_EVALUATION
        state, design, elapsed = self._state, _design(asked), None
        if state is None or state.asked != _key(asked):
            decided = False
            if not active or not current:
                return Evaluating(message="The evaluation begins once Weir scales the job")
            state = self._begin(asked, now, current)
            if state is None:
                return Evaluating(message="The evaluation cannot begin: its state cannot be kept")
        if not state.ended:
            place = design.place(begin - state.began, now - state.began)
            if decided and place is not None:
                elapsed = EvaluatedInterval(began=state.began, design=design, place=place)
                state = self._count(state, place, design, late=late is True)
            if not state.ended and now - state.began >= design.seconds:
                state = self._end(state, "All blocks are over")
        if state.ended:
            return Evaluating(elapsed=elapsed, message=f"Ended. {state.ended}")
        here = design.place(now - state.began, now - state.began)
        if not active or here is None:  # the clock was set back
            return Evaluating(elapsed=elapsed, message="The evaluation waits: Weir does not scale")
        self._decided = True
        return Evaluating(
            elapsed=elapsed,
            side=here.side,
            message=f"Block {here.block + 1} of {2 * design.pairs}: "
            + ("Weir decides" if here.side is Side.WEIR else "the baseline holds its deployment"),
        )

    def _begin(self, asked: Evaluation, now: float, current: DeploymentMap) -> _State | None:
        chosen = asked.baseline.deployment
        other = self._initial if chosen is BaselineDeployment.INITIAL else current
        state = _State(
            asked=_key(asked),
            began=now,
            baseline={name: dict(other.get(name, counts)) for name, counts in current.items()},
        )
        try:
            write_atomically(self._path, _STATE.dump_json(state).decode())
        except WeirError as error:  # without it, a restart would begin the evaluation again
            log.warning("evaluation cannot begin", failure=str(error))
            return None
        self._state = state
        self._news = (
            f"The evaluation begins: {2 * asked.pairs} blocks of {asked.block}, half of them in "
            f"the deployment {chosen.value}"
        )
        return state

    def _count(self, state: _State, place: Place, design: Design, *, late: bool) -> _State:
        """Count an interval that exceeded the bound with the baseline."""
        if not late or not place.judged or place.side is not Side.BASELINE:
            return state
        count = state.late + 1 if state.late_block == place.block else 1
        state = replace(state, late_block=place.block, late=count)
        intervals = design.block / self._interval
        if is_missed_too_often(count, share=self._max_violations, intervals=intervals):
            return self._end(
                state,
                f"The objective was missed in {count} intervals of block {place.block + 1}, one of "
                "the baseline",
            )
        self._keep(state)
        return state

    def _end(self, state: _State, reason: str) -> _State:
        ended = replace(state, ended=reason)
        self._keep(ended)
        self._news = f"The evaluation has ended. {reason}"
        return ended

    def _keep(self, state: _State) -> None:
        self._state = state
        try:
            write_atomically(self._path, _STATE.dump_json(state).decode())
        except WeirError as error:  # the next change tries again
            log.warning("evaluation not saved", failure=str(error))

    def _forget(self) -> None:
        if self._state is None:
            return
        if not self._state.ended:
            self._news = "The evaluation has ended. It was removed from the manifest"
        self._state = None
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("evaluation cannot be removed", failure=str(error))

    def _restore(self) -> _State | None:
        try:
            text = read_if_present(self._path)
            return None if text is None else _STATE.validate_json(text)
        except (OSError, ValidationError) as error:
            log.warning(
                "evaluation cannot be read and starts from the beginning", failure=str(error)
            )
            return None


def _key(asked: Evaluation) -> str:
    return json.dumps(asked.model_dump(mode="json", by_alias=True), sort_keys=True)


def _design(asked: Evaluation) -> Design:
    return Design(block=asked.block.seconds, pairs=asked.pairs, seed=asked.seed)
