"""A FlinkDeployment of the Flink Kubernetes Operator: what Weir reads of it and writes to it.

Weir writes one key, `pipeline.jobvertex-parallelism-overrides` in `spec.flinkConfiguration`. The
operator takes a change of it as scaling: where the job has the adaptive scheduler, it sends the new
parallelism to the running job, and to every job that it submits later. From Flink 2.0 on, a job
that is submitted again does not get it (FLINK-38770), see `in_place`.

Server-side apply makes the write safe: it names the version of the object that was checked, and it
fails if somebody else has set the key.

Source: apache/flink-kubernetes-operator, `AbstractFlinkSpec` (a change of the key is of type SCALE)
and `NativeFlinkService.scale` (what must hold for scaling in place), 1.10.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kubernetes.utils.quantity import parse_quantity

from weir_operator.api.client import (
    FIELD_MANAGER,
    FIELD_MANAGER_CONFLICT,
    ConflictError,
    KubernetesApi,
)
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.options import read_size
from weir_operator.flink.versions import read_version
from weir_operator.limits import Json

GROUP_VERSION = "flink.apache.org/v1beta1"
PATH = f"/apis/{GROUP_VERSION}/namespaces/{{}}/flinkdeployments/{{}}"
OVERRIDES = "pipeline.jobvertex-parallelism-overrides"
"""Key of Flink's configuration: `VERTEX:PARALLELISM,...`."""
FIRST_IN_PLACE = (1, 18)
"""The first version of Flink whose running jobs take another parallelism."""
_FIRST_AT_CHECKPOINTS = (2, 0)
"""The first version of Flink that rescales when a checkpoint completes (FLIP-461), and that ignores
the key in a job that is submitted (FLINK-38770): the operator can send it to the running job."""
RUNNING = "RUNNING"
_TAKES_SCALING = frozenset({RUNNING, "CREATED", "INITIALIZING", "RESTARTING", "FAILING"})
"""States of a job to which the operator passes the key on; in any other, it upgrades the job."""
AUTOSCALER_KEYS = ("job.autoscaler.enabled", "kubernetes.operator.job.autoscaler.enabled")
"""The second is the name before release 1.7 of the operator."""
AUTOSCALER_IDLE = 600.0
"""Seconds without a change of its ConfigMap after which the operator's autoscaler counts as off; it
writes what it has measured each time that it looks at the job, by default every minute."""
_AUTOSCALER_STATE = "/api/v1/namespaces/{}/configmaps/autoscaler-{}"
MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class FlinkDeployment:
    """A FlinkDeployment, as far as Weir needs it."""

    name: str
    namespace: str
    version: str
    """The object's resourceVersion."""
    spec: Json
    configuration: Mapping[str, str]
    """Flink's, with flat keys."""
    job_state: str = ""
    """State of the job as the operator reports it; empty before its first report."""
    parent: str = ""
    """Name of the FlinkBlueGreenDeployment that has made it; empty where none has."""
    savepoint: str = ""
    """Path of the last savepoint with which the operator stopped the job; empty if it knows none.
    """

    @property
    def job(self) -> Json | None:
        """The section `job`; `None` of a session cluster."""
        return self.spec.get("job")

    @property
    def cores(self) -> float:
        """CPU of one TaskManager; Flink's own default is a core for each slot."""
        return self._cores("taskManager") or float(self.slots)

    @property
    def max_cores(self) -> float | None:
        """CPU that one TaskManager may use, its limit; `None` if its factor is not a number."""
        factor = _number(self.configuration.get("kubernetes.taskmanager.cpu.limit-factor", "1"))
        limit = _number(str(self._resources("taskManager", "limits").get("cpu", "")))
        return limit or (None if factor is None else self.cores * factor)

    @property
    def other_resources(self) -> tuple[tuple[str, str], ...]:
        """Resources other than CPU and memory that pods ask for, each with its section."""
        return tuple(
            (section, name)
            for section in ("jobManager", "taskManager")
            for name in sorted(
                {
                    *self._resources(section, "requests"),
                    *self._resources(section, "limits"),
                    *((self.spec.get(section) or {}).get("resource") or {}),
                }
                - {"cpu", "memory"}
            )
        )

    @property
    def job_manager_cores(self) -> float | None:
        """CPU of the JobManager; `None` where nothing says."""
        return self._cores("jobManager")

    @property
    def memory(self) -> int | None:
        """Bytes of memory of one TaskManager; `None` where nothing says."""
        return self._memory("taskManager")

    @property
    def job_manager_memory(self) -> int | None:
        """Bytes of memory of the JobManager; `None` where nothing says."""
        return self._memory("jobManager")

    @property
    def slots(self) -> int:
        """Slots of one TaskManager."""
        return _whole(self.configuration.get("taskmanager.numberOfTaskSlots")) or 1

    @property
    def most_slots(self) -> int | None:
        """Slots of the whole cluster; `None` where they have no limit."""
        return _whole(self.configuration.get("slotmanager.number-of-slots.max"))

    @property
    def overrides(self) -> dict[str, int]:
        """Parallelism by vertex id, as the key has it; what cannot be read is left out."""
        pairs = (part.partition(":") for part in self.configuration.get(OVERRIDES, "").split(","))
        return {
            vertex.strip(): int(number)
            for vertex, _, number in pairs
            if number.strip().isdigit() and vertex.strip()
        }

    def _asked(self, section: str, name: str) -> str:
        """Return an amount as the resource has it, in its form of today or the older one."""
        requests, limits = (self._resources(section, each) for each in ("requests", "limits"))
        found = requests.get(name) or limits.get(name)
        older = (self.spec.get(section) or {}).get("resource") or {}
        return str(found or older.get(name) or "")

    def _resources(self, section: str, kind: str) -> Json:
        part = self.spec.get(section) or {}
        return (part.get("resources") or {}).get(kind) or {}

    def _cores(self, section: str) -> float | None:
        prefix = f"kubernetes.{section.lower()}.cpu"
        keys = (f"{prefix}.amount", prefix, f"{section.lower()}.cpu.cores")
        amounts = (self._asked(section, "cpu"), *(self.configuration.get(each) for each in keys))
        return next((_number(each) for each in amounts if each), None)

    def _memory(self, section: str) -> int | None:
        prefix = f"{section.lower()}.memory."
        config = self.configuration
        older = config.get(f"{section.lower()}.heap.size")  # of the whole, in spite of its name
        whole = self._asked(section, "memory") or config.get(f"{prefix}process.size") or older
        if whole:
            return read_memory(whole)
        flink = read_memory(config.get(f"{prefix}flink.size", ""))
        if flink is None:
            return None
        # As Flink does: what the JVM needs besides comes on top.
        inner = flink + (read_memory(config.get(f"{prefix}jvm-metaspace.size", "")) or 256 * MIB)
        fraction = _number(config.get(f"{prefix}jvm-overhead.fraction")) or 0.1
        low = read_memory(config.get(f"{prefix}jvm-overhead.min", "")) or 192 * MIB
        high = read_memory(config.get(f"{prefix}jvm-overhead.max", "")) or 1024 * MIB
        return inner + min(max(int(inner * fraction / (1 - fraction)), low), high)


