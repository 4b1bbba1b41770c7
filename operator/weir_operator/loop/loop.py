"""One StreamApp's loops: check on the job, and in every interval measure, learn, decide, act.

    gather -> evaluate -> verify -> decide (OMs) -> arbitrate (AM) -> record -> execute

Checks and decisions are two loops, because a lost TaskManager cannot wait for the next decision. A
change runs beside them: ticks go on measuring, and hold their decisions until it has ended. Each
step is a module. The last change is verified by what this tick measured, before anything new is
decided; what was decided, and why, is recorded before it is executed.

Neither loop ends because one pass failed. A failure counts as trouble until a later pass succeeds:
a job that is lost must be brought back although nothing can be decided, and decisions go on
although one check failed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import TemporaryError, WeirError, describe_unexpected
from weir_operator.loop.app_state import AppState
from weir_operator.loop.arbitrate import ApplicationManager, MetricsOutage, describe_failed
from weir_operator.loop.bounds import (
    Floors,
    Guard,
    ScalingDirection,
    append_limits,
    describe_missed,
    floors_at,
    guards_at,
    insist,
    refuse_below_floors,
    refuse_change,
    refuse_move,
)
from weir_operator.loop.decide import Managers
from weir_operator.loop.directives import Directives, LoopSettings
from weir_operator.loop.evaluate import evaluate
from weir_operator.loop.events import Event, Notices
from weir_operator.loop.execute import ChangeExecutor, expect_response
from weir_operator.loop.gather import Gatherer, Snapshot
from weir_operator.loop.lifecycle import Health, Lifecycle
from weir_operator.loop.proposals import (
    Ruling,
    cut_all,
    is_short_of_money,
)
from weir_operator.loop.record import DecisionRecord, JobTick, LearningOutcome
from weir_operator.loop.separation import (
    SharedOperators,
    at_risk,
    costs_less,
    describe_busy,
    describe_waiting,
    measured_over,
)
from weir_operator.loop.tick import MissedObjective, Tick, TuningView, find_first_window
from weir_operator.loop.verify import ChangeSoFar
from weir_operator.rescale.journal import RescaleJournal, new_id
from weir_operator.rescale.status import AppStatus, StatusStore, find_failed
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.models import Mode
from weir_operator.streamapp.operators import Operator
from weir_policies.errors import WeirPolicyError
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.estimation import WRONG_FOR
from weir_policies.policy import OperatorModel

log = structlog.get_logger()

UNMEASURED_VERTICES = "Denied: Weir measures first which of its vertices are busy"
PATIENCE = 2
"""Checks in a row that may find no running job, or fail, before that is trouble: Flink's own
failover often needs less."""


class Loop(StrEnum):
    """Which loop has trouble."""

    HEALTH_CHECK = "health check"
    TICK = "tick"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a loop."""

    loop: Loop
    sentence: str
    """Empty where it is over."""
    unexpected: bool = False
    """Whether it is a defect of Weir."""


OnTrouble = Callable[[Trouble], None]


async def watch_job(
    heal: Callable[[], Awaitable[Health]],
    wait: Callable[[], Awaitable[None]],
    on_trouble: OnTrouble,
) -> None:
    """Check the job repeatedly until it has finished; tell when none runs, and when one does again.

    Raises:
        WeirError: The job cannot be kept running.
    """
    failed = 0
    while True:
        try:
            health = await heal()
            down = "The job is restarting: not all of its tasks run yet"
        except TemporaryError as error:
            log.warning("health check failed", failure=str(error))
            health, down = Health.RESTARTING, f"The state of the job is unknown: {error}"
        if health is Health.FINISHED:
            return
        if health is Health.RESTARTING:
            failed += 1
            if failed >= PATIENCE:
                on_trouble(Trouble(Loop.HEALTH_CHECK, down))
        elif health is not Health.CHANGING:  # which says nothing of the job
            failed = 0
            on_trouble(Trouble(Loop.HEALTH_CHECK, ""))
        await wait()


async def try_tick(tick: Callable[[], Awaitable[object]], on_trouble: OnTrouble) -> None:
    """Run one control interval; report a failure, and try the next one."""
    try:
        await tick()
    except (WeirError, WeirPolicyError) as error:
        on_trouble(Trouble(Loop.TICK, str(error)))
    except Exception as error:  # a defect in deciding must not leave the job alone
        log.exception("unexpected error in a control interval")
        on_trouble(Trouble(Loop.TICK, describe_unexpected(error), unexpected=True))
    else:
        on_trouble(Trouble(Loop.TICK, ""))


