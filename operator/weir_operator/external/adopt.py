"""`weir adopt`: reads a FlinkDeployment and its job, moves it, and moves it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from weir_operator.clock import Clock, SystemClock, wait_until
from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.external.adoption_plan import Adoption, describe_way_back, plan_adoption
from weir_operator.external.flink import ExternalFlink
from weir_operator.external.flink_deployment import FlinkDeployment, read_flink_deployment
from weir_operator.external.moving import Moved, Mover, MoverApi, MoveRecord
from weir_operator.external.view import ExternalJob
from weir_operator.external.watch import JobWatch
from weir_operator.kubernetes.api.client import KubernetesApi
from weir_operator.kubernetes.api.objects import Body, ClusterReader
from weir_operator.streamapp.loading import parse_manifest, read_document
from weir_operator.streamapp.models import API_VERSION, KIND

RECORD_WITHIN = 25.0
"""Seconds in which a record must arrive: Flink counts for its REST interface every ten seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveRequest:
    """What a user asks `weir adopt`."""

    namespace: str
    name: str
    """Of the FlinkDeployment."""
    objective: str
    """The response time that the job must meet, such as 500ms."""
    manifest: Path | None
    """The StreamApp to use; `None` makes one from the FlinkDeployment."""
    timeout: float
    """Seconds for each step that waits."""


async def show(request: MoveRequest) -> tuple[FlinkDeployment, Adoption]:
    """Return the FlinkDeployment, the StreamApp that would replace it, and what stops the move.

    Nothing is changed. It asks the cluster that this process runs in, else the one that
    `KUBECONFIG` names.

    Raises:
        PermanentError, TemporaryError: See `read_adoption`.
    """
    api = await KubernetesApi.connect()
    try:
        mover = _mover(api, request, say=lambda sentence: None)
        deployment, found, _ = await read_adoption(api, request)
        if await mover.record() is not None:
            # A moved job is suspended, and must not be let run as one that was not moved.
            stops: tuple[str, ...] = (
                f"FlinkDeployment {request.name} was moved already, or is being moved: use --move "
                "to continue, or --back to go back",
            )
        else:
            stops = found.stops or await mover.find_stops(found.manifest)
        return deployment, replace(found, stops=stops)
    finally:
        await api.close()


async def move(request: MoveRequest, *, say: Callable[[str], None]) -> Moved:
    """Move the job, or continue a move; if that fails, move it back.

    A job that was moved already stays as it is.

    Raises:
        PermanentError: Something stops the move, and nothing was changed; or it failed, and the
            job was moved back; or that failed, too. The sentence says which.
        TemporaryError: The API server did not answer for too long; the same command continues.
    """
    api = await KubernetesApi.connect()
    try:
        return await move_with(api, request, say=say, clock=SystemClock())
    finally:
        await api.close()


async def move_back(request: MoveRequest, *, say: Callable[[str], None]) -> str:
    """Move the job back; return the state with which it runs.

    Raises:
        PermanentError, TemporaryError: See `Mover.move_back`.
    """
    api = await KubernetesApi.connect()
    try:
        return await _mover(api, request, say=say).move_back()
    finally:
        await api.close()


async def move_with(
    api: MoverApi,
    request: MoveRequest,
    *,
    say: Callable[[str], None],
    clock: Clock,
    period: float = 2.0,
) -> Moved:
    """Do what `move` says, with a client of the API server.

    Raises:
        PermanentError, TemporaryError: See `move`.
    """
    mover = _mover(api, request, say=say, clock=clock, period=period)
    record = await mover.record()
    if record is None:
        record = await _begin(api, mover, request, say=say, clock=clock)
    elif record.back:
        raise PermanentError(
            f"FlinkDeployment {request.name} is being moved back; finish that first, with `weir "
            f"adopt {request.name} --namespace {request.namespace} --back`"
        )
    elif record.done:
        return Moved(savepoint=record.savepoint, stream_app=record.name, already=True)
    else:
        say(f"Continuing the move of FlinkDeployment {request.name}")
    try:
        return await mover.resume(record)
    except TemporaryError as error:
        raise TemporaryError(
            f"The move is interrupted: {error}; run the same command again, which continues it"
        ) from error
    except WeirError as failure:
        say(f"The move failed, and is taken back: {failure}")
        try:
            path = await mover.move_back()
        except WeirError as error:
            raise PermanentError(
                f"The move failed ({failure}), and so did the way back: {error}; run `weir adopt "
                f"{request.name} --namespace {request.namespace} --back` to try again"
            ) from error
        raise PermanentError(
            f"The job was not moved: {failure}; FlinkDeployment {request.name} runs it again"
            + (f", from {path}" if path else "")
        ) from failure