def read_deployment(found: Json) -> FlinkDeployment:
    """Return a FlinkDeployment from the object of the API server."""
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    job = status.get("jobStatus") or {}
    last = (job.get("savepointInfo") or {}).get("lastSavepoint") or {}  # of older operators
    return FlinkDeployment(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        version=meta.get("resourceVersion", ""),
        spec=spec,
        configuration=flatten(spec.get("flinkConfiguration") or {}),
        job_state=str(job.get("state") or ""),
        parent=next(
            (
                str(each["name"])
                for each in meta.get("ownerReferences") or ()
                if each["kind"] == "FlinkBlueGreenDeployment"
            ),
            "",
        ),
        savepoint=str(job.get("upgradeSavepointPath") or last.get("location") or ""),
    )


def refusals(deployment: FlinkDeployment) -> tuple[str, ...]:
    """Return why Weir cannot scale the job in place, a sentence each; none where it can."""
    return tuple(_refusals(deployment))


def _refusals(deployment: FlinkDeployment) -> Iterator[str]:
    this, configuration = f"FlinkDeployment {deployment.name}", deployment.configuration
    if deployment.job is None:
        yield f"{this} is a session cluster: expected spec.job, got none"
        return
    if deployment.parent:
        yield (
            f"{this} is a part of FlinkBlueGreenDeployment {deployment.parent}, which would "
            "overwrite what Weir sets: expected a FlinkDeployment of its own; write mode: Advise, "
            "and in flink.ref the FlinkBlueGreenDeployment"
        )
    if deployment.spec.get("mode", "native") == "standalone":
        yield (
            f"spec.mode of {this}: expected native, got standalone, in which the operator restarts "
            "the job for every change and starts no TaskManagers by itself"
        )
    if deployment.job.get("upgradeMode") == "stateless":
        yield (
            f"spec.job.upgradeMode of {this}: expected last-state or savepoint, got stateless, "
            "which loses the job's state whenever the operator upgrades the job instead of scaling "
            "it"
        )
    yield from refuse_autoscaler(deployment)
    if configuration.get("scheduler-mode", "").strip().lower() == "reactive":
        yield (
            f"spec.flinkConfiguration of {this}: expected no scheduler-mode, got reactive, in "
            "which Flink itself sets the parallelism; remove it"
        )
    key = "kubernetes.operator.job.upgrade.inplace-scaling.enabled"
    if configuration.get(key, "").strip().lower() == "false":
        yield (
            f"spec.flinkConfiguration of {this}: expected {key}: true, got false; remove it, "
            "because the operator would restart the job for every change"
        )
    if OVERRIDES in configuration and OVERRIDES not in deployment.spec["flinkConfiguration"]:
        yield (
            f"spec.flinkConfiguration of {this}: expected the flat key {OVERRIDES}, got nested "
            "keys; remove them"
        )