class SlowLoop(Protocol):
    """The slow loop of the Application Manager, which fits and tunes beside the control loop."""

    @property
    def view(self) -> TuningView:
        """Its state."""
        ...

    def restore(self) -> None:
        """Go on with what was in force."""
        ...

    def forget(self, reset_nonce: int) -> None:
        """Drop all tunings and fits.

        Raises:
            TemporaryError: They could not be dropped.
        """
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...

    def note(self, tick: Tick) -> None:
        """Process what a tick measured."""
        ...


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where the loops of one StreamApp run, and who is told."""

    store: StatusStore
    clock: Clock
    on_tick: Callable[[Tick], None]
    on_event: Callable[[Event], None]
    on_trouble: OnTrouble = lambda trouble: None
    """Told when a loop fails, and when it does no more."""
    wait: Callable[[], Awaitable[None]] | None = None
    """Waits until the next check whether the job runs; `None` waits a second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deciders:
    """What decides for one StreamApp."""

    operators: Mapping[str, Operator]
    """As the manifest has them."""
    managers: Managers
    application: ApplicationManager
    shared: SharedOperators | None = None
    """Operators that busy vertices may leave; `None` where there are none."""
    tuning: SlowLoop | None = None
    """`None` tunes nothing."""


class ApplicationController:
    """Steers the job of one StreamApp."""

    def __init__(
        self,
        *,
        settings: LoopSettings,
        directives: Callable[[], Directives],
        gatherer: Gatherer,
        lifecycle: Lifecycle,
        deciders: Deciders,
        memory: AppState,
        around: Surroundings,
    ) -> None:
        clock = around.clock
        self._settings = settings
        self._operators = deciders.operators
        self._directives = directives
        self._gatherer = gatherer
        self._lifecycle = lifecycle
        self._managers = deciders.managers
        self._am = deciders.application
        self._store = around.store
        self._memory = memory
        self._tuning = deciders.tuning
        self._shared = deciders.shared
        self._clock = clock
        self._wait = around.wait or (lambda: clock.sleep(1.0))
        self._on_tick = around.on_tick
        self._on_trouble = around.on_trouble
        self._notices = Notices(around.on_event, clock)
        self._actor = ChangeExecutor(
            lifecycle, around.store, buy=self._am.buy, notices=self._notices
        )
        self._outage = MetricsOutage()
        self._missed = MissedObjective()
        self._infeasible = ""
        self._reset_nonce = directives().reset_nonce
        self._noted_run: tuple[str, str] | None = None
        self._last_tick = clock.now(), clock.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Run both loops until `stop` is set or the job has finished.

        The job must have been brought up.

        Raises:
            WeirError: The job cannot be kept running, or the objective cannot be kept at all.
        """
        self._memory.restore(self._clock.now())
        if self._tuning is not None:
            self._tuning.restore()
        ending = asyncio.create_task(stop.wait())
        loops = {
            asyncio.create_task(self._run_health_checks(stop)),
            asyncio.create_task(self._run_ticks()),
        }
        if self._tuning is not None:
            loops.add(asyncio.create_task(self._tuning.run()))
        try:
            done, _ = await asyncio.wait({ending, *loops}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                task.result()
        finally:
            for task in (ending, *loops):
                task.cancel()
            await asyncio.gather(ending, *loops, return_exceptions=True)
            await self._actor.finish()  # a change that was begun is brought to its end
            unsaved = self._memory.save(self._clock.now())
            self._notices.report_while("LearnedNotSaved", unsaved)

    async def tick(self) -> Tick:
        """Gather, evaluate, decide, arbitrate, record, and begin what was granted.

        Raises:
            TemporaryError: The job could not be measured.
        """
        now, steady = self._clock.now(), self._clock.monotonic()
        (last, last_steady), self._last_tick = self._last_tick, (now, steady)
        start = now - (steady - last_steady)
        directives = self._directives()
        guards = guards_at(directives, now)
        floors = floors_at(directives, now, ahead=self._settings.change_takes)
        self._notices.note_guards(guards)
        if directives.reset_nonce != self._reset_nonce:
            await self._forget(directives.reset_nonce)
        try:
            snapshot = await self._gatherer.gather(
                start,
                now,
                set_by=start - last,
                vertices_over=None
                if self._shared is None
                else measured_over(self._settings.interval),
            )
        except TemporaryError:
            fallback = self._fall_back(False, directives, guards, floors)
            if fallback is not None:
                self._managers.skip()
                self._begin(fallback)
            raise
        tick = self._evaluate(snapshot, directives, floors)
        decisions: tuple[DecisionRecord, ...] = ()
        granted: Ruling | None = None
        if not tick.held and snapshot.dataflow is not None:
            undone = await self._actor.judge(tick.measured, now)
            tick = self._decide(tick, snapshot.dataflow)
            tick, ruling = self._arbitrate(tick, snapshot.dataflow, undone)
            decisions = self._memory.decisions(now, tick.proposals, ruling)
            if ruling.granted or ruling.move is not None:
                granted = ruling
        self._infeasible = tick.infeasible
        self._notices.report_while("ObjectiveInfeasible", tick.infeasible)
        tick = replace(tick, missed=self._missed.note(tick, self._settings.objective.response_time))
        self._notices.report_while("ObjectiveMissed", tick.missed)
        fallback = self._fall_back(snapshot.healthy, directives, guards, floors)
        granted = granted or fallback
        lesson = self._teach(tick, directives, granted)
        self._memory.records.write([_record_of(tick, decisions, lesson)])
        if self._tuning is not None:
            self._tuning.note(tick)
            tick = replace(tick, tuning=self._tuning.view)
        if granted is not None:
            self._begin(granted)
        if not tick.held:
            unsaved = await self._memory.save_if_due(now)
            self._notices.report_while("LearnedNotSaved", unsaved)
        self._on_tick(tick)
        await self._memory.records.shorten_log()
        return tick

    # -- the two loops ----------------------------------------------------------------------------

    async def _run_health_checks(self, stop: asyncio.Event) -> None:
        await watch_job(self._lifecycle.heal, self._wait, self._meet)
        self._notices.report("JobFinished", "The job has finished")
        stop.set()

    async def _run_ticks(self) -> None:
        clock, interval = self._clock, self._settings.interval
        now, steady = clock.now(), clock.monotonic()
        start, end = find_first_window(
            now,
            interval,
            self._settings.phase,
            judged_until=self._memory.records.last_tick(until=now),
        )
        due = steady + end - now
        self._last_tick = (start, steady + start - now)
        while True:
            await clock.sleep(max(0.0, due - clock.monotonic()))
            # Ticks keep their places in time; one that took too long skips the ones it missed.
            missed = max(0.0, clock.monotonic() - due) // interval
            due += (1 + missed) * interval
            await try_tick(self.tick, self._meet)

    def _meet(self, trouble: Trouble) -> None:
        if trouble.loop is Loop.HEALTH_CHECK:
            self._notices.report_while("JobDown", trouble.sentence)
        elif trouble.sentence:
            self._notices.report("TickFailed", trouble.sentence)
        self._on_trouble(trouble)

    # -- the steps of a tick ----------------------------------------------------------------------

    async def _forget(self, reset_nonce: int) -> None:
        self._reset_nonce = reset_nonce
        await self._memory.forget(reset_nonce)
        if self._tuning is not None:
            self._tuning.forget(reset_nonce)
        self._notices.report("LearnedForgotten", "spec.resetNonce is new: Weir learns from scratch")

    def _evaluate(self, snapshot: Snapshot, directives: Directives, floors: Floors) -> Tick:
        """Return what the measurements say, and why nothing is decided on them, if so."""
        flow, now, status = snapshot.dataflow, snapshot.now, self._store.load()
        if snapshot.topology is not None and snapshot.run != self._noted_run:
            self._noted_run = snapshot.run
            self._managers.note_edges(
                snapshot.topology, self._operators, key_groups=self._settings.max_parallelism
            )
        self._notices.report_while("FloorMissed", describe_missed(status.deployments, floors, now))
        self._am.note_output(
            mean=snapshot.output.mean,
            quantile=snapshot.response(self._settings.objective.statistic),
            now=self._clock.monotonic(),
        )
        fits = self._lifecycle.fits(status.deployments)
        violated = snapshot.violates(self._settings.objective)
        budgets, infeasible = self._share(flow if fits else None, snapshot, violated)
        tick = Tick(
            snapshot=snapshot,
            # Of a job that is not to run, nothing is expected.
            violated=None if directives.suspended else violated,
            deployments=status.deployments,
            budgets=budgets,
            held=self._find_reason_to_hold(snapshot, directives, fits),
            failing=self._lifecycle.failing,
            infeasible=infeasible,
            mode=directives.mode,
            guards=guards_at(directives, now, snapshot.app),
            floors=floors,
            restarts_left=self._memory.tokens(now).available(self._am.restarts, now),
        )
        tick = evaluate(tick, status, settings=self._settings, managers=self._managers, am=self._am)
        if not tick.held:
            self._notices.report_while("ModelCorrected", _describe_corrected(self._managers))
            self._notices.report_while("Skewed", ". ".join(tick.skewed.values()))
        if tick.assumed:
            self._notices.report_while("VarianceAssumed", tick.assumed)
        return tick

    def _decide(self, tick: Tick, flow: Dataflow) -> Tick:
        proposed = self._managers.propose(tick.observations, flow)
        within = cut_all(proposed, tick.observations, tick.splits)
        return replace(tick, proposals=insist(within, tick.guards))

    def _arbitrate(
        self, tick: Tick, flow: Dataflow, undone: RescaleJournal | None
    ) -> tuple[Tick, Ruling]:
        """Return the tick with its verdicts, and what is granted: of the proposals, or instead.

        `undone` is a change that must be taken back.
        """
        status, proposals = self._store.load(), tick.proposals
        ruling = None
        if undone is not None:
            ruling = self._roll_back(undone, tick, status)
        if ruling is None:
            ruling = self._rule(tick, flow, status)
        if tick.mode is Mode.ADVISE:
            bill = self._memory.advisor.follow(tick, flow, self._notices)
            tick = replace(tick, bill=bill)
            ruling = ruling.only_advised(tick.mode.value, status.deployments)
        else:
            self._memory.advisor.release_replicas()
        verdicts = append_limits(
            ruling.verdicts,
            proposals,
            neighbourhoods=self._managers.neighbourhoods,
            splits=tick.splits,
            floors=tick.floors,
            skewed=tick.skewed,
        )
        short = [name for name, each in proposals.items() if is_short_of_money(each)]
        capped = self._am.cap.describe(tick.observations, short, tick.floors)
        self._notices.report_while("CostCapped", capped)
        change = ChangeSoFar(
            bound=self._settings.objective.response_time,
            expected=expect_response(ruling.granted, proposals, flow, tick.observations),
            before=tick.measured,
        )
        ruling = replace(
            ruling,
            id=new_id()[:12],
            verdicts=verdicts,
            proposals=proposals,
            change=None if ruling.reason else change,
        )
        restarts = ruling.restart and not ruling.reason
        return replace(tick, verdicts=verdicts, restarts=restarts, capped=capped), ruling

    def _roll_back(self, undone: RescaleJournal, tick: Tick, status: AppStatus) -> Ruling | None:
        refusal = refuse_move(
            status.deployments, undone.source, self._models, tick.guards, tick.observations
        )
        refusal = refusal or refuse_below_floors(undone.source, tick.floors)
        refusal = refusal or self._am.cap.refuse(undone.source, status.deployments)
        refusal = refusal or self._refuse_unasked(undone.source, tick.snapshot.now)
        worse = f"Change {undone.id} did worse than expected, but Weir cannot roll it back"
        self._notices.report_while("RollbackBlocked", f"{worse}: {refusal}" if refusal else "")
        if refusal is not None:
            return None
        reason = f"Weir rolls back change {undone.id}, which did worse than expected"
        return self._go_to(undone.source, status, reason)

    def _rule(self, tick: Tick, flow: Dataflow, status: AppStatus) -> Ruling:
        snapshot = tick.snapshot
        unmeasured: dict[str, str] = {}
        if self._shared is not None and snapshot.vertices is None:
            unmeasured = dict.fromkeys(self._shared.vertices, UNMEASURED_VERTICES)
        elif self._shared is not None and snapshot.vertices is not None:
            separated = self._separate(self._shared, tick, status)
            if separated is not None:
                return separated
        move = self._am.find_move(snapshot, status)
        self._notices.report_while("NodeSlow", "" if move is None else move.reason)
        ruling = self._am.rule(
            {name: each for name, each in tick.proposals.items() if name not in unmeasured},
            dataflow=flow,
            current=status.deployments,
            failed=status.failed,
            tokens=self._memory.tokens(snapshot.now),
            now=snapshot.now,
            guards=tick.guards,
            observations=tick.observations,
            move=move,
        )
        return replace(ruling, verdicts={**ruling.verdicts, **unmeasured})

    def _separate(self, shared: SharedOperators, tick: Tick, status: AppStatus) -> Ruling | None:
        snapshot, seen = tick.snapshot, tick.observations
        wanted = {
            name: each.decision.target.named(each.observation.model.node_types)
            for name, each in tick.proposals.items()
            if name in shared.vertices
            and each.decision.target.size > each.observation.deployment.size
        }
        is_needed = bool(wanted or tick.violated) or any(
            at_risk(seen[name]) for name in shared.vertices if name in seen
        )
        found = shared.find_separation(status.deployments, snapshot.vertices or {}, wanted)
        if found is not None and not (
            is_needed or costs_less(found.target, status.deployments, seen)
        ):
            found = None  # not worth a restart
        if found is None or status.revision is None:
            self._notices.report_while("VerticesBusy", "")
            return None
        waiting = describe_waiting(found.waiting, shared.pool_limits, shared.max_operators)
        if not found.busy:
            self._notices.report_while("VerticesBusy", waiting)
            return None
        reason = describe_busy(found.busy, self._settings.interval)
        # Each can be scaled by itself afterwards; those with less work may have fewer replicas.
        refusal = refuse_change(ScalingDirection.OUT, tick.guards)
        if found.scales_in:
            refusal = refusal or refuse_change(ScalingDirection.IN, tick.guards)
        refusal = refusal or refuse_below_floors(found.target, tick.floors)
        refusal = refusal or self._am.cap.refuse(found.target, status.deployments)
        refusal = refusal or self._refuse_unasked(found.target, snapshot.now)
        if tick.mode is Mode.ADVISE:
            refusal = f"Only advised: spec.mode is {tick.mode.value}"
        parts = (reason, refusal, waiting) if refusal else (waiting,)
        self._notices.report_while("VerticesBusy", ". ".join(each for each in parts if each))
        if refusal is not None:
            return None
        ruling = self._go_to(found.target, status, reason)
        return replace(ruling, vertices=found.vertices)

    def _begin(self, ruling: Ruling) -> None:
        if ruling.restart:
            self._am.pay_shared()
        self._actor.begin(ruling)

    def _teach(self, tick: Tick, directives: Directives, granted: Ruling | None) -> LearningOutcome:
        """Tell the managers what becomes of their decisions, and return what they were told."""
        if granted is not None and not granted.reason:
            self._managers.act(granted.granted)
            return LearningOutcome.ACTED
        if granted is None and not tick.held:
            return LearningOutcome.NOTHING
        changes = self._is_changing or not tick.snapshot.settled
        stands_still = directives.mode is Mode.OFF or directives.suspended
        if granted is None and changes and not stands_still:
            missed = tick.violated is True
            self._managers.wait(missed=missed)
            return LearningOutcome.MISSED if missed else LearningOutcome.WAITED
        self._managers.skip()  # no operator proposed what follows, or nothing does
        return LearningOutcome.SKIPPED

    @property
    def _is_changing(self) -> bool:
        return self._lifecycle.is_changing or self._actor.is_acting

    def _share(
        self, flow: Dataflow | None, snapshot: Snapshot, violated: bool | None
    ) -> tuple[dict[str, float], str]:
        """Return the budgets; what is impossible is claimed only while nothing contradicts it."""
        if flow is None:
            return {}, self._infeasible
        budgets, claim = self._am.sharing.share(flow, self._managers)
        if violated is False:
            claim = ""  # the objective was kept a moment ago: the model is wrong
        elif not snapshot.settled or not snapshot.healthy:
            claim = self._infeasible  # neither a start nor bad metrics say anything of it
        return budgets, claim

    def _find_reason_to_hold(self, snapshot: Snapshot, directives: Directives, fits: bool) -> str:
        if directives.mode is Mode.OFF:
            return "spec.mode is Off"
        if directives.suspended:
            return "spec.state is Suspended"
        if self._is_changing:
            return "A change is in progress"
        if not fits:
            return "The job does not run yet with the operators and pools of the manifest"
        return snapshot.reason_to_hold

    # -- changes that no operator proposed --------------------------------------------------------

    @property
    def _models(self) -> dict[str, OperatorModel]:
        return {name: each.model for name, each in self._managers.items() if each.fixed is None}

    def _refuse_unasked(self, target: Deployments, now: float) -> str | None:
        """Return why a change that no operator proposed must wait; `None` where it need not."""
        status = self._store.load()
        known = find_failed(status.failed, status.deployments, target, now)
        if known is not None:
            return describe_failed(known, now)
        return self._am.refuse_restart(self._memory.tokens(now), now)

    def _go_to(self, target: Deployments, status: AppStatus, reason: str) -> Ruling:
        """Grant a change of the whole, which `_refuse_unasked` does not refuse."""
        current, now = status.deployments, self._clock.now()
        changed = tuple(name for name in current if current[name] != target.get(name))
        return Ruling(
            verdicts=dict.fromkeys(changed, f"Granted: {reason}"),
            granted=changed,
            target=target,
            restart=True,
            tokens=self._memory.tokens(now).take(self._am.restarts, now),
            reason=reason,
            id=new_id()[:12],
        )

    def _fall_back(
        self, healthy: bool, directives: Directives, guards: tuple[Guard, ...], floors: Floors
    ) -> Ruling | None:
        """Return `spec.fallback` as a change where the metrics have been unhealthy too long."""
        now = self._clock.monotonic()
        if self._outage.note(healthy=healthy, now=now):
            self._notices.report("FallbackEnded", "The metrics are healthy; Weir decides again")
        if healthy:
            self._notices.report_while("FallbackHeld", "")
        status = self._store.load()
        idle = not (self._is_changing or directives.suspended)
        idle = idle and self._lifecycle.fits(status.deployments)
        below = refuse_below_floors(status.deployments, floors) is not None
        if (
            not idle
            or directives.mode is Mode.OFF
            or not self._outage.is_due(directives.fallback, now, again=below)
        ):
            return None
        asked, current, models = directives.fallback, status.deployments, self._models
        target = self._am.find_fallback(asked, current, models, floors)
        moves = target != current
        refusal = refuse_move(current, target, models, guards)
        if directives.mode is not Mode.AUTO:
            refusal = f"Only advised: spec.mode is {directives.mode.value}"
        if self._outage.is_answered and (refusal is not None or not moves):
            return None
        if refusal is None and moves:
            refusal = self._refuse_unasked(target, self._clock.now())
        reason = (
            f"The metrics have been unhealthy for at least {asked.after}: the "
            f"fallback is {asked.deployment.value}"
        )
        if refusal is not None:
            # Once per outage; it is taken when what holds it back is over.
            self._notices.report_while("FallbackHeld", f"{reason}; {refusal}")
            return None
        self._outage.answer()
        self._notices.report("FallbackTaken", reason)
        return self._go_to(target, status, reason) if moves else None


def _record_of(
    tick: Tick, decisions: tuple[DecisionRecord, ...], lesson: LearningOutcome
) -> JobTick:
    snapshot, flow = tick.snapshot, tick.snapshot.dataflow
    return JobTick(
        time=snapshot.now,
        seconds=snapshot.now - snapshot.start,
        violated=tick.violated,
        operators=() if flow is None else flow.operators,
        edges=() if flow is None else flow.edges,
        splits={name: count for name, count in tick.splits.items() if not math.isnan(count)},
        lesson=lesson,
        fixed={
            name: seen for name, seen in tick.observations.items() if name not in tick.proposals
        },
        keys=tick.keys,
        sample=tick.sample,
        decisions=decisions,
    )


def _describe_corrected(managers: Managers) -> str:
    wrong = sorted(name for name, each in managers.items() if each.is_corrected)
    if not wrong:
        return ""
    return (
        f"The response time of {', '.join(wrong)} was not as the queueing model expects in "
        f"{WRONG_FOR} intervals in a row; Weir plans with the waiting that it measured"
    )
