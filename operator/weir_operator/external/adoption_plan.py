"""The StreamApp that would replace a FlinkDeployment, and what would stop the move. Pure.

The StreamApp has the same job with the same arguments, image, configuration, pod template and max
parallelism, and one node pool whose sizes are what a slot of the FlinkDeployment has. Without
`operators`, the job begins as one operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weir_operator.external.flink_deployment import (
    MIB,
    OVERRIDES,
    FlinkDeployment,
    refuse_autoscaler,
)
from weir_operator.external.moving import MOVE
from weir_operator.external.reference import TASK_MANAGERS
from weir_operator.external.view import ExternalJob, size_of
from weir_operator.flink.transport import Json
from weir_operator.flink.versions import read_version
from weir_operator.kubernetes.api.objects import Body
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import API_VERSION, KIND
from weir_operator.streamapp.pod_template import remedy_for_owned

FIRST_RUN_BY_WEIR = (1, 20)
"""The first version of Flink with which Weir's agent and its engine were tested."""
_LOCAL = "local://"
_SAVEPOINTS = ("execution.checkpointing.savepoint-dir", "state.savepoints.dir")
_CHECKPOINTS = ("execution.checkpointing.dir", "state.checkpoints.dir")
_OF_THE_OPERATOR = ("kubernetes.", "job.autoscaler.", "scheduler-mode", "$internal.")
"""Beginnings of keys that only the operator, or Flink's own way of starting pods, reads."""
_LEFT_OUT = {
    "ingress": "the Ingress before Flink's page",
    "logConfiguration": "the log configuration",
}
"""Sections of a FlinkDeployment that a StreamApp lacks, in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Adoption:
    """What `weir adopt` found."""

    manifest: Body
    """The StreamApp, as plain values."""
    stops: tuple[str, ...]
    """What stops the move, a sentence each."""
    remarks: tuple[str, ...]
    """What would be different under Weir, a sentence each."""


def plan_adoption(
    deployment: FlinkDeployment,
    job: ExternalJob | None,
    *,
    version: str,
    objective: str,
    given: Body | None = None,
    cause: str = "",
) -> Adoption:
    """Return the StreamApp for a FlinkDeployment, and what would stop the move.

    Args:
        deployment: As it is.
        job: As it runs; `None` if it does not.
        version: Flink's, such as `2.1.0`; empty where `job` is `None`.
        objective: The response time that the job must meet, such as `500ms`.
        given: The StreamApp that the user wrote; `None` makes one.
        cause: Why `job` is `None`, a sentence; empty where it is not known.
    """
    if given is not None:
        stops = (*_stops(deployment, job, version, cause), *_differences(given, job))
        return Adoption(manifest=given, stops=stops, remarks=())
    return Adoption(
        manifest=_manifest(deployment, job, objective=objective),
        stops=(*_stops(deployment, job, version, cause), *_unknown_parts(deployment)),
        remarks=tuple(_remarks(deployment, job)),
    )


def _manifest(deployment: FlinkDeployment, job: ExternalJob | None, *, objective: str) -> Body:
    spec, given = deployment.spec, deployment.job or {}
    program: Body = {}
    uri = str(given.get("jarURI") or "")
    if uri.startswith(_LOCAL):
        program["jar"] = uri.removeprefix(_LOCAL)
    if given.get("entryClass"):
        program["entryClass"] = given["entryClass"]
    if given.get("args"):
        program["args"] = [str(each) for each in given["args"]]
    flink: Body = {"image": spec.get("image"), "job": program}
    if job is not None:
        flink["maxParallelism"] = job.max_parallelism
    storage = _storage(deployment)
    if storage:
        flink["storage"] = {"uri": storage}
    flink |= _pods(deployment)
    config = {
        key: value
        for key, value in deployment.configuration.items()
        if remedy_for_owned(key) is None and not key.startswith(_OF_THE_OPERATOR)
    }
    if config:
        flink["config"] = config
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": deployment.name, "namespace": deployment.namespace},
        "spec": {
            "mode": "Auto",
            "flink": flink,
            "objective": {"responseTime": objective},
            "nodePools": [_pool(deployment)],
        },
    }


def _pool(deployment: FlinkDeployment) -> Body:
    pool: Body = {
        "name": TASK_MANAGERS,
        "sizes": [size_of(deployment.cores / deployment.slots)],
    }
    if deployment.memory is not None:
        pool["memory"] = f"{max(1, deployment.memory // MIB // deployment.slots)}Mi"
    return pool


def _pods(deployment: FlinkDeployment) -> Body:
    """Return what is the same of the pods: their template, and the JobManager's container."""
    spec = deployment.spec
    found: Body = {}
    template = dict(spec.get("podTemplate") or {})
    kept = {name: template[name] for name in ("metadata", "spec") if template.get(name)}
    if kept:
        found["podTemplate"] = kept
    resource: Json = (spec.get("jobManager") or {}).get("resource") or {}
    if resource.get("cpu"):
        found["jobManager"] = {"cpu": size_of(float(resource["cpu"]))}
    return found


