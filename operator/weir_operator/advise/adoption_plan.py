"""The StreamApp that would replace a FlinkDeployment, and what would stop the move. Pure.

The StreamApp has the same job with the same arguments, image, configuration, pod template and max
parallelism, and one node pool whose sizes are what a slot of the FlinkDeployment has. Without
`operators`, the job begins as one operator.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from weir_operator.advise.flink_deployment import (
    AUTOSCALER_KEYS,
    MIB,
    OVERRIDES,
    FlinkDeployment,
    read_memory,
    refuse_autoscaler,
)
from weir_operator.advise.pod_keys import is_of_pods, translate
from weir_operator.advise.reference import TASK_MANAGERS
from weir_operator.advise.view import ExternalJob, size_of
from weir_operator.api.objects import Body
from weir_operator.errors import PermanentError
from weir_operator.flink.memory import (
    TooLittleMemoryError,
    size_task_manager,
    split_job_manager,
)
from weir_operator.flink.options import find_refused_values
from weir_operator.flink.scripts import CLIENT, PYTHON, WORKER
from weir_operator.flink.versions import read_version
from weir_operator.flink_keys import OTHER_NAMES, remedy_for_owned
from weir_operator.runtime.pods.pod_spec import CONTAINER, merge
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import API_VERSION, KIND

FIRST_RUN_BY_WEIR = (1, 20)
"""The first version of Flink with which Weir's agent and its engine were tested."""
_LOCAL = "local:"


def _names_of(key: str) -> tuple[str, ...]:
    return (key, *OTHER_NAMES[key])


_SAVEPOINTS = _names_of("execution.checkpointing.savepoint-dir")
_CHECKPOINTS = _names_of("execution.checkpointing.dir")
_ARTIFACTS = "user.artifacts.artifact-list"
_INTERNAL = "$internal."
_TOTALS = frozenset(
    f"{role}.memory.{name}"
    for role, names in (
        ("taskmanager", ("process.size", "flink.size", "task.heap.size")),
        ("jobmanager", ("process.size", "flink.size", "heap.size")),
    )
    for name in names
)
"""Keys from which the memory of a pod is taken over; Weir divides it anew."""
_OF_ALL_SLOTS = frozenset(
    f"taskmanager.memory.{name}"
    for name in ("managed.size", "network.min", "network.max", "task.off-heap.size")
)
"""Amounts of a whole TaskManager, which under Weir has one slot."""
_IMAGES = ("kubernetes.container.image.ref", "kubernetes.container.image")
"""Keys of the image, where the resource has no field for it; the second is of Flink 1.16."""
_OPTIONS_OF_PYTHON = {
    names: key
    for names, key in (
        (("-py", "--python"), ""),
        (("-pyclientexec", "--pyClientExecutable"), CLIENT),
        (("-pyexec", "--pyExecutable"), WORKER),
        (("-pyfs", "--pyFiles"), "python.files"),
        (("-pyreq", "--pyRequirements"), "python.requirements"),
        (("-pyarch", "--pyArchives"), "python.archives"),
        (("-pypath", "--pyPythonPath"), "python.pythonpath"),
    )
}
"""Options of Flink's `PythonDriver`, and the key of Flink's configuration that says the same."""
_HIDDEN = "******"
"""What Flink shows in the place of a secret."""
_KEPT_OF_RUN = frozenset(
    {
        *_SAVEPOINTS, *_CHECKPOINTS, *AUTOSCALER_KEYS, *_IMAGES,
        "taskmanager.numberOfTaskSlots",
        "taskmanager.memory.process.size", "jobmanager.memory.process.size",
        "kubernetes.taskmanager.cpu.amount", "kubernetes.jobmanager.cpu.amount",
    }
)  # fmt: skip
"""Keys that Weir reads although it sets them itself, or leaves them out."""
_MADE_FOR_A_RUN = (
    _INTERNAL, "execution.attached", "execution.job-listeners", "execution.savepoint",
    "execution.shutdown-on-application-finish", "execution.state-recovery.path",
    "execution.submit-failed-job-on-application-error", "execution.target", "internal.",
    "job-result-store.", "jobmanager.memory.", "pipeline.jars", "pipeline.name",
    "process.", "taskmanager.memory.flink.size", "taskmanager.memory.task.heap.size",
    "web.tmpdir",
)  # fmt: skip
"""Beginnings of keys that the operator and Flink write for one run of a job."""
_WAIT = "--timeout=15m"
"""Of each command that waits: Weir tries to take a savepoint for ten minutes."""
_SAVEPOINT = """'"${SAVEPOINT:?is empty, so no savepoint is known}"'"""
"""The shell's variable within JSON in quotes; without a path, the command fails."""
_PATH_OF_SAVEPOINT = (
    "{{with .status.jobStatus}}{{with .upgradeSavepointPath}}{{.}}{{else}}"
    "{{with .savepointInfo}}{{with .lastSavepoint}}{{.location}}{{end}}{{end}}{{end}}{{end}}"
)
"""Operators before 1.10 have only the second; nothing is printed where there is neither."""
_LEFT_OUT = {
    "ingress": "the Ingress before Flink's page",
    "logConfiguration": "the log configuration",
}
"""Sections of a FlinkDeployment that a StreamApp lacks, in words."""
_TAKEN_OVER = frozenset(
    {
        "flinkConfiguration", "flinkVersion", "image", "imagePullPolicy", "job", "jobManager",
        "mode", "podTemplate", "restartNonce", "serviceAccount", "taskManager",
    }
)  # fmt: skip
"""Fields of a FlinkDeployment that a StreamApp has, or that nothing has to remain of."""


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
    running: Mapping[str, str] = MappingProxyType({}),
) -> Adoption:
    """Return the StreamApp for a FlinkDeployment, and what would stop the move.

    Args:
        deployment: As it is.
        job: As it runs; `None` if it does not.
        version: Flink's, such as `2.1.0`; empty where `job` is `None`.
        objective: The response time that the job must meet, such as `500ms`.
        given: The StreamApp that the user wrote; `None` makes one.
        cause: Why `job` is `None`, a sentence; empty where it is not known.
        running: Flink's configuration with which the JobManager runs, and so with the operator's
            own defaults, which only the operator can read; empty where `job` is `None`.
    """
    defaults = _defaults(deployment, running)
    deployment = replace(deployment, configuration={**defaults, **deployment.configuration})
    if given is not None:
        stops = (*_stops(deployment, job, version, cause), *_differences(given, job))
        return Adoption(manifest=given, stops=stops, remarks=())
    return Adoption(
        manifest=_manifest(deployment, job, objective=objective),
        stops=(*_stops(deployment, job, version, cause), *_unknown_parts(deployment)),
        remarks=tuple(_remarks(deployment, job, defaults)),
    )