async def _begin(
    api: MoverApi,
    mover: Mover,
    request: MoveRequest,
    *,
    say: Callable[[str], None],
    clock: Clock,
) -> MoveRecord:
    """Check everything, then suspend the FlinkDeployment; return the record of the move."""
    deployment, found, had_records = await read_adoption(api, request, clock=clock)
    stops = found.stops or await mover.find_stops(found.manifest)
    if stops:
        raise PermanentError(
            "\n".join((*(f"Stops the move: {each}" for each in stops), "Nothing was changed"))
        )
    say(describe_way_back(deployment, found.manifest["metadata"]["name"]))
    await mover.begin(deployment.spec, found.manifest, had_records=had_records)
    record = await mover.record()
    if record is None:
        raise PermanentError(
            f"FlinkDeployment {request.name} has lost its annotation: something else overwrites "
            "it, such as a GitOps tool; pause that for the move"
        )
    return record


def _mover(
    api: MoverApi,
    request: MoveRequest,
    *,
    say: Callable[[str], None],
    clock: Clock | None = None,
    period: float = 2.0,
) -> Mover:
    return Mover(
        api,
        request.namespace,
        request.name,
        clock=clock or SystemClock(),
        say=say,
        timeout=request.timeout,
        period=period,
    )


async def read_adoption(
    api: ClusterReader, request: MoveRequest, *, clock: Clock | None = None
) -> tuple[FlinkDeployment, Adoption, bool]:
    """Return a FlinkDeployment, the StreamApp that would replace it, and whether records arrive.

    Args:
        api: The API server.
        request: What to move.
        clock: With it, also wait for records to arrive; `None` says that none do.

    Raises:
        PermanentError: There is no such FlinkDeployment, it may not be read, the objective is no
            response time, or the manifest cannot be right.
        TemporaryError: The API server, or Flink while it runs the job, did not answer.
    """
    deployment = await read_flink_deployment(api, request.namespace, request.name)
    given = None if request.manifest is None else read_manifest(request.manifest, request.namespace)
    app = parse_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": request.name, "namespace": request.namespace},
            "spec": {
                "mode": "Advise",
                "flink": {"ref": {"kind": "FlinkDeployment", "name": request.name}},
                "objective": {"responseTime": request.objective},
            },
        }
    )
    watch = JobWatch(app, api)
    job: ExternalJob | None = None
    cause, version, had_records = "", "", False
    try:
        try:
            job = await watch.refresh()
        except WeirError as error:
            cause = str(error)
        if job is not None and watch.flink is not None:
            version = await watch.flink.version()
            had_records = clock is not None and await _emits_records(watch.flink, job, clock)
    finally:
        await watch.close()
    plan = plan_adoption(
        deployment,
        job,
        version=version,
        objective=request.objective,
        given=given,
        cause=cause,
    )
    return deployment, plan, had_records


async def _emits_records(flink: ExternalFlink, job: ExternalJob, clock: Clock) -> bool:
    """Return whether the sources of a job emit records; of a single vertex, Flink counts none.

    Raises:
        TemporaryError: Flink did not answer.
    """

    async def emitted() -> float:
        counters = [each for id_ in job.entries for each in await flink.counters(job.id, id_)]
        return sum(each.records_out for each in counters)

    first = await emitted()

    async def more() -> bool | None:
        return True if await emitted() > first else None

    return bool(await wait_until(more, clock=clock, timeout=RECORD_WITHIN, period=1.0))


def read_manifest(path: Path, namespace: str) -> Body:
    """Return the manifest in a file as plain values, which a move can complete.

    Raises:
        PermanentError: The file cannot be read, runs no job or one from a savepoint, or is for
            another namespace.
        InvalidStreamAppError: It is no valid StreamApp.
    """
    try:
        manifest = read_document(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PermanentError(
            f"--filename: expected a manifest at {path}, got an error ({error}); correct the path"
        ) from error
    app = parse_manifest(manifest)
    if not isinstance(manifest, dict):  # the parser has refused it
        raise TypeError(f"Expected a mapping, got {type(manifest)}")
    job = app.spec.flink.job
    if job is None:
        raise PermanentError(
            f"spec.flink.job in {path}: expected the job to run, got none; write its jar"
        )
    if job.initial_savepoint is not None:
        raise PermanentError(
            f"spec.flink.job.initialSavepoint in {path}: expected none, got "
            f"{job.initial_savepoint}; remove it, because the move takes a new one"
        )
    if (manifest["metadata"].get("namespace") or namespace) != namespace:
        raise PermanentError(
            f"metadata.namespace in {path}: expected {namespace}, where the FlinkDeployment is, "
            f"got {manifest['metadata']['namespace']}; correct it, or --namespace"
        )
    metadata = {**manifest["metadata"], "namespace": namespace}
    return {**manifest, "metadata": metadata}