def _storage(deployment: FlinkDeployment) -> str:
    """Return the folder in which the job's savepoints lie, a URI; empty where it has none."""
    return next(
        (
            folder
            for key in (*_SAVEPOINTS, *_CHECKPOINTS)
            if (folder := deployment.configuration.get(key, ""))
        ),
        "",
    )


def _stops(
    deployment: FlinkDeployment, job: ExternalJob | None, version: str, cause: str
) -> Iterator[str]:
    this, given = f"FlinkDeployment {deployment.name}", deployment.job
    if given is None:
        yield (
            f"{this} is a session cluster: expected spec.job, got none; Weir runs one job per "
            "cluster"
        )
        return
    if given.get("state") == "suspended":
        yield (
            f"spec.job.state of {this}: expected running, got suspended; let it run again, because "
            "only a running job can be moved"
        )
        return
    if job is None:
        yield (
            f"The job of {this} does not run, or cannot be reached: let it run, because Weir reads "
            "its max parallelism, without which its state cannot be restored"
            + (f" ({cause})" if cause else "")
        )
    if version and read_version(version) < FIRST_RUN_BY_WEIR:
        yield (
            f"Flink's version: expected 1.20 or newer, got {version}; upgrade the FlinkDeployment "
            "first, or scale the job where it runs (flink.ref with mode: Auto)"
        )
    if not any(deployment.configuration.get(key) for key in _SAVEPOINTS):
        yield (
            f"spec.flinkConfiguration of {this}: expected {_SAVEPOINTS[0]}, got nothing; set it, "
            "because Flink needs a folder for the savepoint"
        )
    if given.get("allowNonRestoredState"):
        yield (
            f"spec.job.allowNonRestoredState of {this}: expected false, got true; Weir never drops "
            "state that no operator takes"
        )
    yield from refuse_autoscaler(deployment)


def _unknown_parts(deployment: FlinkDeployment) -> Iterator[str]:
    """Yield what a StreamApp cannot take over, and a user has to write."""
    given = deployment.job
    if given is None:
        return
    uri = str(given.get("jarURI") or "")
    if not uri.startswith(_LOCAL):
        yield (
            f"spec.job.jarURI of FlinkDeployment {deployment.name}: expected a path in the image, "
            f"such as local:///opt/flink/usrlib/trips.jar, got {uri or 'nothing'}; put the jar "
            "into the image, because Weir does not download jars"
        )
    storage = _storage(deployment)
    if storage.startswith(("file:", "/")):
        yield (
            f"The job's state is in {storage}: expected a folder of a file system that all pods "
            "reach, such as s3://bucket/trips, got one on a volume; save the StreamApp in a file, "
            "write the volume's claim as spec.flink.storage.claim, make sure that the savepoint's "
            "path is the same there, and use --filename"
        )


def _differences(manifest: Body, job: ExternalJob | None) -> Iterator[str]:
    """Yield what in a StreamApp does not fit the job's state."""
    written = parse_manifest(manifest).spec.flink.max_parallelism
    if job is not None and written != job.max_parallelism:
        yield (
            f"spec.flink.maxParallelism of the StreamApp: expected {job.max_parallelism}, the "
            f"job's, got {written}; correct it, because the state cannot be restored with another"
        )


