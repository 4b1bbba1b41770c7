"""A StreamApp with an external job (`spec.flink.ref`): Weir measures it, and advises or scales it.

It runs the same loops as every StreamApp, with a runtime that only reads. In mode Advise, nothing
is changed; in mode Auto, the parallelism of the vertices is, where the job runs (`in_place`).

If the owner deploys a job with other operators, the loops end and start again for these. What was
learned is stored by operator name, so operators that still exist keep it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from weir_operator.advise.advice import Advice, advise, cost_of_pods, share_cost
from weir_operator.advise.flink_deployment import explain_wait
from weir_operator.advise.in_place import InPlace, InPlaceRescaler
from weir_operator.advise.metrics import PERIOD, ExternalMetrics, PrometheusFor
from weir_operator.advise.read_only import (
    ExternalJobs,
    ExternalRuntime,
    ExternalStore,
    JobChangedError,
)
from weir_operator.advise.view import (
    SEEN_FIRST,
    ExternalJob,
    PodPlace,
    external_app,
    other_max_parallelism,
    unknown_operators,
)
from weir_operator.advise.watch import JobWatch
from weir_operator.api.background import run_unless
from weir_operator.api.client import KubernetesApi
from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.fence import Guard
from weir_operator.loop.directives import Directives, LoopSettings, directives_of
from weir_operator.loop.events import Notices
from weir_operator.loop.loop import Loop, Surroundings, Trouble
from weir_operator.loop.record import TolerantRecords
from weir_operator.loop.restart_limits import SharedRestarts
from weir_operator.loop.tick import Tick
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.streamapp.models import Mode, State, StreamApp
from weir_operator.wiring import assembly
from weir_operator.wiring.loops import Dependencies, Steering, assemble

LOOK_EVERY = 30.0
"""Seconds between two checks of the job: Weir need not be quick where it keeps no job alive."""
LOOK_AGAIN = 30.0
"""Seconds until a job that could not be seen is looked for again."""

log = structlog.get_logger()


async def _compile_in_a_thread(policy: str, compile_policy: Callable[[], None]) -> None:
    await asyncio.to_thread(compile_policy)


@dataclass(frozen=True, kw_only=True)
class ExternalDependencies(Surroundings):
    """What the advice for one StreamApp needs. Whoever made the parts also closes them."""

    api: KubernetesApi
    writer: KubernetesApi | None = None
    """What changes a FlinkDeployment; `None` in mode Advise."""
    guard: Guard | None = None
    """Asked before Flink is asked for another parallelism."""
    records: TolerantRecords
    folder: Path
    """Where what was learned is kept."""
    prometheus: PrometheusFor | None
    """`None` asks the job's own Flink."""
    on_found: Callable[[LoopSettings, Mapping[str, float]], None]
    """Called with the loops' settings and with prices (currency per replica and hour, by node type)
    whenever loops were made for the job. All replicas together cost what its TaskManagers' pods
    cost today. Reports of what the loops did need both."""
    on_advice: Callable[[Advice | None], None]
    """Told of advice, and of `None` where what it was learned from was forgotten."""
    compile: Callable[[str, Callable[[], None]], Awaitable[None]] = _compile_in_a_thread
    """Compiles the policy of that name beside the event loop, once where several share it."""
    directives: Callable[[], Directives] | None = None
    """Read at every check and tick; `None` takes what the manifest says."""
    on_change: Callable[[RescaleJournal], None] | None = None
    """Told of each change's beginning and end; `None` only records it."""
    shared_restarts: SharedRestarts | None = None
    """The restart budget over all StreamApps; `None` where there is none."""
    phase: float | None = None
    """See `LoopSettings.phase`."""
    poll_every: float = PERIOD
    """Seconds between two rounds of questions, where Flink itself is asked; not below its own
    `metrics.fetcher.update-interval`."""


