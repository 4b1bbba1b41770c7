"""The slow loop of the Application Manager: fit, tune, apply what is better, and check it on trial.

    every interval:  samples -> fit -> order -> tuner -> better? -> in force, on trial
    every tick:      drift?   trial over, or lost? -> kept, or back to the former version

It runs beside the loops of the Operator Managers and cannot stop them: whatever fails here is
reported and retried at the next interval, and the current settings stay. Until a fit is good, the
objective is divided without tuning, and policies that explore do not decide.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from pydantic import JsonValue

from weir_operator.errors import WeirError, describe_unexpected
from weir_operator.loop.arbitrate import UNTUNED, BudgetSharing
from weir_operator.loop.bounds import cost_per_hour
from weir_operator.loop.decide import Managers
from weir_operator.loop.directives import Directives
from weir_operator.loop.events import Notices
from weir_operator.loop.tick import ModelState, Tick, TuningView
from weir_operator.loop.verify import Verdict
from weir_operator.streamapp.models import Mode
from weir_operator.tuning.fitting import UNKNOWN, Fitter, write_fitted
from weir_operator.tuning.protocol import Tuner, TuningLostError
from weir_operator.tuning.requests import (
    WARM_STARTS,
    Terms,
    check_answer,
    find_shortness,
    make_request,
    resembles,
    unfold,
)
from weir_operator.tuning.store import Standing, TuningStore, Version
from weir_operator.tuning.trial import find_overgrown, judge_trial
from weir_policies.errors import WeirPolicyError
from weir_policies.kernels.wording import format_rate
from weir_simulator.errors import FitError, SimulatorError
from weir_simulator.fitting.fit import LEAST_INTERVALS, Fit
from weir_simulator.fitting.samples import IntervalSample
from weir_simulator.tuning.order import TuningRequest, TuningResult

log = structlog.get_logger()

TRIES = 2
"""How often a tuning that is lost is made within one interval."""
FIRST_FIT = LEAST_INTERVALS + 5
"""Ticks until the first fit, where that is sooner than the interval."""
LOOK_AGAIN = 5
"""Ticks until the next check where too little was measured even then: changes spoil intervals."""
MORE_THAN_SEEN = 1.1
"""Times the most that a tuning has seen is traffic that it knows nothing of. It is out of force
then, until there is no more than it has seen."""
SAVED_EVERY = 10
"""Intervals of a trial between two writes: what a crash loses of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningSettings:
    """How the slow loop of one StreamApp runs."""

    interval: float
    """Seconds between two tunings."""
    tick: float
    """Seconds between two decisions of the Operator Managers."""
    terms: Terms
    """What a tuning is asked for."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Currency per replica and hour, by node type."""
    key: Mapping[str, JsonValue] = field(default_factory=dict)
    """What a tuning depends on; another one starts over."""
    phase: float = 0.0
    """In [0, 1), unlike other StreamApps': so many times longer the first fit is waited for, so
    that one controller does not fit all at once."""


