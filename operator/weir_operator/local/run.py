"""Runs one StreamApp on this machine, from manifest to end, for `weir local`.

It reads the manifest again whenever its file has changed (time or size). On Kubernetes, the API
server reports changes instead.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from weir_operator.clock import Clock, SystemClock
from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.flink.agent import find_agent
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.job_graph import Plan
from weir_operator.local.program import find_program, flink_configuration, load_app
from weir_operator.loop.bounds import prices
from weir_operator.loop.directives import Directives, carried_by_directives, directives_of
from weir_operator.loop.events import Event, Notices
from weir_operator.loop.loop import ApplicationController
from weir_operator.loop.record import RECORDS, TolerantRecords
from weir_operator.loop.run_record import Record, RunSummary
from weir_operator.loop.run_recorder import Recorder
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.measurement import measure_output
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.places import MIB, cores_of, memory_needs_of
from weir_operator.runtime.processes.folders import AppLock
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp import world
from weir_operator.streamapp.models import Spec, StreamApp
from weir_operator.tuning.process import ProcessTuner
from weir_operator.tuning.store import TUNINGS
from weir_operator.wiring import assembly
from weir_operator.wiring.discovery import OperatorsChangedError
from weir_operator.wiring.loops import Dependencies, Steering, assemble, state_directory


class ManifestWatch:
    """Directives out of a file. What only a new start can take over is said, once."""

    def __init__(
        self,
        manifest: Path,
        app: StreamApp,
        *,
        arguments: Sequence[str],
        clock: Clock,
        on_event: Callable[[Event], None],
    ) -> None:
        self._manifest = manifest
        self._app = app
        self._arguments = arguments
        self._notices = Notices(on_event, clock)
        self._seen = self._stamp()
        self._directives = self._translate(app)

    def __call__(self) -> Directives:
        """Return what the file asks now; one that cannot be right changes nothing."""
        stamp = self._stamp()
        if stamp is not None and stamp != self._seen:
            self._seen = stamp
            try:
                app = load_app(self._manifest)
                self._directives = self._translate(app)
            except PermanentError as mistake:
                self._notices.report(
                    "InvalidSpec", f"{mistake}; the running job continues unchanged"
                )
                return self._directives
            if not carried_by_directives(_without_job(self._app.spec), _without_job(app.spec)):
                self._notices.report(
                    "RestartNeeded",
                    "weir local cannot apply this change of the manifest while it runs: stop "
                    "it and start it again",
                )
        return self._directives

    def _translate(self, app: StreamApp) -> Directives:
        job = assembly.job_spec(app, beside=self._manifest.parent, extra=self._arguments)
        jar = find_program(app, self._manifest)
        return directives_of(app, revision=assembly.revision_of(app, job, jar=jar))

    def _stamp(self) -> tuple[int, int] | None:
        """Return the file's time and size; `None` while an editor replaces it."""
        try:
            found = self._manifest.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size


def _without_job(spec: Spec) -> Spec:
    """Return the spec without what an upgrade takes over on this machine: program, arguments."""
    return spec.model_copy(update={"flink": spec.flink.model_copy(update={"job": None})})


LONGEST_TUNING = 1800.0
"""Seconds, training and Numba's compiling included, after which a tuning is ended."""
RETENTION = 900.0
"""Seconds of samples that the direct source keeps, for the summary's quantile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalRun:
    """What to run, and how."""

    manifest: Path
    state: Path
    """Folder of all StreamApps' state."""
    cache: Path
    """Folder of what can be made again."""
    duration: float | None = None
    """Seconds after which the run ends by itself; `None` runs until it is stopped."""
    policy: str | None = None
    """Overrides the manifest's."""
    arguments: tuple[str, ...] = ()
    """More arguments of the job, after the manifest's."""
    ledger: Path | None = None
    """Folder in which the job keeps its ledger."""
    fresh: bool = False
    """End what an earlier run left, and put its state aside."""
    keep: bool = False
    """Leave the job running at the end, for the next start to adopt."""