def refuse_autoscaler(deployment: FlinkDeployment) -> Iterator[str]:
    """Yield a sentence where Flink's own autoscaler scales the job."""
    for key in AUTOSCALER_KEYS:
        if deployment.configuration.get(key, "").strip().lower() == "true":
            yield (
                f"spec.flinkConfiguration of FlinkDeployment {deployment.name}: expected no other "
                f"autoscaler, got {key}: true; set it to false"
            )


def explain_wait(deployment: FlinkDeployment, *, is_back: bool = False) -> str:
    """Return why the key cannot be written now, a sentence; empty where it can.

    One that takes a change back may be written to a job that does not run.
    """
    state = deployment.job_state
    if state == RUNNING or (is_back and state in _TAKES_SCALING):
        return ""
    return (
        f"status.jobStatus.state of FlinkDeployment {deployment.name}: expected RUNNING, got "
        f"{state or 'none'}; Weir waits, because the operator would upgrade the job instead of "
        "scaling it"
    )


async def find_autoscaler(api: KubernetesApi, deployment: FlinkDeployment, *, now: float) -> str:
    """Return a sentence where the operator's autoscaler works on the job; empty where not.

    It may be enabled in the operator's own defaults, which only the operator can read. But it keeps
    what it measures in a ConfigMap. One that lies there unchanged is left from earlier.

    Raises:
        TemporaryError: The API server did not answer.
    """
    given = (deployment.configuration.get(key, "").strip().lower() for key in AUTOSCALER_KEYS)
    if "false" in given:
        return ""
    try:
        found = await api.get(_AUTOSCALER_STATE.format(deployment.namespace, deployment.name))
    except PermanentError:  # there is none, or it may not be read
        return ""
    meta = found["metadata"]
    times = (each.get("time") for each in meta.get("managedFields") or ())
    changed = max(
        (datetime.fromisoformat(each).timestamp() for each in times if each), default=math.nan
    )
    if now - changed > AUTOSCALER_IDLE:
        return ""
    return (
        f"The Flink Kubernetes Operator's autoscaler works on FlinkDeployment {deployment.name}: "
        f'it has just written ConfigMap {meta["name"]}; set {AUTOSCALER_KEYS[0]}: "false" in '
        "spec.flinkConfiguration"
    )


