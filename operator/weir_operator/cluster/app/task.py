"""The task of one StreamApp on a cluster, from its creation to its deletion.

The task opens the status and then runs in rounds: it builds the loops for the current spec, starts
the job, and runs the loops until the spec asks for others. If a round ends in an error, the task
reports it (`Ready`, an event, a count) and starts the next round after a pause that grows; in the
middle of a change, when the job may be down, the pause stays short. An invalid spec ends no round:
the job keeps running, and the status says what is wrong. If the task must not act any more (the
Lease is lost, another controller writes the status, an annotation gives the StreamApp away), it is
cancelled at once and reports nothing.

Every StreamApp has its own task, so a JobManager that hangs does not delay other jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from contextvars import Context

import structlog
from pydantic.types import JsonValue

from weir_operator.accounts import Account
from weir_operator.advise.app import ExternalApp, ExternalDependencies
from weir_operator.api.background import keep_running, run_unless
from weir_operator.api.leader import LeaseLostError
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.autoscaler_conflicts import refuse_scaling
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.app.last_valid_spec import keep_spec, load_spec
from weir_operator.cluster.app.opening import AppStores, open_loops, open_stores, phase_of
from weir_operator.cluster.app.preflight import read_app
from weir_operator.cluster.app.reporter import StatusReporter
from weir_operator.cluster.status.ownership import ANNOTATION, ManagedElsewhereError
from weir_operator.cluster.status.store import StatusClient, read_journal
from weir_operator.cluster.status.view import first_facts
from weir_operator.errors import (
    InvalidStreamAppError,
    PermanentError,
    TemporaryError,
    WeirError,
    describe_unexpected,
)
from weir_operator.flink.job_graph import Plan
from weir_operator.loop.directives import (
    Directives,
    carried_by_directives,
    directives_of,
)
from weir_operator.rescale.journal import Direction, Kind, Step
from weir_operator.runtime.protocol import release_replicas
from weir_operator.streamapp.models import Mode, StreamApp
from weir_operator.wiring.discovery import OperatorsChangedError
from weir_operator.wiring.loops import state_directory
from weir_policies.errors import WeirPolicyError

FIRST_PAUSE = 2.0
LONGEST_PAUSE = 300.0
"""Seconds between a run that failed and the next one."""
LONGEST_MID_CHANGE = 20.0
"""The same while a change is unfinished."""
LOOK_ELSEWHERE = 60.0
"""Seconds between two checks of a StreamApp that another installation looks after."""
HEALTHY_AFTER = 600.0
"""Seconds of a run after which the next pause is short again."""


def choose_pause(kind: str, before: float, *, mid_change: bool) -> float:
    """Return seconds until the next run.

    Args:
        kind: Of the error that ended the last one.
        before: Seconds that the last pause took.
        mid_change: Whether a change is unfinished: the job may be down until somebody continues.
    """
    if kind == "fenced":
        return FIRST_PAUSE  # the next run finds out who the owner is
    if mid_change and kind != "elsewhere":
        return min(LONGEST_MID_CHANGE, 2 * before)
    if kind == "permanent":
        return LONGEST_PAUSE
    return min(LOOK_ELSEWHERE if kind == "elsewhere" else LONGEST_PAUSE, 2 * before)


def is_mid_change(status: Mapping[str, JsonValue]) -> bool:
    """Return whether a change is unfinished, by the StreamApp's status."""
    journal = read_journal(status)
    step = journal.get("step")
    return isinstance(step, str) and step in {str(each) for each in Step if not each.is_end}


def has_stopped_the_job(status: Mapping[str, JsonValue]) -> bool:
    """Return whether an unfinished change has stopped a job that ran, by the StreamApp's status."""
    journal = read_journal(status)
    if not is_mid_change(status):
        return False
    forward = journal.get("direction", str(Direction.FORWARD)) == str(Direction.FORWARD)
    is_rescale = journal.get("kind") == str(Kind.RESCALE)
    if is_rescale and forward and journal.get("step") == str(Step.START):
        return False  # the old job runs while TaskManagers start
    return journal.get("kind") in (str(Kind.RESCALE), str(Kind.UPGRADE))


log = structlog.get_logger()

