"""The end of a deleted StreamApp: a last savepoint, its report, and nothing left running.

Level-based and repeated until it is done; the StreamApp's finalizer waits for it. A job that cannot
be stopped with a savepoint does not keep its StreamApp for ever: after a while, Weir names its
newest checkpoint instead. If the namespace is being deleted, it does so at once: Kubernetes deletes
the pods of a namespace first, so there is no job left to stop.
"""

from __future__ import annotations

import asyncio
import shutil

import structlog

from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.app.last_valid_spec import load_spec
from weir_operator.cluster.app.opening import AppStores, Loops, open_loops, open_stores
from weir_operator.cluster.app.reporter import StatusReporter
from weir_operator.cluster.status.store import StatusClient
from weir_operator.cluster.status.view import first_facts
from weir_operator.errors import (
    InvalidStreamAppError,
    PermanentError,
    TemporaryError,
    WeirError,
    describe_unexpected,
)
from weir_operator.loop.directives import directives_of
from weir_operator.rescale.stopping import StateFinder
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.managers import Policy
from weir_operator.streamapp.models import DeletionPolicy, StreamApp
from weir_operator.wiring.loops import state_directory

log = structlog.get_logger()

SAVEPOINT_TIMEOUT = 600.0
"""Seconds since the deletion after which the job is ended without a savepoint."""
FAILED = "FinalSavepointFailed"
"""Reason of the condition `Ready`, and of the event, where the last savepoint does not come."""
CANCELLED_WITHIN = 60.0
"""Seconds that a job may take to be cancelled."""


async def finalize_app(
    context: ControllerContext, resource: Resource, *, deleted_for: float
) -> None:
    """End the job of a StreamApp that is being deleted, and everything that ran for it.

    What keeps it is posted as an event at each try. A defect of Weir does not keep it for ever:
    after that time, its pods go with it, as its dependents.

    Raises:
        WeirError: It must be retried.
    """
    structlog.contextvars.bind_contextvars(app=str(resource.key))
    try:
        await _end(context, resource, hurried=deleted_for > SAVEPOINT_TIMEOUT)
    except WeirError as error:
        context.events.post(resource, "DeletionWaits", str(error))
        raise
    except Exception as error:
        log.exception("unexpected error in a deletion")
        sentence = describe_unexpected(error)
        if deleted_for <= SAVEPOINT_TIMEOUT:
            context.events.post(resource, "DeletionWaits", sentence)
            raise TemporaryError(sentence) from error
        context.telemetry.final_savepoints.labels("Failed").inc()
        context.events.post(resource, "FinalSavepointFailed", sentence)


async def _end(context: ControllerContext, resource: Resource, *, hurried: bool) -> None:
    try:
        app = parse_manifest(resource.manifest)
    except InvalidStreamAppError as mistake:
        folder = state_directory(context.state, str(resource.key))
        last = await asyncio.to_thread(load_spec, folder, resource)
        if last is None:
            # Nothing was ever put together for it, or nothing is known of it any more; what ran
            # for it is its dependent and goes with it, once there was time to mend the spec.
            if await _has_run(context, resource):
                if not hurried:
                    raise TemporaryError(
                        "Weir cannot stop the job with a savepoint, because the spec is not "
                        f"valid: {mistake}; correct it within {SAVEPOINT_TIMEOUT:g} s of the "
                        "deletion"
                    ) from mistake
                context.telemetry.final_savepoints.labels("Failed").inc()
            context.events.post(
                resource, "EndedWithoutSavepoint", f"The spec is not valid: {mistake}"
            )
            return
        app = last
    writer = StatusClient(context.api, resource, context.fence)
    try:
        await writer.open()
    except RefusedByKubernetesError as error:
        if not hurried:
            raise
        # Nothing may be done to a job whose status cannot be written first; its pods go with it.
        context.telemetry.final_savepoints.labels("Failed").inc()
        context.events.post(
            resource,
            FAILED,
            f"Weir cannot write the status: {error}. The job ends without a savepoint; look for "
            "its newest checkpoint in the storage.",
        )
        return
    await writer.settle()
    reporter = StatusReporter(context, resource, writer, first_facts(resource.generation, app))
    if _has_failed(writer):
        reporter.set_ready("False", FAILED, "Weir tries to take the final savepoint again")
    else:
        reporter.set_ready("False", "Deleting", "The StreamApp is being deleted")
    if app.spec.flink.ref is not None:
        return  # the job is somebody else's
    async with (
        reporter.writing(),
        open_stores(context, resource, writer, reporter) as stores,
    ):
        kept: bool | None = None
        if await _is_going(context, resource.key.namespace):
            kept = _log_remaining_state(stores, reporter)
        else:
            app = _with_the_default_policy(app)
            async with open_loops(
                context, app, resource, stores, reporter, lambda: directives_of(app)
            ) as loops:
                if app.spec.deletion_policy is DeletionPolicy.DELETE:
                    await _discard(stores, loops, reporter, context)
                else:
                    kept = await _keep(stores, loops, reporter, context, hurried=hurried)
                await loops.runtime.close()
        if kept is not None and stores.store.load().job_id is not None:
            context.telemetry.final_savepoints.labels("Done" if kept else "Failed").inc()
    if app.spec.deletion_policy is DeletionPolicy.DELETE:
        await asyncio.to_thread(shutil.rmtree, stores.folder, ignore_errors=True)