async def run_local(
    run: LocalRun, *, show: Callable[[Record], None], lock: AppLock | None = None
) -> RunSummary:
    """Start the job, run its loops until the end, stop it with a savepoint, end every process.

    Args:
        run: What to run, and how.
        show: Takes every record.
        lock: The right to manage the StreamApp, if somebody holds it already.

    Raises:
        InvalidStreamAppError: The manifest cannot be right.
        WeirError: Java or Flink is missing, the job does not run, or the like; every
            process that was started has been ended.
    """
    app = load_app(run.manifest)
    settings = _runtime_settings(app, run)
    clock = SystemClock()
    folder = state_directory(run.state, f"{app.metadata.namespace}/{app.metadata.name}")
    async with AsyncExitStack() as stack:
        if run.fresh:
            await _clear_away(settings, folder, lock)
        runtime = await LocalRuntime.open(settings, lock=lock)
        # Before anything else can fail: whatever happens next, no process is left behind.
        kept = False
        stack.push_async_callback(lambda: runtime.detach() if kept else runtime.close())
        stop = stop_on_signals(stack)
        loops = assembly.loop_settings(app, policy=run.policy)
        recorder = Recorder(loops, prices(app), began=clock.now(), show=show)

        def tell(reason: str, message: str) -> None:
            recorder.event(Event(time=clock.now(), reason=reason, message=message))

        records = TolerantRecords(folder / RECORDS, tell)
        stack.callback(records.close)
        if run.fresh:
            records.forget_intervals()  # nothing is fitted to what an earlier run has measured

        def on_change(journal: RescaleJournal) -> None:
            records.write([journal])
            recorder.change(journal)

        jobs = FlinkJobs(runtime)
        stack.push_async_callback(jobs.close)

        async def targets() -> list[str]:
            return [each.metrics_url for each in await runtime.replicas()]

        app_label = f"{settings.namespace}/{settings.name}"
        source = DirectSource(targets, app_label, keep=RETENTION)
        source.start()
        stack.push_async_callback(source.close)
        around = Dependencies(
            runtime=runtime,
            jobs=jobs,
            store=FileStatusStore(folder / "status.json"),
            source=source,
            records=records,
            folder=folder,
            clock=clock,
            on_tick=recorder.tick,
            on_event=recorder.event,
            on_change=on_change,
            directives=ManifestWatch(
                run.manifest, app, arguments=run.arguments, clock=clock, on_event=recorder.event
            ),
            tuner=ProcessTuner(folder / "tunings", deadline=LONGEST_TUNING),
        )
        job = assembly.job_spec(app, beside=run.manifest.parent, extra=run.arguments)
        ends: float | None = None  # from when the loops first ran, whatever is made again
        plan: Plan | None = None
        while True:
            steering = assemble(app, around, job=job, policy=run.policy, plan=plan)
            try:
                kept = await _bring_up(steering, stop) and run.keep
                if not stop.is_set():
                    tell("JobManagerReady", _describe_places(runtime))
                    now = clock.monotonic()
                    ends = now + (run.duration or 0.0) if ends is None else ends
                    left = None if run.duration is None else max(0.0, ends - now)
                    await _steer(steering.controller, stop, left)
                break
            except OperatorsChangedError as change:
                plan = change.plan
        if kept:
            tell("JobKept", "The job still runs; the next start takes it over")
        else:
            try:
                await steering.lifecycle.suspend()
            except WeirError as error:
                # The run is over all the same; the next start resumes from the newest checkpoint.
                recorder.event(Event(time=clock.now(), reason="SuspendFailed", message=str(error)))
        return recorder.summary(
            clock.now(), p95=await _quantile(source, clock.now()), ledger=run.ledger
        )


