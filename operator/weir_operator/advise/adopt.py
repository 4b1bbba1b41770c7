"""`weir adopt`: reads a FlinkDeployment and its job, and says how the job would be moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

from weir_operator.advise.adoption_plan import Adoption, plan_adoption
from weir_operator.advise.flink_deployment import (
    GROUP_VERSION,
    PATH,
    FlinkDeployment,
    read_flink_deployment,
)
from weir_operator.advise.view import ExternalJob
from weir_operator.advise.watch import JobWatch
from weir_operator.api.client import KubernetesApi, RefusedByKubernetesError
from weir_operator.api.objects import Body, collection
from weir_operator.errors import InvalidStreamAppError, PermanentError, WeirError
from weir_operator.streamapp.loading import parse_manifest, read_document
from weir_operator.streamapp.models import API_VERSION, KIND


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptionRequest:
    """What a user asks `weir adopt`."""

    namespace: str
    name: str
    """Of the FlinkDeployment."""
    objective: str
    """The response time that the job must meet, such as 500ms."""
    manifest: Path | None
    """The StreamApp to use; `None` makes one from the FlinkDeployment."""


async def show(request: AdoptionRequest) -> tuple[FlinkDeployment, Adoption]:
    """Do what `show_with` does, in the cluster of this process, else in that of `KUBECONFIG`."""
    api = await KubernetesApi.connect()
    try:
        return await show_with(api, request)
    finally:
        await api.close()


async def show_with(
    api: KubernetesApi, request: AdoptionRequest
) -> tuple[FlinkDeployment, Adoption]:
    """Return the FlinkDeployment, the StreamApp that would replace it, and what stops the move.

    Nothing is changed.

    Raises:
        PermanentError: There is no such FlinkDeployment, it or the StreamApps of its namespace may
            not be read, the objective is no response time, or the manifest cannot be right.
        TemporaryError: The API server, or Flink while it runs the job, did not answer.
    """
    deployment = await read_flink_deployment(api, request.namespace, request.name)
    given = None if request.manifest is None else read_manifest(request.manifest, request.namespace)
    found = await _plan(api, request, deployment, given)
    # First the StreamApps: where one runs the job by now, the FlinkDeployment must not.
    stops = (*await _other_apps(api, request, found.manifest), *found.stops)
    if not stops:
        stops = (*_mistakes(found.manifest), *await _missing_way_back(api, request))
    return deployment, replace(found, stops=stops)


async def _plan(
    api: KubernetesApi, request: AdoptionRequest, deployment: FlinkDeployment, given: Body | None
) -> Adoption:
    """Return the StreamApp that would replace a FlinkDeployment, and what is known to stop it."""
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
    cause, version = "", ""
    running: Mapping[str, str] = {}
    try:
        try:
            job = await watch.refresh()
        except WeirError as error:
            cause = str(error)
        if job is not None and watch.flink is not None:
            version = await watch.flink.version()
            running = await watch.flink.configuration()
    finally:
        await watch.close()
    return plan_adoption(
        deployment,
        job,
        version=version,
        objective=request.objective,
        given=given,
        cause=cause,
        running=running,
    )


async def _other_apps(
    api: KubernetesApi, request: AdoptionRequest, manifest: Body
) -> tuple[str, ...]:
    return tuple(
        f"StreamApp {app['metadata']['name']} exists already: expected none of this name, and "
        f"none with flink.ref to FlinkDeployment {request.name}; delete it (one with flink.ref "
        "leaves the job as it is)"
        for app in await api.list(collection(request.namespace))
        if app["metadata"]["name"] == manifest["metadata"]["name"]
        or (app["spec"].get("flink", {}).get("ref") or {}).get("name") == request.name
    )


def _mistakes(manifest: Body) -> tuple[str, ...]:
    try:
        parse_manifest(manifest)
    except InvalidStreamAppError as error:
        return (f"The StreamApp is not valid: {error}",)
    return ()


async def _missing_way_back(api: KubernetesApi, request: AdoptionRequest) -> tuple[str, ...]:
    """Return why the job could not be moved back with its newest state, found by a dry run.

    What the API server does not know, it would drop without a word, and the way back with it.
    """
    nonce = {
        "apiVersion": GROUP_VERSION,
        "kind": "FlinkDeployment",
        "metadata": {"name": request.name},
        "spec": {"job": {"savepointRedeployNonce": 1}},
    }
    path = PATH.format(request.namespace, request.name)
    try:
        await api.apply(path, nonce, "weir-adopt", force=True, dry_run=True)
    except PermanentError as error:
        if isinstance(error, RefusedByKubernetesError) and error.status == HTTPStatus.FORBIDDEN:
            return ()  # whoever moves the job may have more rights than this process
        return (
            "The FlinkDeployment could not be moved back: expected a Flink Kubernetes Operator "
            f"with spec.job.savepointRedeployNonce; upgrade it and its CRDs ({error})",
        )
    return ()


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