def _remarks(deployment: FlinkDeployment, job: ExternalJob | None) -> Iterator[str]:
    spec = deployment.spec
    if job is not None:
        count = max(sum(counts.values()) for counts in job.deployments.values())
        names = ", ".join(job.topology.operators)
        yield (
            f"The job runs with up to {count} subtasks per vertex ({names}), and its StreamApp "
            "starts as one operator with one replica: to begin with as many, add the operators "
            "that `weir graph` prints, with `initial`"
        )
    dropped = sorted(
        key
        for key in deployment.configuration
        if remedy_for_owned(key) is not None or key.startswith(_OF_THE_OPERATOR)
    )
    if dropped:
        yield f"Weir sets these keys of Flink's configuration itself: {', '.join(dropped)}"
    if OVERRIDES in dropped:
        yield "After the move, Weir decides the parallelism of each vertex"
    for name, what in _LEFT_OUT.items():
        if spec.get(name):
            yield f"{what[0].upper()}{what[1:]} (spec.{name}) has no counterpart in a StreamApp"
    for section in ("jobManager", "taskManager"):
        if (spec.get(section) or {}).get("podTemplate"):
            yield (
                f"spec.{section}.podTemplate has no counterpart: a StreamApp has one template for "
                "all pods; move what is needed into spec.flink.podTemplate"
            )
    if spec.get("serviceAccount") not in (None, "flink"):
        yield (
            f"Weir's pods run under service accounts of their own, not {spec['serviceAccount']}: "
            "if the job needs that one, for example for its storage, write it as "
            "spec.flink.podTemplate.spec.serviceAccountName"
        )


def describe_move(deployment: FlinkDeployment) -> str:
    """Return how the job is moved by a savepoint, with commands for each step by hand."""
    name, place = deployment.name, f"--namespace {deployment.namespace}"
    suspend = '{"spec": {"job": {"state": "suspended", "upgradeMode": "savepoint"}}}'
    state = "--for=jsonpath='{.status.lifecycleState}'=SUSPENDED"
    path = "-o jsonpath='{.status.jobStatus.upgradeSavepointPath}'"
    return f"""\
Nothing was changed. To move the job, which is moved back if that fails:
     weir adopt {name} {place} --move

The same by hand:
  1. Stop the job with a savepoint:
     kubectl patch flinkdeployment {name} {place} --type merge -p '{suspend}'
     kubectl wait flinkdeployment {name} {place} {state}
  2. Note the savepoint's path. Without one, Flink took none: go back, see below.
     kubectl get flinkdeployment {name} {place} {path}
  3. Delete the JobManager that is left, because it could run the job again:
     kubectl delete deployment {name} {place}
  4. Write the path as spec.flink.job.initialSavepoint into the StreamApp, and apply it.

{describe_way_back(deployment, name)}"""


def describe_way_back(deployment: FlinkDeployment, app: str) -> str:
    """Return the commands of the way back.

    Args:
        deployment: The FlinkDeployment.
        app: Name of the StreamApp.
    """
    name, place = deployment.name, f"--namespace {deployment.namespace}"
    forget = f'{{"metadata": {{"annotations": {{"{MOVE}": null}}}}, '
    back = forget + '"spec": {"job": {"state": "running"}}}'
    stop = '{"spec": {"state": "Suspended"}}'
    nonce = ((deployment.job or {}).get("savepointRedeployNonce") or 0) + 1
    newer = (
        forget + '"spec": {"job": {"state": "running", "initialSavepointPath": "PATH", '
        f'"savepointRedeployNonce": {nonce}}}}}}}'
    )
    return f"""\
The way back, at any time after --move:
     weir adopt {name} {place} --back
The same by hand, before the StreamApp exists:
     kubectl patch flinkdeployment {name} {place} --type merge -p '{back}'
and after that, with PATH as the second command prints it:
     kubectl patch streamapp {app} {place} --type merge -p '{stop}'
     kubectl wait streamapp {app} {place} --for=jsonpath='{{.status.controller.suspended}}'=true
     kubectl get streamapp {app} {place} -o jsonpath='{{.status.controller.restore_path}}'
     kubectl delete streamapp {app} {place}
     kubectl patch flinkdeployment {name} {place} --type merge -p '{newer}'"""
