"""Names, labels, pools and storage of one StreamApp's pods, as values. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from weir_operator.api.client import Body
from weir_operator.errors import PermanentError
from weir_operator.flink import programs, scripts
from weir_operator.flink.configuration import Storage, TaskManagerMemory
from weir_operator.flink.job_graph import JobGraph
from weir_operator.runtime.places import (
    MemoryNeeds,
    Place,
    cores_of,
    job_manager_place,
    managed_memory_of,
    memory_needs_of,
    needs_in,
    places_of,
    size_memory,
)
from weir_operator.runtime.revision import AgentImage, Revision
from weir_operator.streamapp.flink import Job
from weir_operator.streamapp.models import API_VERSION, KIND, StreamApp
from weir_operator.streamapp.pools import NodePool
from weir_operator.streamapp.quantities import Cpu

MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "weir.dev/component"
APP = "weir.dev/app"
OPERATOR = "weir.dev/operator"
POOL = "weir.dev/pool"
REVISION = "weir.dev/revision"
SIZE = "weir.dev/size"
PLACE = "weir.dev/place"
UNBOOSTED = "weir.dev/cpu-unboosted"
"""Annotation of a pod that has more CPU while it starts: its size."""
RESULTS = "weir.dev/job-results"
"""Annotation of the JobManager with `FlinkPods.results`."""

FLINK = "/opt/flink"
"""Where Flink is in an image."""
CONFIG_MOUNT = "/etc/weir/flink"
"""Where a container has the files of its ConfigMap."""
PROGRAMS_JAR = f"{CONFIG_MOUNT}/{programs.JAR}"
"""Weir's own programs, which run a SQL script; in the JobManager's ConfigMap."""
PYTHON_JAR = f"{FLINK}/opt/{scripts.PYTHON_JAR}"
"""Pattern of the jar that runs a PyFlink program, in Flink's images."""
STATE_MOUNT = "/flink-data"
"""Where the volume with checkpoints and savepoints is in every container."""
CONTROLLER_LABELS: Mapping[str, str] = {"app.kubernetes.io/name": "weir"}
"""Labels of the pods that may reach Flink's REST interface, in the controller's namespace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """The object with which all others go."""

    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> Body:
        """Return how dependents name it."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Make:
    """What an upgrade changes of the pods."""

    image: str
    job_manager: Place
    """Where the JobManager runs."""
    claim: str | None = None
    """PersistentVolumeClaim with the state."""
    uri: str | None = None
    """Folder with the state, where there is no claim."""
    jar: str | None = None
    """Path in the container; `None` takes the one jar of `/opt/flink/usrlib`."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The user's keys for Flink."""
    pod_template: Body = field(default_factory=dict)

    @classmethod
    def of_app(cls, app: StreamApp) -> Self:
        """Return what the manifest asks for now.

        Raises:
            PermanentError: It names no image.
        """
        flink = app.spec.flink
        storage = flink.storage
        return cls(
            image=_required(flink.image),
            job_manager=job_manager_place(app),
            claim=storage.claim if storage else None,
            uri=storage.uri if storage else None,
            jar=jar_in_image(flink.job),
            config=dict(flink.config or {}),
            pod_template=dict(flink.pod_template or {}),
        )

    @classmethod
    def of_revision(cls, revision: Revision, *, now: Make) -> Self:
        """Return the pods' part of a revision.

        Args:
            revision: What the job is to be made of.
            now: What the manifest asks for: the JobManager's place and the storage of a revision
                that does not name them.

        Raises:
            PermanentError: It names no image.
        """
        parts = revision.processes
        image, jar = parts.get("image"), parts.get("jar")
        config, template, storage = (
            parts.get(name) or {} for name in ("config", "podTemplate", "storage")
        )
        storage = storage or {"claim": now.claim, "uri": now.uri}
        if not (
            isinstance(config, dict) and isinstance(template, dict) and isinstance(storage, dict)
        ):
            raise PermanentError("Expected a revision of Weir's, got something else")
        claim, uri = storage.get("claim"), storage.get("uri")
        return cls(
            image=_required(image if isinstance(image, str) else None),
            job_manager=revision.job_manager or now.job_manager,
            claim=claim if isinstance(claim, str) else None,
            uri=uri if isinstance(uri, str) else None,
            jar=jar if isinstance(jar, str) else None,
            config={key: str(value) for key, value in config.items()},
            pod_template=dict(template),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FlinkPods:
    """Everything about one StreamApp's pods that is not their number."""

    namespace: str
    name: str
    owner: Owner
    make: Make
    revision: str
    """Id of the revision that `make` is of; empty before one was named."""
    pools: Mapping[str, NodePool]
    """As the manifest has them now, for the names of their sizes."""
    places: Mapping[str, Place]
    """Where replicas run, by pool."""
    managed_memory: Mapping[str, int]
    """MiB that operators ask for; the others leave it to Flink's share."""
    memory_needs: Mapping[str, MemoryNeeds]
    """What else operators ask of their TaskManagers' memory, as in the manifest now."""
    graph: JobGraph | None
    """What the job's program builds; `None` where that is not known."""
    max_parallelism: int
    controller_namespace: str
    """Where the controller runs, which alone may reach Flink's REST interface."""
    agent: AgentImage | None = None
    """`None` starts Flink without Weir's agent."""
    results: str = ""
    """Folder of the results of ended jobs; empty for Flink's own. See `job_manager`."""

    @classmethod
    def of(
        cls,
        app: StreamApp,
        *,
        uid: str,
        controller_namespace: str,
        agent: AgentImage | None = None,
    ) -> Self:
        """Return what a StreamApp asks for.

        Raises:
            PermanentError: It names no image.
        """
        meta = app.metadata
        return cls(
            namespace=meta.namespace,
            name=meta.name,
            owner=Owner(api_version=API_VERSION, kind=KIND, name=meta.name, uid=uid),
            make=Make.of_app(app),
            revision="",
            pools={pool.name: pool for pool in app.spec.node_pools},
            places=places_of(app),
            managed_memory=managed_memory_of(app),
            memory_needs=memory_needs_of(app),
            graph=None,
            max_parallelism=app.spec.flink.max_parallelism,
            controller_namespace=controller_namespace,
            agent=agent,
        )

    def with_revision(self, revision: Revision) -> Self:
        """Return what the pods are at a revision; pools that it does not know stay as they are.

        Raises:
            PermanentError: The revision names no image.
        """
        managed = revision.managed_memory if revision.places else self.managed_memory
        return replace(
            self,
            make=Make.of_revision(revision, now=self.make),
            revision=revision.id,
            places={**self.places, **revision.places},
            managed_memory=managed,
            graph=revision.graph,
            agent=revision.agent or self.agent,
        )

    @property
    def app(self) -> str:
        """The StreamApp as metrics name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def survives(self) -> bool:
        """Whether state outlives the JobManager's pod, so that Flink can recover the job itself."""
        return self.make.claim is not None or self.make.uri is not None

    @property
    def storage(self) -> Storage:
        """Where Flink keeps state."""
        return Storage(
            checkpoints=f"{self._state}/checkpoints", savepoints=f"{self._state}/savepoints"
        )

    @property
    def recovery_folder(self) -> str:
        """URI of the folder in which Flink keeps what it recovers a JobManager's jobs from."""
        return f"{self._state}/recovery"

    @property
    def _state(self) -> str:
        if self.make.uri is not None:
            return self.make.uri.rstrip("/")
        # A claim may be shared, so each StreamApp has its own folder.
        return f"file://{STATE_MOUNT}/{self.namespace}.{self.name}"

    @property
    def job_manager(self) -> str:
        """Name of the JobManager's Deployment and Service."""
        return fitting(f"{self.name}-jobmanager")

    @property
    def account(self) -> str:
        """Name of the JobManager's service account, and of what all pods share."""
        return fitting(f"{self.name}-flink")

    @property
    def task_manager_account(self) -> str:
        """Name of the TaskManagers' service account."""
        return fitting(f"{self.name}-flink-taskmanager")

    @property
    def chosen_account(self) -> str | None:
        """The service account that the user's template names, for all pods."""
        name = self.make.pod_template.get("spec", {}).get("serviceAccountName")
        return None if name is None else str(name)

    @property
    def cluster_id(self) -> str:
        """Prefix of the ConfigMaps that Flink makes; it allows 45 characters.

        Not the name alone: a FlinkDeployment of this name, from which the job may be moving over,
        keeps its own recovery data under that, and what an earlier StreamApp of this name left
        points to jobs of its own.
        """
        return fitting(f"weir-{self.name}-{self.owner.uid[:8]}", longest=45)

    def workload(self, operator: str, pool: str) -> str:
        """Return the name of the ReplicaSet of an operator in a pool."""
        # Names may contain the separator: the digest distinguishes `a-b, c` from `a, b-c`.
        digest = hashlib.sha256(f"{self.name}/{operator}/{pool}".encode()).hexdigest()[:5]
        return f"{fitting(f'{self.name}-{operator}-{pool}', longest=50)}-{digest}"

    def labels(self, component: str, *, operator: str = "", pool: str = "") -> dict[str, str]:
        """Return the labels of an object; those that select pods never change."""
        found = {"app.kubernetes.io/name": "flink", "app.kubernetes.io/instance": self.name}
        return found | self.selector(component, operator=operator, pool=pool)

    def selector(self, component: str, *, operator: str = "", pool: str = "") -> dict[str, str]:
        """Return the labels by which pods are found."""
        found = {MANAGED_BY: "weir", APP: self.name, COMPONENT: component}
        return found | ({OPERATOR: operator, POOL: pool} if operator else {})

    def memory_of(self, operator: str, pool: str) -> TaskManagerMemory:
        """Return the memory of a replica.

        Raises:
            PermanentError: There is no such pool, or no TaskManager can run in so little memory.
        """
        self.place_named(pool)
        needs = {
            name: replace(each, managed=self.managed_memory.get(name))
            for name, each in self.memory_needs.items()
        }
        if self.graph is not None:
            needs = needs_in(self.graph, needs)
        return size_memory(
            needs.get(operator, MemoryNeeds(pools=(pool,))),
            pool,
            process={name: place.memory for name, place in self.places.items()},
            config=self.make.config,
        )

    def cores_of(self, pool: str) -> int:
        """Return the cores of the largest size of a pool; one where the manifest has it no more."""
        return cores_of(self.pools[pool]) if pool in self.pools else 1

    def place_named(self, pool: str) -> Place:
        """Return where the replicas of a pool run.

        Raises:
            PermanentError: There is no pool of this name.
        """
        if pool not in self.places:
            known = ", ".join(self.places)
            raise PermanentError(f"Expected one of the pools {known}, got {pool!r}")
        return self.places[pool]

    def place_id(self, operator: str, pool: str) -> str:
        """Return `Revision.place_id` of the replicas that are made now.

        Raises:
            PermanentError: There is no pool of this name.
        """
        return self.place_named(pool).digest(managed_memory=self.managed_memory.get(operator, 0))

    def size_of(self, pool: str, cpu: str) -> str:
        """Return a CPU quantity as the pool writes it; Kubernetes may write it otherwise."""
        try:
            cores = Cpu(cpu).cores
        except ValueError:  # of a pod that Weir did not make: it has none of the pool's sizes
            return cpu
        sizes = self.pools[pool].sizes if pool in self.pools else ()
        return next((str(size) for size in sizes if size.cores == cores), cpu)


def jar_in_image(job: Job | None) -> str | None:
    """Return the path of the jar that has the job's entry class, in the JobManager's container.

    `None` is the one jar of `/opt/flink/usrlib`.
    """
    if job is None:
        return None
    if job.sql is not None:
        return PROGRAMS_JAR
    return job.jar if job.python is None else PYTHON_JAR


def _required(image: str | None) -> str:
    if image is None:
        raise PermanentError(
            "spec.flink.image: expected an image, which a cluster needs, got none; add one"
        )
    return image


def fitting(name: str, *, longest: int = 63) -> str:
    """Return `name`, or where that is too long its beginning with a digest of the whole."""
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: longest - 9].rstrip('-')}-{digest}"