async def _bring_up(steering: Steering, stop: asyncio.Event) -> bool:
    """Start the job and compile its policy; return whether the job was started."""
    bringing_up = asyncio.create_task(steering.lifecycle.bring_up())
    # Beside the start of the job: a policy that is compiled in the loop would stop the loop.
    compiling = asyncio.create_task(asyncio.to_thread(steering.managers.compile))
    try:
        await _first(bringing_up, stop)
    except OperatorsChangedError:
        compiling.cancel()  # its thread goes on, and others find what it has compiled
        raise
    await _first(compiling, stop)
    return bringing_up.done() and not bringing_up.cancelled()


async def _quantile(source: MetricsSource, now: float) -> float:
    """Return the 95th percentile of what is still known of the run; NaN if the source is away."""
    try:
        output, _ = measure_output(await source.window(start=now - RETENTION, end=now))
    except TemporaryError:
        return math.nan
    return output.quantiles["p95"]


def _describe_places(runtime: LocalRuntime) -> str:
    """Return where people find what Weir does not show."""
    return (
        f"Flink's page is {runtime.rest_url}; what the job prints is in "
        f"{os.path.relpath(runtime.folder)}/tm/*/log/output.txt"
    )


async def _clear_away(settings: LocalSettings, folder: Path, lock: AppLock | None) -> None:
    """End an earlier run's processes; its state keeps its content under another name."""
    await (await LocalRuntime.open(settings, lock=lock)).close()
    for name in ("status.json", "learned.json", TUNINGS):
        kept = folder / name
        if kept.exists():
            kept.replace(kept.with_suffix(f".{int(kept.stat().st_mtime)}.json"))


async def _steer(
    controller: ApplicationController, stop: asyncio.Event, duration: float | None
) -> None:
    """Run the loops until the end of the time, a signal, or the job's own end."""
    timer = None
    if duration is not None:
        timer = asyncio.get_running_loop().call_later(duration, stop.set)
    try:
        await controller.run(stop)
    finally:
        if timer is not None:
            timer.cancel()


async def _first(task: asyncio.Task[None], stop: asyncio.Event) -> None:
    """Wait for the task, or cancel it where the user has had enough."""
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    finally:
        stopping.cancel()


def stop_on_signals(stack: AsyncExitStack) -> asyncio.Event:
    """Return an event that Ctrl-C, SIGTERM and a closed terminal set: the job is to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    run = asyncio.current_task()

    def end() -> None:
        if stop.is_set() and run is not None:
            run.cancel()  # a second Ctrl-C does not wait for a savepoint
        stop.set()

    terminals = [each for each in (1, 2) if os.isatty(each)]

    def hang_up() -> None:
        for each in terminals:  # to write to a closed terminal is an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), each)
        end()

    handlers = {signal.SIGINT: end, signal.SIGTERM: end}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        handlers[signal.SIGHUP] = hang_up
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
        stack.callback(loop.remove_signal_handler, number)
    return stop


def _runtime_settings(app: StreamApp, run: LocalRun) -> LocalSettings:
    if app.spec.flink.ref is not None:
        raise PermanentError(
            "spec.flink.ref: expected a job to run on this machine, got a reference; "
            "set flink.job.jar instead"
        )
    names = world.operator_names(app)
    speeds = {each.name: each.speedup for name in names for each in world.node_types(app, name)}
    return LocalSettings(
        root=run.state,
        namespace=app.metadata.namespace,
        name=app.metadata.name,
        installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
        job_jar=find_program(app, run.manifest),
        cache=run.cache,
        speeds=speeds,
        pool_memory={pool.name: pool.memory.bytes // MIB for pool in app.spec.node_pools},
        pool_cores={pool.name: cores_of(pool) for pool in app.spec.node_pools},
        memory_needs=memory_needs_of(app),
        job_manager_memory=app.spec.flink.job_manager.memory.bytes // MIB,
        max_parallelism=app.spec.flink.max_parallelism,
        agent=find_agent(),
        config=flink_configuration(app),
    )