def refuse_flink(version: str, configuration: Mapping[str, str]) -> str:
    """Return why Flink cannot scale the job in place; empty where it can.

    Args:
        version: Flink's, such as `1.20.5`.
        configuration: Of the JobManager as it runs, so with the operator's own defaults.
    """
    if read_version(version) < FIRST_IN_PLACE:
        return (
            f"Flink's version: expected 1.18 or newer, got {version}; running jobs of older "
            "versions cannot be scaled"
        )
    scheduler = configuration.get("jobmanager.scheduler", "Default")
    if scheduler.lower() == "adaptive":
        return ""
    return (
        f"jobmanager.scheduler of the job: expected Adaptive, got {scheduler}; set it in "
        "spec.flinkConfiguration of the FlinkDeployment, which restarts the job once"
    )


def rescales_at_checkpoints(version: str) -> bool:
    """Return whether a job of this version waits for a checkpoint to rescale.

    One that is submitted again then runs without the overrides.
    """
    return read_version(version) >= _FIRST_AT_CHECKPOINTS


def describe_overrides(parallelism: Mapping[str, int]) -> str:
    """Return the value of the key, the same for the same parallelism."""
    return ",".join(f"{vertex}:{number}" for vertex, number in sorted(parallelism.items()))


async def read_flink_deployment(api: KubernetesApi, namespace: str, name: str) -> FlinkDeployment:
    """Return the FlinkDeployment as it is now.

    Raises:
        PermanentError: There is none, or it may not be read.
        TemporaryError: The API server did not answer.
    """
    return read_deployment(await api.get(PATH.format(namespace, name)))


async def write_overrides(
    api: KubernetesApi,
    deployment: FlinkDeployment,
    parallelism: Mapping[str, int],
    *,
    dry_run: bool = False,
) -> None:
    """Write the parallelism of the vertices, if `deployment` is still as it was read.

    Raises:
        TemporaryError: It has changed since it was read; read and check it again.
        PermanentError: Somebody else has set the key, or Weir may not write it.
    """
    body = {
        "apiVersion": GROUP_VERSION,
        "kind": "FlinkDeployment",
        "metadata": {"name": deployment.name, "resourceVersion": deployment.version},
        "spec": {"flinkConfiguration": {OVERRIDES: describe_overrides(parallelism)}},
    }
    path = PATH.format(deployment.namespace, deployment.name)
    try:
        await api.apply(path, body, FIELD_MANAGER, force=False, dry_run=dry_run)
    except ConflictError as error:
        if FIELD_MANAGER_CONFLICT not in error.reasons:
            raise TemporaryError(
                f"FlinkDeployment {deployment.name} was changed at the same moment"
            ) from error
        raise PermanentError(
            f"spec.flinkConfiguration of FlinkDeployment {deployment.name}: expected "
            f"{OVERRIDES} to be Weir's, but somebody else has set it; remove it ({error})"
        ) from error


def read_memory(text: str) -> int | None:
    """Return bytes of an amount that Flink or Kubernetes writes; `None` of another text.

    What Flink can read is Flink's, as for the operator: `2048m` is mebibytes.
    """
    size = read_size(text)
    if size is not None:
        return size
    amount = _number(text)
    return int(amount) if amount is not None and 1 <= amount < math.inf else None


def _number(text: str | None) -> float | None:
    try:
        return float(parse_quantity(text)) if text else None
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


def flatten(configuration: Mapping[str, Json], prefix: str = "") -> dict[str, str]:
    """Return Flink's configuration with flat keys; a resource may nest them, and list values."""
    flat: dict[str, str] = {}
    for key, value in configuration.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            parts = value if isinstance(value, list) else [value]
            texts = (str(each).lower() if isinstance(each, bool) else str(each) for each in parts)
            flat[f"{prefix}{key}"] = ";".join(texts)
    return flat