class TuningLoop:
    """Tunes the Operator Managers of one StreamApp."""

    def __init__(
        self,
        *,
        settings: TuningSettings,
        tuner: Tuner,
        managers: Managers,
        sharing: BudgetSharing,
        fitter: Fitter,
        store: TuningStore,
        directives: Callable[[], Directives],
        notices: Notices,
    ) -> None:
        self._settings = settings
        self._tuner = tuner
        self._managers = managers
        self._sharing = sharing
        self._store = store
        self._directives = directives
        self._clock = notices.clock
        self._notices = notices
        self._failures: dict[str, str] = {}  # why work failed the last time, by its event
        self._fitter = fitter
        self._state = store.fresh()
        self._model: ModelState = UNKNOWN
        self._last: Tick | None = None
        self._seen = asyncio.Event()
        self._outgrown = False

    @property
    def view(self) -> TuningView:
        """Its state."""
        present = self._state.present
        return TuningView(
            model=self._model,
            tuned=self._sharing.tuned,
            version=0 if present is None else present.number,
            since=0.0 if present is None else present.since,
            expected="" if present is None else present.sentence,
            in_training=self._managers.in_training,
            failure=self._failures.get("TuningFailed", ""),
            answered=bool(self._state.versions) or self._state.not_taken is not None,
        )

    def restore(self) -> None:
        """Go on with what was in force."""
        self._state = self._store.load()
        self._sharing.tuned = self._state.tuned

    def forget(self, reset_nonce: int) -> None:
        """Start over: nothing tuned, nothing fitted; the next start asks for this nonce.

        Raises:
            TemporaryError: The disk is full; the old file stands.
        """
        self._store.begin_anew(reset_nonce)
        fresh = self._store.fresh()
        self._state = fresh.model_copy(update={"fit_since": self._clock.now()})
        self._fitter.forget()
        self._model = UNKNOWN
        self._put_in_force()

    async def run(self) -> None:
        """Tune at every interval, for ever; more often while too little was measured for a fit.

        The first attempt does not wait for samples, but for the first tick that knows the job:
        there may be samples from before a new spec.
        """
        settings = self._settings
        soon = min(settings.interval, FIRST_FIT * settings.tick)
        await self._clock.sleep(settings.phase * soon)
        await self._seen.wait()
        while True:
            await self.attempt()
            await self._clock.sleep(soon if self._model.fitted is None else settings.interval)
            soon = min(soon, LOOK_AGAIN * settings.tick)

    async def attempt(self) -> None:
        """Fit, and tune if possible; report a failure, which changes nothing."""
        self._notices.report_while("TuningFailed", "")  # reported again, so that failures count
        with self._reporting_failure("TuningFailed"):
            await self._tune_once()

    def note(self, tick: Tick) -> None:
        """Process a tick: watch for drift and traffic, and judge what is on trial."""
        sample = tick.sample
        if tick.snapshot.dataflow is not None:
            self._last = tick
            self._seen.set()
        if sample is None:
            return
        with self._reporting_failure("TrialFailed"):
            self._watch(sample)
            in_force = not self._outgrown
            self._watch_traffic(tick, sample)
            if in_force or self._outgrown:
                self._judge(tick)

    @contextmanager
    def _reporting_failure(self, reason: str) -> Iterator[None]:
        """Report what fails inside, and continue."""
        failure = ""
        try:
            yield
        except (WeirError, WeirPolicyError, SimulatorError) as error:
            failure = str(error)
        except Exception as error:
            log.exception("unexpected error", work=reason)
            failure = describe_unexpected(error)
        self._failures[reason] = failure
        self._notices.report_while(reason, failure)

    # -- one tuning -------------------------------------------------------------------------------

    async def _tune_once(self) -> None:
        last, asked = self._last, self._directives()
        flow = None if last is None else last.snapshot.dataflow
        if last is None or flow is None or asked.suspended or asked.mode is Mode.OFF:
            return
        since = self._state.fit_since
        fitted = await self._fitter.fit(flow, since=since)
        if self._has_changed(since):
            self._fitter.forget()  # it would watch for a drift from what the job was
            return
        self._model = fitted.state
        refused = fitted.state.fitted is False
        self._notices.report_while("HistoryUnused", fitted.past_unused)
        self._notices.report_while("ModelUnfitted", fitted.state.sentence if refused else "")
        if fitted.fit is None:
            return
        training = bool(self._managers.in_training)
        known = self._state.worth_a_try
        similar = (
            await asyncio.to_thread(self._store.find_similar) if len(known) < WARM_STARTS else []
        )
        try:
            request = make_request(
                fitted.fit,
                self._settings.terms,
                tail=self._sharing.tail,
                weights=self._sharing.tuned.weights,
                budgets=last.budgets,
                deployments=last.deployments,
                known=known,
                similar=similar,
                seasons=fitted.seasons,
                training=training,
            )
        except FitError as error:  # of the job's shape, which no other try changes
            self._notices.report_while("CannotTune", str(error))
            return
        await asyncio.to_thread(write_fitted, self._store.folder, request)
        present = self._state.present
        on_trial = present is not None and present.standing is Standing.ON_TRIAL
        followed = asked.mode is Mode.AUTO  # what is only advised could not be judged
        short = find_shortness(request, most_intervals=fitted.most_intervals)
        self._notices.report_while("TuningWaits", short if followed else "")
        # Policies are trained for what will be in force. Where a version was rolled back, that may
        # not be the best, which may be like it: the incumbent stays, and they are trained for it.
        followed = followed and not short and not (training and self._state.rolled_back)
        if on_trial or not (followed or training):
            return
        result = await self._ask(request.model_copy(update={"train_incumbent": not followed}))
        asked = self._directives()  # minutes have passed
        if self._has_changed(since):
            why = "since the tuning began, the job has drifted or was reset"
        elif (
            asked.suspended
            or asked.mode is Mode.OFF
            # Policies that were trained for a better result are of no use without it.
            or (followed and asked.mode is not Mode.AUTO and (result.better or not training))
        ):
            why = "the job is no longer tuned"
        else:
            why = ""
        if why:
            self._notices.report("TuningDropped", f"The result of a tuning was dropped: {why}")
            return
        if training:
            for name in self._managers.promote(result.trained, result.trained_jointly):
                self._notices.report("PolicyTrained", f"The policy of {name} decides from now on")
        if followed and asked.mode is Mode.AUTO:
            self._take(result, fitted.fit)

    def _has_changed(self, since: float) -> bool:
        return self._state.fit_since != since

    async def _ask(self, request: TuningRequest) -> TuningResult:
        """Return the tuner's answer; a lost one is asked for again."""
        name = f"v{self._next_number}"
        for _ in range(TRIES - 1):
            try:
                return await self._answer(request, name)
            except TuningLostError as error:
                log.warning("tuning lost, it is made again", failure=str(error))
        return await self._answer(request, name)

    async def _answer(self, request: TuningRequest, name: str) -> TuningResult:
        result = await self._tuner.tune(request, name=name)
        check_answer(result, request)
        return result

    def _take(self, result: TuningResult, fit: Fit) -> None:
        """Put the best in force if it is better by the simulator, with confidence."""
        if result.forecast is None:
            raise TuningLostError("Expected a forecast in the answer of a tuning, got none")
        unsure = "" if result.better else result.doubt
        self._notices.report_while(
            "TuningUnsure", unsure and f"Not better with enough confidence: {unsure}"
        )
        if not result.better:
            known = {"certainty": result.certainty, "keeping": result.keeping}
            log.info("no settings are better with enough confidence", **known, doubt=result.doubt)
            self._state = self._state.model_copy(update={"not_taken": result.best})
            self._store.save(self._state)
            return
        failed = next(
            (each for each in self._state.rolled_back if resembles(each.point, result.best)),
            None,
        )
        again = "" if failed is None else f"Like version {failed.number}, rolled back: "
        self._notices.report_while("TuningKnownToFail", again + failed.reason if failed else "")
        if failed is not None:
            return
        former = self._state.present
        if former is not None:
            replaced = former.model_copy(update={"standing": Standing.REPLACED})
            self._state = self._state.with_version(replaced)
        version = Version(
            number=self._next_number,
            since=self._clock.now(),
            former=self._state.current,
            point=result.best,
            budgets=unfold(result.best.budgets, fit),
            prediction=result.prediction,
            former_prediction=result.incumbent_prediction,
            certainty=result.certainty,
            forecast=result.forecast,
            most_rate=float(fit.rates.max()),
            resampled=result.resampled,
        )
        self._state = self._state.with_version(version).model_copy(
            update={"current": version.number, "not_taken": None}
        )
        self._put_in_force()
        self._notices.report("TuningApplied", f"Version {version.number}: {version.sentence}")

    @property
    def _next_number(self) -> int:
        return 1 + max((each.number for each in self._state.versions), default=0)

    # -- what is in force, and whether it keeps what it promised ----------------------------------

    def _watch(self, sample: IntervalSample) -> None:
        """Base the next fit on what was measured since the job has drifted."""
        drift = self._fitter.watch(sample)
        if drift is None:
            return
        self._model = ModelState(fitted=False, reason="Drift", sentence=drift.sentence)
        self._state = self._state.model_copy(update={"fit_since": drift.since})
        self._notices.report("ModelDrifted", f"{drift.sentence}; Weir fits again")
        self._store.save(self._state)  # the detector that saw it is gone: nobody would see it again

    def _watch_traffic(self, tick: Tick, sample: IntervalSample) -> None:
        """Put what is tuned out of force while more arrives than it has seen."""
        present = self._state.present
        flow = tick.snapshot.dataflow
        if present is None or flow is None:
            return
        rate = sum(
            sample.operators[name].arrived for name in flow.sources if name in sample.operators
        )
        known = present.most_rate
        if math.isnan(rate):
            return
        outgrown = rate > (known if self._outgrown else MORE_THAN_SEEN * known)
        if outgrown != self._outgrown:
            self._outgrown = outgrown
            self._give()
        self._notices.report_while(
            "TuningOutgrown",
            f"Version {present.number} has seen at most {format_rate(known)}; while more arrives,"
            " the settings without tuning are in force"
            if outgrown
            else "",
        )

    def _judge(self, tick: Tick) -> None:
        present = self._state.present
        if present is None or present.standing is not Standing.ON_TRIAL or tick.violated is None:
            return
        if self._directives().mode is not Mode.AUTO:
            return
        if self._outgrown:
            self._leave_unjudged(present)
            return
        tuned = {name: tick.deployments.get(name, {}) for name in present.budgets}
        money = cost_per_hour(tuned, self._settings.prices, job_manager=0.0)
        trial = present.trial.with_interval(
            late=tick.violated, money=money, restarted=tick.restarts
        )
        allowed = self._settings.terms.constraints.max_reconfigurations
        verdict, reason = judge_trial(trial, present.forecast, most_restarts=allowed)
        judged = present.model_copy(update={"trial": trial})
        if verdict is Verdict.KEEP:
            judged = judged.model_copy(update={"standing": Standing.KEPT, "reason": reason})
        if verdict is not Verdict.ROLL_BACK:
            self._state = self._state.with_version(judged)
            if verdict is Verdict.KEEP or trial.intervals % SAVED_EVERY == 0:
                self._store.save(self._state)
            return
        failed = judged.model_copy(update={"standing": Standing.ROLLED_BACK, "reason": reason})
        self._state = self._state.with_version(failed).model_copy(
            update={"current": present.former}
        )
        former = self._state.present
        if former is not None:  # its trial is over: it is what the later one was compared with
            kept = former.model_copy(update={"standing": Standing.KEPT})
            self._state = self._state.with_version(kept)
        self._put_in_force()
        back = f"version {present.former}" if former is not None else "sharing without tuning"
        self._notices.report(
            "TuningRolledBack", f"Version {present.number} is replaced with {back}: {reason}"
        )

    def _leave_unjudged(self, present: Version) -> None:
        """Count an interval that judges nothing; many of them end the trial."""
        trial = present.trial.with_interval_beyond()
        left = present.model_copy(update={"trial": trial})
        reason = find_overgrown(trial, present.forecast)
        if reason:
            left = left.model_copy(update={"standing": Standing.OVERGROWN, "reason": reason})
        self._state = self._state.with_version(left)
        if reason or trial.beyond % SAVED_EVERY == 0:
            self._store.save(self._state)

    def _put_in_force(self) -> None:
        self._outgrown = False
        self._give()
        self._store.save(self._state)

    def _give(self) -> None:
        """Give the managers the present version, or none while more arrives than it has seen."""
        self._sharing.tuned = UNTUNED if self._outgrown else self._state.tuned