class ExternalApp:
    """Advises one StreamApp until it is stopped."""

    def __init__(self, app: StreamApp, around: ExternalDependencies) -> None:
        self._app = app
        self._around = around
        self._notices = Notices(around.on_event, around.clock)
        self._watch = JobWatch(app, around.api)
        self._in_place = (
            None
            if around.writer is None
            else InPlace(around.writer, self._watch, guard=around.guard, clock=around.clock)
        )
        self._refusal = ""
        self._checked = False
        self._told = ""
        self._learned = 0
        self._went_on = False
        self._reset_nonce = app.spec.reset_nonce

    async def run(self, stop: asyncio.Event) -> None:
        """Advise until `stop` is set; wait for a job that does not run, and report it once."""
        metrics = ExternalMetrics(
            watch=self._watch,
            prometheus=self._around.prometheus,
            clock=self._around.clock,
            period=self._around.poll_every,
        )
        metrics.start()
        try:
            while not stop.is_set():
                try:
                    await self._watch.refresh()
                    self._around.on_trouble(Trouble(Loop.HEALTH_CHECK, ""))
                    await self._run_loops(metrics, stop)
                except JobChangedError as change:
                    self._report("JobChanged", str(change))
                except WeirError as error:
                    self._report("JobNotSeen", str(error))
                    self._around.on_trouble(Trouble(Loop.HEALTH_CHECK, str(error)))
                    await run_unless(stop, self._around.clock.sleep(LOOK_AGAIN))
        finally:
            await metrics.close()
            await self._watch.close()

    async def _run_loops(self, metrics: ExternalMetrics, stop: asyncio.Event) -> None:
        job = self._watch.job
        if job is None:
            return
        await self._restore_parallelism()
        reference = self._watch.reference
        deployment = None if reference is None else reference.deployment
        app = external_app(
            self._app,
            job,
            pools=self._watch.pools,
            most_slots=None if deployment is None else deployment.most_slots,
        )
        self._report("UnknownOperators", unknown_operators(self._app, job))
        if self._in_place is None:
            self._report("MaxParallelismDiffers", other_max_parallelism(self._app, job))
        runtime = ExternalRuntime(self._watch)
        around = self._around
        steering: Steering | None = None

        def on_tick(tick: Tick) -> None:
            around.on_tick(tick)
            if steering is not None:
                self._advise(tick, app, steering)

        steering = assemble(
            app,
            Dependencies(
                runtime=runtime,
                jobs=ExternalJobs(runtime, self._watch),
                store=ExternalStore(around.store, self._watch, scales=self._in_place is not None),
                source=metrics,
                records=around.records,
                folder=around.folder,
                clock=around.clock,
                on_tick=on_tick,
                on_event=around.on_event,
                on_change=around.on_change or (lambda change: around.records.write([change])),
                on_trouble=around.on_trouble,
                directives=self._asked,
                shared_restarts=around.shared_restarts,
                rescaler=Rescaler
                if self._in_place is None
                else partial(InPlaceRescaler, in_place=self._in_place, watch=self._watch),
                phase=around.phase,
                wait=lambda: around.clock.sleep(LOOK_EVERY),
                paid=lambda: cost_of_pods(app, self._pods),
            ),
            job=assembly.job_spec(app, beside=around.folder),
        )
        await around.compile(app.spec.operator_manager.policy.name, steering.managers.compile)
        self._told, self._learned, self._went_on = "", 0, False
        self._report_terms(app, job)
        keeping = asyncio.create_task(self._keep_parallelism())
        try:
            await steering.controller.run(stop)
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping

    @property
    def _task_managers(self) -> tuple[PodPlace, ...]:
        """The TaskManagers' pods, which are paid for in addition to the JobManager's."""
        return () if self._watch.job is None else tuple(self._watch.job.places.values())

    @property
    def _pods(self) -> tuple[PodPlace, ...]:
        return (*self._task_managers, *self._watch.job_managers)

    def _asked(self) -> Directives:
        written = self._around.directives
        asked = directives_of(self._app) if written is None else written()
        mode = asked.mode
        if mode is Mode.AUTO and self._in_place is None:
            mode = Mode.ADVISE
        refused = asked.refused or self._refusal
        return replace(asked, mode=mode, state=State.RUNNING, revision=None, refused=refused)

    async def _keep_parallelism(self) -> None:
        """Check the job again and again, in mode Auto."""
        while self._in_place is not None:
            await self._around.clock.sleep(LOOK_EVERY)
            await self._restore_parallelism()

    async def _restore_parallelism(self) -> None:
        """Check whether the job can be scaled, and give a restarted one its parallelism again."""
        if self._in_place is None:
            return
        try:
            dry_run = not self._checked or bool(self._refusal)
            deployment = await self._in_place.check(dry_run=dry_run)
            self._checked, self._refusal = True, explain_wait(deployment)
            lost = await self._in_place.restore()
        except PermanentError as error:
            if str(error) != self._refusal:
                self._notices.report("ScalingRefused", str(error))
            self._refusal = str(error)
        except TemporaryError as error:
            log.info("whether the job can be scaled is not known", reason=str(error))
        else:
            if lost:
                self._notices.report(
                    "ParallelismRestored",
                    "A restart reset the job's parallelism; Weir set it again",
                )

    def _report_terms(self, app: StreamApp, job: ExternalJob) -> None:
        settings = replace(
            assembly.loop_settings(app),
            job_manager_price=cost_of_pods(app, self._watch.job_managers),
        )
        paid = cost_of_pods(app, self._task_managers)
        self._around.on_found(settings, share_cost(app, job, paid))

    def _advise(self, tick: Tick, app: StreamApp, steering: Steering) -> None:
        job, nonce = self._watch.job, self._asked().reset_nonce
        if nonce != self._reset_nonce:
            self._reset_nonce, self._learned, self._went_on = nonce, 0, False
            self._around.on_advice(None)
        # A manager learns from two decisions in a row, so a tick that held costs an interval.
        self._learned += self._went_on and bool(tick.proposals)
        self._went_on = bool(tick.proposals)
        if job is None or self._learned < SEEN_FIRST or self._asked().mode is not Mode.ADVISE:
            return  # what a lull of some minutes needs is no advice
        advice = advise(tick, job, steering.managers, app=app, pods=self._pods)
        if advice is not None:
            self._around.on_advice(advice)

    def _report(self, reason: str, message: str) -> None:
        if message and message != self._told:
            self._told = message
            self._notices.report(reason, message)