STOP_TIMEOUT = 15.0
"""Seconds that a change under way may take to its end when the controller stops; then the next
controller continues from the journal."""
FINISH_TIMEOUT = 120.0
"""The same for a change that has stopped the job: nobody else may start it again for long, such as
after `helm uninstall`."""
LOOK_AT_CHANGE = 0.2
"""Seconds between two looks at such a change."""
INTERRUPTED = (
    "Weir was stopped in the middle of a change, before the job ran again; it finishes the change "
    "when it runs again"
)


JOB_FINISHED = (
    "The job has finished; to run it again, change "
    "spec.flink.job.restoreNonce (it then starts from "
    "spec.flink.job.initialSavepoint)"
)


class AppTask:
    """Runs one StreamApp: `note` takes its object, `run` is the task."""

    def __init__(self, resource: Resource, context: ControllerContext) -> None:
        self.resource = resource = resource.detached()
        self._context = context
        self._seen = False
        self._app: StreamApp | None = None
        self._asked = Directives()  # of the loops as they run
        self._mistake: InvalidStreamAppError | None = None
        self._told_mistake = ""
        self._failure = ""  # of the last run, until the job runs again
        self._runs = False  # the job was brought up, and no run has failed since
        self._finished = False  # the job came to its own end, and no loop waits for directives
        self._plan: Plan | None = None  # what the job's program builds, as far as that is known
        self._refused = ""  # why nothing may be scaled, as far as the surroundings know
        self._account = Account(on_change=self._tell_refusal)
        self._stop = asyncio.Event()  # ends the present run
        self._lost = asyncio.Event()  # ends it where it is: another controller may be to act
        self._writer = StatusClient(context.api, resource, context.fence, on_lost=self._lost.set)
        self._changed = asyncio.Event()  # wakes a waiting task
        self._stopping = False
        self._reporter: StatusReporter | None = None
        self._task: asyncio.Task[None] | None = None
        self.note(resource)

    @property
    def is_running(self) -> bool:
        """Whether the task runs."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start the task unless it runs."""
        if not self.is_running:
            # kopf's handlers run in a context that holds the whole object. A task copies its
            # creator's context, and would keep that object in memory as long as it runs.
            self._task = asyncio.create_task(
                self.run(), name=f"streamapp {self.resource.key}", context=Context()
            )

    def note(self, resource: Resource) -> None:
        """Store the object as it is now; level-based: the same object again changes nothing."""
        if self._seen and resource.asks_the_same_as(self.resource):
            return
        handed_over = self._seen and (
            resource.annotations.get(ANNOTATION) != self.resource.annotations.get(ANNOTATION)
        )
        self._seen = True
        self.resource = resource = resource.detached()
        self._writer.note(resource.annotations)
        if handed_over:
            self._lost.set()
            self._changed.set()
        before, self._mistake, self._failure = self._app, None, ""
        try:
            self._app = read_app(resource)
        except InvalidStreamAppError as mistake:
            self._mistake = mistake  # the last valid spec stays in use
        self._ask()
        if self._reporter is None:
            self._changed.set()  # nothing runs that could be told, as in the pause after a failure
        if self._app is None or self._mistake is not None:
            return
        carried = before is not None and carried_by_directives(before.spec, self._app.spec)
        if self._finished or not carried:
            self._stop.set()
            self._changed.set()

    async def run(self) -> None:
        """Open the StreamApp and run it, again after each failure, until `stop` is called."""
        structlog.contextvars.bind_contextvars(app=str(self.resource.key))
        self._account.use()
        pause = FIRST_PAUSE
        while not self._stopping:
            began = self._context.clock.monotonic()
            self._changed.clear()  # read now, so it must not shorten the next pause
            try:
                await self._writer.open()
                await self._writer.settle()
                await self._run_once(self._writer)
                pause = FIRST_PAUSE
                continue
            except LeaseLostError as error:
                kind, failure = "fenced", str(error)
            except ManagedElsewhereError as error:
                self._context.events.post(self.resource, "ManagedElsewhere", str(error))
                kind, failure = "elsewhere", str(error)
            except (PermanentError, WeirPolicyError) as error:
                kind, failure = "permanent", str(error)
            except TemporaryError as error:
                kind, failure = "temporary", str(error)
            except WeirError as error:  # the job failed, or is not the one that was expected
                kind, failure = "job", str(error)
            except Exception as error:  # a defect of Weir must not end the task of an app
                log.exception("defect")
                kind, failure = "defect", describe_unexpected(error)
            if self._context.clock.monotonic() - began > HEALTHY_AFTER:
                pause = FIRST_PAUSE
            pause = choose_pause(kind, pause, mid_change=is_mid_change(self._writer.status))
            self._fail(kind, failure, pause)
            await self._wait_before_retry(pause)

    async def stop(self, *, finish: bool = False) -> None:
        """End the task and let the job run on; a change in progress may finish first.

        Args:
            finish: A change that has stopped the job gets more time, to start it again.
        """
        if finish:
            await self._let_the_job_start()
        self._stopping = True
        self._stop.set()
        self._changed.set()
        if self._task is None:
            return
        try:
            self._context.fence.check()
            await asyncio.wait({self._task}, timeout=STOP_TIMEOUT)
        except LeaseLostError:
            self._lost.set()  # what it can still do is to wait in vain
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=1.0)
        if not self._task.cancelled() and self._task.exception() is not None:
            log.error(
                "task ended badly", app=str(self.resource.key), exc_info=self._task.exception()
            )

    async def _let_the_job_start(self) -> None:
        until = self._context.clock.monotonic() + FINISH_TIMEOUT
        while self.is_running and has_stopped_the_job(self._writer.status):
            if self._lost.is_set() or self._context.clock.monotonic() >= until:
                return
            await self._context.clock.sleep(LOOK_AT_CHANGE)

    async def _run_once(self, writer: StatusClient) -> None:
        """Steer until the spec asks for other loops, or the job is at its end."""
        stop = self._stop = asyncio.Event()
        self._lost.clear()
        self._changed.clear()
        self._finished = False
        if self._stopping:
            return
        writer.check()  # it may have been given away since it was opened
        context = self._context
        await self._remember_the_spec()
        app = self._app
        facts = first_facts(self.resource.generation, app)
        reporter = self._reporter = StatusReporter(context, self.resource, writer, facts)
        if self._failure:
            # What people must see to is not hidden by each new try.
            reporter.set_ready(
                "False", "ReconcileFailed", f"Weir tries again after: {self._failure}"
            )
        self._tell_spec()
        self._tell_refusal(self._account.refusal)
        async with reporter.writing():
            try:
                if app is not None:
                    async with (
                        self._watching_autoscalers(app, reporter),
                        open_stores(context, self.resource, writer, reporter) as stores,
                    ):
                        await run_unless(self._lost, self._steer(app, stores, reporter, stop))
                await run_unless(self._lost, self._changed.wait())
                if self._lost.is_set():
                    writer.check()
            except LeaseLostError:
                raise  # the status is for the next controller to write
            except OperatorsChangedError as change:
                self._plan = change.plan  # the next run makes the loops for these operators
            except Exception as error:
                expected = isinstance(error, (WeirError, WeirPolicyError))
                self._failure = str(error) if expected else describe_unexpected(error)
                self._runs = False
                reporter.set_ready("False", "ReconcileFailed", self._failure)
                reporter.report_failure(self._failure)
                raise
            finally:
                if self._stopping and has_stopped_the_job(writer.status):
                    reporter.set_ready("False", "ChangeInterrupted", INTERRUPTED)
                self._reporter = None

    async def _remember_the_spec(self) -> None:
        """Store a valid spec; if the spec is invalid, use the stored one."""
        folder = state_directory(self._context.state, str(self.resource.key))
        if self._app is not None and self._mistake is None:
            await asyncio.to_thread(keep_spec, folder, self.resource)
        elif self._app is None:
            self._app = await asyncio.to_thread(load_spec, folder, self.resource)
            if self._app is not None:
                self._asked = directives_of(self._app, refused=self._refused)

    async def _steer(
        self,
        app: StreamApp,
        stores: AppStores,
        reporter: StatusReporter,
        stop: asyncio.Event,
    ) -> None:
        context = self._context
        if app.spec.flink.ref is not None:
            if app.spec.mode is Mode.AUTO:
                reporter.set_ready(
                    "True", "ScalingInPlace", "Weir scales the job's vertices where the job runs"
                )
            else:
                reporter.set_ready("True", "Advising", "Weir advises the job and does not touch it")
            await self._run_external(app, stores, reporter, stop)
            return
        async with AsyncExitStack() as stack:
            loops = await stack.enter_async_context(
                open_loops(
                    context,
                    app,
                    self.resource,
                    stores,
                    reporter,
                    lambda: self._asked,
                    self._plan,
                )
            )
            if self._runs:
                reporter.set_ready(
                    "True", "JobRunning", "The job is running; Weir is applying a new spec"
                )
            elif self._failure:
                pass  # it stands until the job runs
            elif stores.store.load().job_id is not None:
                reporter.set_ready(
                    "Unknown", "Reconciling", "Weir is checking whether the job runs"
                )
            else:
                reporter.set_ready("False", "Starting", "Weir is starting the job")
            await context.compiler.ensure(
                app.spec.operator_manager.policy.name, loops.steering.managers.compile
            )
            await run_unless(stop, loops.steering.lifecycle.bring_up())
            if stop.is_set():
                return
            self._failure, self._runs = "", True
            reporter.set_ready("True", "JobRunning", "The job is running")
            await loops.steering.controller.run(stop)
            if not self._changed.is_set():
                await release_replicas(loops.runtime)
                self._finished, self._runs = True, False
                reporter.set_ready("False", "JobFinished", JOB_FINISHED)

    async def _run_external(
        self, app: StreamApp, stores: AppStores, reporter: StatusReporter, stop: asyncio.Event
    ) -> None:
        api, scales = self._context.api, app.spec.mode is Mode.AUTO
        around = ExternalDependencies(
            api=api,
            writer=api.guarded(stores.guard) if scales else None,
            guard=stores.guard,
            store=stores.store,
            records=stores.records,
            folder=stores.folder,
            prometheus=self._context.dependencies.prometheus(),
            clock=self._context.clock,
            on_found=reporter.set_terms,
            on_tick=reporter.on_tick,
            on_advice=reporter.on_advice,
            on_event=reporter.on_event,
            on_change=reporter.on_change,
            on_trouble=reporter.on_trouble,
            shared_restarts=self._context.shared_restarts,
            compile=self._context.compiler.ensure,
            directives=lambda: self._asked,
            phase=phase_of(self.resource),
        )
        await ExternalApp(app, around).run(stop)

    # -- what people and autoscalers ask ----------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _watching_autoscalers(
        self, app: StreamApp, reporter: StatusReporter
    ) -> AsyncIterator[None]:
        """Check in the background whether something else scales the job; then Weir does not."""
        told: set[str] = set()

        def report_autoscalers(found: tuple[str, ...]) -> None:
            for sentence in sorted({*found} - told):
                reporter.report("OtherAutoscaler", sentence)
            told.clear()
            told.update(found)
            self._refused = refuse_scaling(app.spec.mode, told)
            self._ask()

        context = self._context
        looking = asyncio.create_task(
            keep_running(
                "autoscalers",
                lambda: context.autoscaler_conflicts.watch(app, report_autoscalers),
                clock=context.clock,
                count=context.telemetry.count_task_failure,
            )
        )
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait({looking})

    def _ask(self) -> None:
        """Store what the manifest and the controller ask of the loops."""
        if self._app is not None and self._mistake is None:
            self._asked = directives_of(self._app, refused=self._refused)
        self._tell_spec()

    # -- telling ----------------------------------------------------------------------------------

    def _tell_spec(self) -> None:
        """Put into the status of which spec it speaks, and what is wrong with that."""
        if self._reporter is None:
            return
        sentence = str(self._mistake or "")
        self._reporter.set_spec(self.resource.generation, sentence, self._asked)
        if sentence and sentence != self._told_mistake:
            self._reporter.report("InvalidSpec", sentence)
        self._told_mistake = sentence

    def _tell_refusal(self, sentence: str) -> None:
        """Put into the status what about the job is too large to be read."""
        if self._reporter is not None:
            self._reporter.set_refusal(sentence)

    def _fail(self, kind: str, failure: str, pause: float) -> None:
        """Report a run that failed and the seconds until the next one."""
        key = self.resource.key
        self._context.telemetry.errors.add(key, kind)
        log.warning("reconcile failed", kind=kind, failure=failure, again_in=pause)
        if kind in ("permanent", "defect") and failure != self._failure:
            # It failed before there was a status to report it in.
            self._context.events.post(self.resource, "ReconcileFailed", failure)

    async def _wait_before_retry(self, seconds: float) -> None:
        """Wait for a change of the object, or until a pause of about so many seconds is over."""
        # Spread, or all StreamApps that an outage has stopped would come back in one moment.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds * random.uniform(0.75, 1.25))