def _manifest(deployment: FlinkDeployment, job: ExternalJob | None, *, objective: str) -> Body:
    program, options = _program(deployment.job or {})
    flink: Body = {"image": image} if (image := _image(deployment)) else {}
    flink["job"] = program
    if job is not None:
        flink["maxParallelism"] = job.max_parallelism
    storage = _storage(deployment)
    if storage:
        flink["storage"] = {"uri": storage}
    flink |= _pods(deployment)
    if config := _config(deployment) | options:
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


def _program(job: Body) -> tuple[Body, dict[str, str]]:
    """Return the program of a job, and the keys of Flink's configuration that its options say."""
    program: Body = {}
    args = [str(each) for each in job.get("args") or ()]
    options: dict[str, str] = {}
    if job.get("entryClass") == PYTHON:
        args, options = _split_options_of_python(args)
        program["python"] = {"file": options.pop("", "").removeprefix("file://")}
    else:
        uri = str(job.get("jarURI") or "")
        if uri.startswith(_LOCAL):
            program["jar"] = "/" + uri.removeprefix(_LOCAL).lstrip("/")
        if job.get("entryClass"):
            program["entryClass"] = job["entryClass"]
    if args:
        program["args"] = args
    return program, options


def _split_options_of_python(args: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the arguments of a Python program, and what Flink's `PythonDriver` takes for itself.

    The second is by key of Flink's configuration; the path of the program has none. As in Flink,
    all is the program's from the first argument on that is no option of the driver.
    """
    keys = {name: key for names, key in _OPTIONS_OF_PYTHON.items() for name in names}
    rest, options = list(args), dict[str, str]()
    while rest:
        name, equals, value = rest[0].partition("=")
        if name not in keys:
            break
        options[keys[name]] = value if equals else "".join(rest[1:2])
        del rest[: 1 if equals else 2]
    return rest[1:] if rest[:1] == ["--"] else rest, options


def _image(deployment: FlinkDeployment) -> str:
    named = (deployment.spec.get("image"), *(deployment.configuration.get(key) for key in _IMAGES))
    return next((str(each) for each in named if each), "")


def _defaults(deployment: FlinkDeployment, running: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in running.items()
        if key not in deployment.configuration
        and (
            key in _KEPT_OF_RUN
            or is_of_pods(key)
            or not (key.startswith(_MADE_FOR_A_RUN) or remedy_for_owned(key))
        )
    }


def _config(deployment: FlinkDeployment) -> dict[str, str]:
    given = deployment.configuration
    reporters = tuple(
        each.key.removesuffix("port")
        for each in find_refused_values(given)
        if each.key.startswith("metrics.reporter.")
    )
    return {
        key: _for_one_slot(value, deployment.slots) if key in _OF_ALL_SLOTS else value
        for key, value in given.items()
        if remedy_for_owned(key) is None
        and key not in _TOTALS
        and not key.startswith((_INTERNAL, *reporters))
    }


def _for_one_slot(size: str, slots: int) -> str:
    """Return a slot's part of a TaskManager's memory, as Flink writes it."""
    amount = read_memory(size)
    return size if amount is None or slots == 1 else f"{amount // slots}b"


def _pool(deployment: FlinkDeployment) -> Body:
    pool: Body = {
        "name": TASK_MANAGERS,
        "sizes": [size_of(deployment.cores / deployment.slots)],
    }
    if (memory := _memory_of_slot(deployment)) is not None:
        pool["memory"] = f"{_enough_for_task_manager(deployment, memory)}Mi"
    return pool | translate(deployment.configuration).pool


def _memory_of_slot(deployment: FlinkDeployment) -> int | None:
    """Return the MiB of a TaskManager for each of its slots; `None` where nothing says."""
    memory = deployment.memory
    return None if memory is None else memory // MIB // deployment.slots


def _enough_for_task_manager(deployment: FlinkDeployment, memory: int) -> int:
    """Return these MiB, or more where a TaskManager with one slot needs more."""
    config = _config(deployment)
    return _enough(lambda: size_task_manager(config, process=memory), memory)


def _enough_for_job_manager(deployment: FlinkDeployment) -> int:
    config, memory = _config(deployment), (deployment.job_manager_memory or 0) // MIB
    return _enough(lambda: split_job_manager(config, process=memory), memory)


def _enough(size: Callable[[], object], memory: int) -> int:
    try:
        size()
    except TooLittleMemoryError as error:
        return error.enough
    except PermanentError:  # of a key, which is told when the StreamApp is checked
        pass
    return memory


def _pods(deployment: FlinkDeployment) -> Body:
    """Return what is the same of the pods: their template, and the JobManager's container."""
    spec = deployment.spec
    found: Body = {}
    written: Body = {}
    if spec.get("serviceAccount"):
        written["spec"] = {"serviceAccountName": str(spec["serviceAccount"])}
    if spec.get("imagePullPolicy"):
        container = {"name": CONTAINER, "imagePullPolicy": spec["imagePullPolicy"]}
        written.setdefault("spec", {})["containers"] = [container]
    given: Body = spec.get("podTemplate") or {}
    template = merge(merge(given, translate(deployment.configuration).template), written)
    kept = {name: template[name] for name in ("metadata", "spec") if template.get(name)}
    if kept:
        found["podTemplate"] = kept
    job_manager = {}
    if deployment.job_manager_cores is not None:
        job_manager["cpu"] = size_of(deployment.job_manager_cores)
    if deployment.job_manager_memory is not None:
        job_manager["memory"] = f"{_enough_for_job_manager(deployment)}Mi"
    if job_manager:
        found["jobManager"] = job_manager
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
    if deployment.parent:
        yield (
            f"{this} is a part of FlinkBlueGreenDeployment {deployment.parent}, which could start "
            "its job again: expected a FlinkDeployment of its own; save the StreamApp in a file, "
            f"suspend FlinkBlueGreenDeployment {deployment.parent} with a savepoint, and apply the "
            "file with the savepoint's path as spec.flink.job.initialSavepoint"
        )
    if given.get("state") == "suspended":
        yield (
            f"spec.job.state of {this}: expected running, got suspended; let it run, "
            "because only a running job can be moved; if a StreamApp runs this job now, leave it"
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
    if not _image(deployment):
        yield (
            f"spec.image of FlinkDeployment {deployment.name}: expected the image of the job, got "
            "nothing; save the StreamApp in a file, write spec.flink.image, and use --filename"
        )
    uri = str(given.get("jarURI") or "")
    if given.get("entryClass") == PYTHON:
        if not _program(given)[0]["python"]["file"]:
            yield (
                f"spec.job.args of FlinkDeployment {deployment.name}: expected the PyFlink program "
                "as -py PATH, got none; save the StreamApp in a file, write "
                "spec.flink.job.python.file, and use --filename"
            )
    elif not uri.startswith(_LOCAL):
        yield (
            f"spec.job.jarURI of FlinkDeployment {deployment.name}: expected a path in the image, "
            f"such as local:///opt/flink/usrlib/trips.jar, got {uri or 'nothing'}; put the jar "
            "into the image, because Weir does not download jars"
        )
    if (artifacts := deployment.configuration.get(_ARTIFACTS)) is not None:
        yield (
            f"spec.flinkConfiguration of FlinkDeployment {deployment.name}: expected no "
            f"{_ARTIFACTS}, got {artifacts!r}; put the files into the image, because Weir does "
            "not download them"
        )
    for section, name in deployment.other_resources:
        yield (
            f"spec.{section}.resources of FlinkDeployment {deployment.name}: expected cpu and "
            f"memory, got {name}; save the StreamApp in a file, write it into the resources of a "
            "container in spec.flink.podTemplate, and use --filename"
        )
    for key in translate(deployment.configuration).unknown:
        yield (
            f"spec.flinkConfiguration of FlinkDeployment {deployment.name}: expected no {key}, got "
            "a value that Weir cannot take over; save the StreamApp in a file, write the same into "
            "spec.flink.podTemplate or spec.nodePools, and use --filename"
        )
    for key, value in deployment.configuration.items():
        if value == _HIDDEN:
            yield (
                f"The Flink Kubernetes Operator's defaults have {key}, whose value Flink hides: "
                "expected it in spec.flinkConfiguration; save the StreamApp in a file, give the "
                "job the secret by spec.flink.podTemplate, and use --filename"
            )
    for section in ("jobManager", "taskManager"):
        if (deployment.spec.get(section) or {}).get("podTemplate"):
            yield (
                f"spec.{section}.podTemplate of FlinkDeployment {deployment.name}: expected none, "
                "because a StreamApp has one template for all pods; save the StreamApp in a file, "
                "write what is needed into spec.flink.podTemplate, and use --filename"
            )
    heap = "taskmanager.memory.task.heap.size"
    if heap in deployment.configuration and deployment.memory is None:
        yield (
            f"spec.flinkConfiguration of FlinkDeployment {deployment.name}: expected the memory of "
            f"a whole TaskManager, got {heap}; save the StreamApp in a file, write "
            "spec.nodePools[].memory, and use --filename"
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
    written = parse_manifest(manifest).spec.flink.max_parallelism
    if job is not None and written != job.max_parallelism:
        yield (
            f"spec.flink.maxParallelism of the StreamApp: expected {job.max_parallelism}, the "
            f"job's, got {written}; correct it, because the state cannot be restored with another"
        )


def _remarks(
    deployment: FlinkDeployment, job: ExternalJob | None, defaults: Mapping[str, str]
) -> Iterator[str]:
    spec = deployment.spec
    if job is not None:
        count = max(sum(counts.values()) for counts in job.deployments.values())
        names = ", ".join(job.topology.operators)
        yield (
            f"The job runs with up to {count} subtasks per vertex ({names}), and its StreamApp "
            "starts as one operator with one replica: to begin with as many, add the operators "
            "that `weir graph` prints, with `initial`"
        )
    config = _config(deployment)
    dropped = sorted(
        key for key in deployment.configuration if key not in config and not is_of_pods(key)
    )
    if dropped:
        yield (
            "These keys of Flink's configuration are left out, because Weir sets them itself, takes"
            f" them over in other fields or has no use for them: {', '.join(dropped)}"
        )
    if taken := sorted(defaults.keys() & config.keys()):
        yield f"The operator's defaults set these keys, too: {', '.join(taken)}"
    if (limit := deployment.max_cores or 0) > deployment.cores:
        yield (
            f"A TaskManager may use {limit:g} cores today (its limit), and its replicas only what "
            f"it requests, {deployment.cores:g} cores for all slots together: choose larger sizes "
            "if the job uses more today"
        )
    memory = _memory_of_slot(deployment)
    if deployment.slots > 1 and (memory or any(key in _OF_ALL_SLOTS for key in config)):
        yield (
            "Amounts of memory are those of one slot, because Weir's TaskManagers have one; each "
            "of them has a JVM of its own, so give more where the job used what it had"
        )
    if memory is not None and (enough := _enough_for_task_manager(deployment, memory)) > memory:
        yield f"A TaskManager gets {enough}Mi instead of {memory}Mi per slot, the least it can have"
    memory = (deployment.job_manager_memory or 0) // MIB
    if memory and (enough := _enough_for_job_manager(deployment)) > memory:
        yield f"The JobManager gets {enough}Mi instead of {memory}Mi, the least it can have"
    if (count := (spec.get("jobManager") or {}).get("replicas") or 1) > 1:
        yield (
            f"A StreamApp has one JobManager instead of {count} (spec.jobManager.replicas): "
            "Kubernetes starts it again where it is lost"
        )
    if OVERRIDES in dropped:
        yield "After the move, Weir decides the parallelism of each vertex"
    for name in spec:
        if name not in _TAKEN_OVER and spec[name]:
            what = _LEFT_OUT.get(name, "a field that Weir does not know")
            yield f"{what[0].upper()}{what[1:]} (spec.{name}) has no counterpart in a StreamApp"
    if account := spec.get("serviceAccount"):
        yield (
            f"Weir's pods run under the service account {account}, as before; without "
            "spec.flink.podTemplate.spec.serviceAccountName, they get accounts of their own with "
            "fewer rights"
        )


def describe_move(deployment: FlinkDeployment, manifest: Body, file: str) -> str:
    """Return the commands of the move and of the way back, with what they do as comments.

    Each command is one line for a shell, to be copied as it is.
    """
    job, named = deployment.job or {}, manifest["metadata"]["name"]
    place, given = f"--namespace {deployment.namespace}", shlex.quote(file)
    this, app = f"{deployment.name} {place}", f"{named} {place}"
    change, change_app = (
        f"kubectl patch {kind} --type merge -p"
        for kind in (f"flinkdeployment {this}", f"streamapp {app}")
    )
    wait, wait_app = (
        f"kubectl wait {kind} {_WAIT} --for="
        for kind in (f"flinkdeployment {this}", f"streamapp {app}")
    )
    none = "empty or KUBERNETES_OPERATOR_LAST_STATE"
    if deployment.savepoint:
        none += f" or an older one ({deployment.savepoint})"
    start = '{"spec": {"flink": {"job": {"initialSavepoint": "' + _SAVEPOINT + '"}}}}'
    newer = (
        '{"spec": {"job": {"state": "running", "initialSavepointPath": "' + _SAVEPOINT + '", '
        f'"savepointRedeployNonce": {(job.get("savepointRedeployNonce") or 0) + 1}}}}}}}'
    )
    suspended = f"{wait}jsonpath='{{.status.lifecycleState}}'=SUSPENDED"
    stopped = f"{wait_app}jsonpath='{{.status.controller.suspended}}'=true"
    path = "'{.status.controller.restore_path}'"
    mode = json.dumps({"spec": {"job": {"upgradeMode": job.get("upgradeMode")}}})
    return f"""\
# Nothing was changed. To move the job, save the StreamApp as {file}, and run these
# commands in one shell, each after the one before has succeeded.
# 1. The API server says whether it accepts the StreamApp; nothing is changed
kubectl apply {place} -f {given} --dry-run=server
# 2. Stop the job with a savepoint
{change} '{{"spec": {{"job": {{"state": "suspended", "upgradeMode": "savepoint"}}}}}}'
# 3. Wait for the savepoint. If what is printed is {none}, Flink took none: go back
SAVEPOINT=$({suspended} -o go-template='{_PATH_OF_SAVEPOINT}') && echo "$SAVEPOINT"
# 4. Delete the JobManager that is left, because it could run the job again
kubectl delete deployment {this} --ignore-not-found
# 5. Create the StreamApp, which starts from the savepoint
kubectl patch -f {given} --local --type merge -p '{start}' -o yaml | kubectl apply {place} -f -
# 6. Wait until its job runs
{wait_app}condition=Ready

# The way back, for as long as the FlinkDeployment exists. If there is no StreamApp, or one whose
# job never ran, which you delete, run this instead of the first four commands:
#   {change} '{{"spec": {{"job": {{"state": "running"}}}}}}'
# 1. Stop the StreamApp's job with a savepoint
{change_app} '{{"spec": {{"state": "Suspended"}}}}'
# 2. Wait for the savepoint, whose path is printed
SAVEPOINT=$({stopped} -o jsonpath={path}) && echo "$SAVEPOINT"
# 3. Delete the StreamApp; only when it is gone, the FlinkDeployment may run
kubectl delete streamapp {app} {_WAIT}
# 4. Let the FlinkDeployment run again, from that savepoint
{change} '{newer}'
# 5. Wait until its job runs
{wait}jsonpath='{{.status.jobStatus.state}}'=RUNNING
# 6. Set its upgrade mode as before; not earlier, as `stateless` would drop the state
{change} '{mode}'"""
