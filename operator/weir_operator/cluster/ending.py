"""The end of a StreamApp that was deleted: a last savepoint, told of, and nothing left running.

Level-based and repeated until it is done: the StreamApp's finalizer waits for it. A job that
cannot be stopped with a savepoint does not keep its StreamApp for ever: after a while its newest
checkpoint is named instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil

import structlog

from weir_operator.cluster.last_right_spec import recall_spec
from weir_operator.cluster.notebook import Notebook
from weir_operator.cluster.objects import Resource
from weir_operator.cluster.office import Office
from weir_operator.cluster.opening import Loops, Memory, open_loops, open_memory
from weir_operator.cluster.status_store import StatusDoor
from weir_operator.cluster.status_view import first_facts
from weir_operator.controller.directives import directives_of
from weir_operator.controller.steering import state_directory
from weir_operator.errors import InvalidStreamAppError, PermanentError, TemporaryError, WeirError
from weir_operator.rescale.jobs import LIVE_STATES
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.managers import Policy
from weir_operator.streamapp.models import DeletionPolicy, StreamApp

log = structlog.get_logger()

PATIENCE = 600.0
"""Seconds since the deletion after which the job is ended without a savepoint."""
CANCELLED_WITHIN = 60.0
"""Seconds that a job may take to be cancelled."""


async def end_app(office: Office, resource: Resource, *, deleted_for: float) -> None:
    """End the job of a StreamApp that is being deleted, and everything that ran for it.

    Args:
        office: The controller's parts.
        resource: The StreamApp, with a deletion timestamp.
        deleted_for: Seconds since then.

    Raises:
        TemporaryError: It is to be tried again.
    """
    structlog.contextvars.bind_contextvars(app=str(resource.key))
    try:
        app = parse_manifest(resource.manifest)
    except InvalidStreamAppError as mistake:
        folder = state_directory(office.state, str(resource.key))
        last = await asyncio.to_thread(recall_spec, folder, resource)
        if last is None:
            # Nothing was ever put together for it, or nothing is known of it any more; what ran
            # for it is its dependent and goes with it.
            office.events.post(
                resource, "Warning", "EndedWithoutSavepoint", f"The spec is not valid: {mistake}"
            )
            return
        app = last
    door = StatusDoor(office.api, resource, office.fence)
    await door.open()
    notebook = Notebook(office, resource, door, first_facts(resource.generation, app))
    notebook.set_ready("False", "Deleting", "The StreamApp is being deleted")
    if app.spec.flink.ref is not None:
        return  # the job is somebody else's
    app = _with_the_default_policy(app)
    async with (
        notebook.writing(),
        open_memory(office, resource, door, notebook) as memory,
        open_loops(office, app, resource, memory, notebook, lambda: directives_of(app)) as loops,
    ):
        if app.spec.deletion_policy is DeletionPolicy.DELETE:
            await _discard(memory, loops, notebook, office)
        else:
            await _keep(memory, loops, notebook, hurried=deleted_for > PATIENCE)
        await loops.runtime.close()
    if app.spec.deletion_policy is DeletionPolicy.DELETE:
        await asyncio.to_thread(shutil.rmtree, memory.folder, ignore_errors=True)


def _with_the_default_policy(app: StreamApp) -> StreamApp:
    """Return `app` with a policy that can be built: none decides any more.

    One whose name or settings are wrong, or whose library is not installed, would otherwise keep
    its StreamApp for ever.
    """
    loop = app.spec.operator_manager.model_copy(update={"policy": Policy()})
    return app.model_copy(update={"spec": app.spec.model_copy(update={"operator_manager": loop})})


async def _keep(memory: Memory, loops: Loops, notebook: Notebook, *, hurried: bool) -> None:
    """Stop the job with a last savepoint, and say where it is."""
    try:
        await loops.steering.lifecycle.suspend()
    except WeirError as error:
        if not hurried:
            raise TemporaryError(f"The last savepoint has not come about yet: {error}") from error
        notebook.tell("FinalSavepointFailed", str(error))
    status = memory.store.load()
    path = status.restore_path
    if not status.suspended and status.job_id is not None:
        with contextlib.suppress(WeirError):  # what is known already is told then
            path = await loops.runtime.newest_checkpoint(status.job_id) or path
    if path is None:
        notebook.tell("EndedWithoutSavepoint", "The job has left no state")
    else:
        notebook.tell(
            "FinalSavepoint",
            f"The job's state is kept in {path}; a new StreamApp goes on from it with "
            "spec.flink.job.initialSavepoint",
        )


async def _discard(memory: Memory, loops: Loops, notebook: Notebook, office: Office) -> None:
    """Stop the job at once and remove its state, as far as Flink can."""
    status = memory.store.load()
    left = [*status.savepoints]
    try:
        if status.job_id is not None:
            await loops.steering.lifecycle.reach()
            left += await _cancel(status.job_id, loops, office)
        while left:
            await loops.jobs.dispose(left[-1])
            left.pop()
    except (TemporaryError, PermanentError) as error:
        notebook.tell("StateNotRemoved", f"{error}; remove by hand: {', '.join(left) or 'nothing'}")


async def _cancel(job: str, loops: Loops, office: Office) -> list[str]:
    """Cancel the job; return the checkpoint that it leaves."""
    progress = await loops.jobs.progress(job)
    if progress is not None and progress.state in LIVE_STATES:
        await loops.jobs.cancel(job)
        until = office.clock.now() + CANCELLED_WITHIN
        while progress is not None and progress.state in LIVE_STATES:
            if office.clock.now() >= until:
                raise TemporaryError(f"Job {job} was not cancelled in {CANCELLED_WITHIN:g} s")
            await office.clock.sleep(0.5)
            progress = await loops.jobs.progress(job)
    checkpoint = await loops.runtime.newest_checkpoint(job)
    return [] if checkpoint is None else [checkpoint]
