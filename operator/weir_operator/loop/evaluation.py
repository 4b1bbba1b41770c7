"""An evaluation of a StreamApp: which side decides now, kept over restarts of the controller.

Blocks follow the clock from the first tick on that finds `spec.evaluation`, in mode Auto. In a
block of the baseline, Weir's policy neither decides nor learns, unless the baseline is refused:
then Weir decides, and the block counts for neither side. The evaluation ends with its last
block, when the field is removed, or when the objective is missed too often in one block of the
baseline (`switchback.is_missed_too_often`); the policy of the manifest decides from then on. An
evaluation that has ended does not begin again until the field changes. One whose state cannot be
read is over, too: it may have ended because the objective was missed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import structlog

from weir_operator.errors import WeirError
from weir_operator.loop.evaluation_store import EvaluationState, EvaluationStore
from weir_operator.rescale.journal import DeploymentMap
from weir_operator.streamapp.managers import BaselineDeployment, Evaluation
from weir_simulator.switchback import BlockPosition, Design, Side, is_missed_too_often

log = structlog.get_logger()

BEGAN = "EvaluationBegan"
"""Reason of the event that reports the begin of an evaluation."""
ENDED = "EvaluationEnded"
"""Reason of the event that reports its end; the message says why."""
UNREADABLE = "Weir cannot read how far it had come. To start again, change a field, such as `seed`"
"""Why an evaluation is over whose file is damaged."""
TO_BASELINE = "The evaluation goes to its baseline"
"""Why the job restarts at the begin of a block of the baseline: not a decision of either side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluatedInterval:
    """Where an interval lies in an evaluation that was under way all the time."""

    began: float
    """Unix time of the begin of the evaluation, which names it."""
    design: Design
    place: BlockPosition
    refused: bool = False
    """Whether Weir decided at its begin because the baseline was refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluating:
    """What an evaluation says at one tick."""

    elapsed: EvaluatedInterval | None = None
    """`None` where the interval does not count: across two blocks, for instance."""
    side: Side | None = None
    """Who decides now; `None` without an evaluation."""
    block: str = ""
    """Such as `Block 3 of 24`; empty while no side decides."""
    message: str = ""
    """How it stands, one sentence; empty where the manifest asks for none."""


NO_EVALUATION = Evaluating()


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """That an evaluation began or ended."""

    reason: str
    """`BEGAN` or `ENDED`."""
    message: str


class Evaluator:
    """Follows the evaluation of one StreamApp from tick to tick."""

    def __init__(
        self,
        store: EvaluationStore,
        *,
        initial: DeploymentMap,
        interval: float,
        max_violations: float,
    ) -> None:
        """Go on with what the store holds.

        Args:
            store: Where the state is kept.
            initial: The first deployment of the manifest.
            interval: Seconds between two ticks.
            max_violations: Share of intervals that may exceed the bound, in [0, 1].
        """
        self._store = store
        self._initial = initial
        self._interval = interval
        self._max_violations = max_violations
        self._decided = False  # whether a side of this evaluation decided at the last tick
        self._refused = False  # whether that was Weir, because the baseline was refused
        self._news: News | None = None
        self._unsaved = False  # whether the store holds an older state than `_state`
        self._unreadable = False
        self._state: EvaluationState | None = None
        try:
            self._state = store.load()
        except WeirError as error:
            log.warning("evaluation cannot be read and is over", failure=str(error))
            self._unreadable = True

    @property
    def baseline(self) -> DeploymentMap:
        """The baseline's deployment of each operator."""
        return {} if self._state is None else self._state.baseline

    def take_news(self) -> News | None:
        """Return what began or ended since the last call; `None` where nothing did."""
        news, self._news = self._news, None
        return news

    def advance(
        self,
        asked: Evaluation | None,
        *,
        begin: float,
        now: float,
        late: bool | None,
        current: DeploymentMap,
        settled: bool,
        active: bool,
    ) -> Evaluating:
        """Take a tick.

        Args:
            asked: `spec.evaluation`.
            begin: Unix time of the begin of the interval that ends now.
            now: Unix time.
            late: Whether the interval exceeded the bound; `None` where that is unknown.
            current: What runs.
            settled: Whether the last change was over in all of the interval.
            active: Whether Weir scales the job: mode Auto, and the job runs.
        """
        decided, self._decided = self._decided, False
        refused, self._refused = self._refused, False
        if self._unsaved:
            self._try_to_save()
        if asked is None:
            self._forget()
            return NO_EVALUATION
        if self._unreadable:
            self._end_unreadable(asked, now)
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
                elapsed = EvaluatedInterval(
                    began=state.began, design=design, place=place, refused=refused
                )
                # An operator that came later has no baseline.
                held = settled and all(
                    current.get(name) == counts for name, counts in state.baseline.items()
                )
                state = self._count(state, place, design, late=late is True and held)
            if not state.ended and now - state.began >= design.seconds:
                state = self._end(state, "All blocks are over")
        if state.ended:
            return Evaluating(elapsed=elapsed, message=f"Ended. {state.ended}")
        here = design.place(now - state.began, now - state.began)
        if not active or here is None:  # the clock was set back
            return Evaluating(elapsed=elapsed, message="The evaluation waits: Weir does not scale")
        self._decided = True
        block = f"Block {here.block + 1} of {2 * design.pairs}"
        says = "Weir decides" if here.side is Side.WEIR else "the baseline holds its deployment"
        return Evaluating(elapsed=elapsed, side=here.side, block=block, message=f"{block}: {says}")

    def refuse(self, evaluating: Evaluating, refusal: str) -> Evaluating:
        """Let Weir decide in a block of the baseline until the next tick.

        Args:
            evaluating: What `advance` said at this tick.
            refusal: Why the job cannot go to the baseline, one sentence.
        """
        self._refused = True
        message = f"{evaluating.block}: Weir decides, because the baseline is refused. {refusal}"
        return replace(evaluating, side=Side.WEIR, message=message)

    def _begin(
        self, asked: Evaluation, now: float, current: DeploymentMap
    ) -> EvaluationState | None:
        chosen = asked.baseline.deployment
        other = self._initial if chosen is BaselineDeployment.INITIAL else current
        state = EvaluationState(
            asked=_key(asked),
            began=now,
            baseline={name: dict(other.get(name, counts)) for name, counts in current.items()},
        )
        try:
            self._store.save(state)
        except WeirError as error:  # without it, a restart would begin the evaluation again
            log.warning("evaluation cannot begin", failure=str(error))
            return None
        self._state = state
        self._unsaved = False
        self._news = News(
            reason=BEGAN,
            message=f"The evaluation begins: {2 * asked.pairs} blocks of {asked.block}, half of "
            f"them in the deployment {chosen.value}",
        )
        return state

    def _count(
        self, state: EvaluationState, place: BlockPosition, design: Design, *, late: bool
    ) -> EvaluationState:
        """Count an interval that exceeded the bound with the baseline, also in the wash-out."""
        if not late or place.side is not Side.BASELINE:
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

    def _end(self, state: EvaluationState, reason: str) -> EvaluationState:
        ended = replace(state, ended=reason)
        self._keep(ended)
        self._report_end(reason)
        return ended

    def _end_unreadable(self, asked: Evaluation, now: float) -> None:
        """Take the evaluation that is asked for as over: it may have ended for good reason."""
        self._unreadable = False
        self._end(EvaluationState(asked=_key(asked), began=now, baseline={}), UNREADABLE)

    def _forget(self) -> None:
        if self._state is None and not self._unreadable:
            return
        if self._state is not None and not self._state.ended:
            self._report_end("It was removed from the manifest")
        self._unreadable = False
        self._keep(None)

    def _report_end(self, reason: str) -> None:
        self._news = News(reason=ENDED, message=f"The evaluation has ended. {reason}")

    def _keep(self, state: EvaluationState | None) -> None:
        self._state = state
        self._try_to_save()

    def _try_to_save(self) -> None:
        """Save the state; where that fails, the next tick tries again.

        Until then, a restarted controller would go on with an older state, in which an evaluation
        that has ended is still under way.
        """
        try:
            if self._state is None:
                self._store.remove()
            else:
                self._store.save(self._state)
        except WeirError as error:
            if not self._unsaved:
                log.warning("evaluation not saved", failure=str(error))
            self._unsaved = True
        else:
            self._unsaved = False


def _key(asked: Evaluation) -> str:
    return json.dumps(asked.model_dump(mode="json", by_alias=True), sort_keys=True)


def _design(asked: Evaluation) -> Design:
    return Design(block=asked.block.seconds, pairs=asked.pairs, seed=asked.seed)