async def _has_run(context: ControllerContext, resource: Resource) -> bool:
    controller = ((await context.api.get(resource.key.path)).get("status") or {}).get("controller")
    return isinstance(controller, dict) and bool(controller.get("job_id"))


def _has_failed(writer: StatusClient) -> bool:
    """Return whether the status says that the last savepoint has been tried in vain."""
    conditions = writer.status.get("conditions")
    return isinstance(conditions, list) and any(
        isinstance(each, dict) and each.get("type") == "Ready" and each.get("reason") == FAILED
        for each in conditions
    )


async def _is_going(context: ControllerContext, namespace: str) -> bool:
    """Return whether a namespace is being deleted; a controller that may not know says no."""
    try:
        found = await context.api.get(f"/api/v1/namespaces/{namespace}")
    except PermanentError as error:
        log.info("namespace not read", reason=str(error))
        return False
    return "deletionTimestamp" in found["metadata"]


def _log_remaining_state(stores: AppStores, reporter: StatusReporter) -> bool:
    status = stores.store.load()
    seen = status.checkpointed
    ran = status.job_id is not None and not (status.suspended or status.finished)
    path = seen.path if ran and seen is not None and seen.job == status.job_id else None
    path = path or status.restore_path
    cause = "The namespace is being deleted"
    if ran:
        reporter.report(
            FAILED,
            f"{cause}, and Kubernetes deleted the job's pods first; the newest known "
            f"state is {path}; delete StreamApps before their namespace",
        )
    elif path is not None:
        reporter.report("FinalSavepoint", f"{cause}; the job's state is in {path}")
    return not ran


def _with_the_default_policy(app: StreamApp) -> StreamApp:
    """Return `app` with a policy that can be built: none decides any more.

    One whose name or settings are wrong, or whose library is not installed, would otherwise keep
    its StreamApp for ever.
    """
    loop = app.spec.operator_manager.model_copy(update={"policy": Policy()})
    return app.model_copy(update={"spec": app.spec.model_copy(update={"operator_manager": loop})})


async def _keep(
    stores: AppStores,
    loops: Loops,
    reporter: StatusReporter,
    context: ControllerContext,
    *,
    hurried: bool,
) -> bool:
    """Stop the job with a last savepoint and say where it is; return whether nothing failed."""
    came = True
    try:
        await loops.steering.lifecycle.suspend()
    except WeirError as error:
        if not hurried:
            sentence = f"Weir could not take the final savepoint yet: {error}"
            reporter.set_ready(
                "False",
                FAILED,
                f"{sentence}; {SAVEPOINT_TIMEOUT:g} s after the deletion, Weir ends the job "
                "without one",
            )
            raise TemporaryError(sentence) from error
        reporter.report(FAILED, str(error))
        came = False
    status = stores.store.load()
    if status.finished:  # Flink has deleted its checkpoints
        reporter.report("EndedWithoutSavepoint", "The job has finished and left no state")
        return came
    path = status.restore_path
    if not status.suspended and status.job_id is not None:
        try:
            path = await _states(loops, context).find_restore_point(status.job_id, status)
        except WeirError as error:
            if not hurried:
                raise TemporaryError(f"Weir does not know the newest state yet: {error}") from error
            seen = status.checkpointed
            last = seen.path if seen is not None and seen.job == status.job_id else path
            reporter.report(
                FAILED,
                f"Weir does not know the newest state: {error}. The last known is {last}; look "
                "for a newer one in the storage.",
            )
            return False
    if path is None and status.job_id is None:
        reporter.report("NeverRan", "The job never ran, so there is no state to keep")
    elif path is None:
        reporter.report("EndedWithoutSavepoint", "The job has left no state")
    else:
        reporter.report(
            "FinalSavepoint",
            f"The job's state is in {path}; to resume from it, set "
            "spec.flink.job.initialSavepoint in a new StreamApp",
        )
    return came


async def _discard(
    stores: AppStores, loops: Loops, reporter: StatusReporter, context: ControllerContext
) -> None:
    """Stop the job at once and remove its state, as far as Flink can."""
    status = stores.store.load()
    left = [*status.savepoints, *status.superseded]
    try:
        if status.job_id is not None:
            await loops.steering.lifecycle.reach()
            left += await _cancel(status.job_id, loops, context)
        while left:
            await loops.jobs.dispose(left[-1])
            left.pop()
    except (TemporaryError, PermanentError) as error:
        by_hand = f"; delete by hand: {', '.join(left)}" if left else ""
        reporter.report("StateNotRemoved", f"{error}{by_hand}")


async def _cancel(job: str, loops: Loops, context: ControllerContext) -> list[str]:
    progress = await loops.jobs.progress(job)
    if progress is not None and not progress.state.is_over:
        await loops.jobs.cancel(job)
        until = context.clock.monotonic() + CANCELLED_WITHIN
        while progress is not None and not progress.state.is_over:
            if context.clock.monotonic() >= until:
                raise TemporaryError(f"Job {job} was not cancelled in {CANCELLED_WITHIN:g} s")
            await context.clock.sleep(0.5)
            progress = await loops.jobs.progress(job)
    return [*await _states(loops, context).find_retained(job)]


def _states(loops: Loops, context: ControllerContext) -> StateFinder:
    return StateFinder(jobs=loops.jobs, runtime=loops.runtime, clock=context.clock)
