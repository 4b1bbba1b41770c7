"""Flink's configuration for one StreamApp's session cluster, as flat keys. Pure.

Three layers, the later wins: Weir's recommendations, the user's `spec.flink.config` under any name
that Flink has for a key (`flink_keys`), and the keys that Weir owns (addresses, pins, metrics,
storage), without which the job would run on the wrong TaskManagers or be seen wrongly, and in
silence.

Why a recommendation is what it is stands beside it; all were measured on Flink 2.3.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import yaml

from weir_operator.flink_keys import add_own_names

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's, ten times as fast, where PyYAML was built with it. Both write the same for keys of up
to 120 characters and values of up to 10,000."""

RECOMMENDED: Mapping[str, str] = MappingProxyType(
    {
        # The REST interface caches a job's state; its default of 3 s is added to every rescale.
        "web.refresh-interval": "100 ms",
        # How old the record counts are that tell whether a restart has worked; Flink's 10 s would
        # be added to every rescale. The JobManager collects them only while somebody asks.
        "metrics.fetcher.update-interval": "100",
        # How long the ResourceManager waits before it looks for the slots that a job asks for. With
        # Flink's 50 ms, the gap of every restart is 36 ms longer.
        "slotmanager.requirement-check.delay": "1 ms",
        # How long the JobMaster collects what its operators ask for before it asks for slots.
        # Flink's 20 ms are for jobs whose requests come one by one; here they come at once.
        "slot.request.max-interval": "1 ms",
        # A killed TaskManager refuses two heartbeats and is noticed after 3 s instead of 12. One
        # that collects garbage refuses none: it is waited for as long as Flink's time-out says.
        "heartbeat.interval": "1000",
        # TaskManagers look for a JobManager that was started again every second, not every ten.
        "cluster.registration.error-delay": "1 s",
        "cluster.registration.max-timeout": "2 s",
        # JVMs that start together on a busy machine need more than Flink's 10 s for their actors.
        "pekko.startup-timeout": "60 s",
        # After a JobManager was lost, its job's slots are kept this long, not 10 s.
        "taskmanager.slot.timeout": "5 s",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2147483647",
        "restart-strategy.fixed-delay.delay": "500 ms",
        "execution.checkpointing.interval": "3 s",
        "execution.checkpointing.timeout": "2 min",
        "execution.checkpointing.tolerable-failed-checkpoints": "10",
        "execution.checkpointing.num-retained": "3",
        # Aligned while that is quick, unaligned under back-pressure, so that a job in overload
        # still has a fresh checkpoint to resume from. Quick is little beside a response time: while
        # barriers are aligned, records wait that came over channels whose barrier is there
        # (docs/decisions/0001).
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.aligned-checkpoint-timeout": "100 ms",
        # Small state travels in the metadata, which only the JobManager writes and reads. 1 MB is
        # the most that Flink takes.
        "execution.checkpointing.data-inline-threshold": "1 mb",
        # At low rates the default of 100 ms adds up to 100 ms per hop, which no queue explains; at
        # 0 ms records are sent one by one, for 5 to 31 % more CPU of a quick job.
        "execution.buffer-timeout.interval": "5 ms",
        # Stop with savepoint at twice the capacity: 0.7-2.3 s instead of 34-37.
        "taskmanager.network.memory.buffer-debloat.enabled": "true",
        "taskmanager.network.memory.buffer-debloat.target": "100 ms",
        "taskmanager.network.memory.buffer-debloat.period": "50 ms",
        # On rebalance edges records follow speed; without it the slowest pool sets the pace.
        "taskmanager.network.adaptive-partitioner.enabled": "true",
        # Flink keeps the last 128 markers of each source subtask, by default of two minutes: what
        # is long past would hide a rise, and count as a violation after a fall.
        "metrics.latency.interval": "500",
        "metrics.latency.history-size": "20",
    }
)
"""What Weir sets unless the user says otherwise."""

_AT_THE_SAME_ADDRESS: Mapping[str, str] = MappingProxyType({"heartbeat.timeout": "20000"})
"""What it sets where Flink's high availability tells nobody of a new JobManager. One that was
started again at the same address refuses no heartbeat, and TaskManagers come back to it only after
the time-out. Flink's 50 s are too long for that; collections of garbage of 20 s are still borne."""

METRICS_PORT = 9249
"""Of the reporter on Kubernetes; also the port of a Prometheus reporter that names none."""
PROMETHEUS_REPORTER = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
_METRIC_LABELS = "metrics.reporter.prom.scope.variables.additional"
_LABEL_BREAKERS = re.compile(r"[,:]")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAddress:
    """Where the JobManager is, as its TaskManagers see it."""

    host: str
    rpc_port: int
    rest_port: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """Where state lives, as URIs that JobManager and TaskManagers both understand."""

    checkpoints: str
    savepoints: str


DEFAULT_PROCESS_MEMORY = 1024
"""MiB."""
_MEMORY = "taskmanager.memory."
_SMALL_PARTS = {
    f"{_MEMORY}jvm-metaspace.size": "160m",
    f"{_MEMORY}framework.heap.size": "64m",
    f"{_MEMORY}framework.off-heap.size": "32m",
}
"""Smaller than Flink's own 256, 128 and 128 MiB, which are for many slots. Measured are at most 37
of metaspace, 37 of live objects with those of the job, and 8 beside network buffers (`make bench
NAME=task-manager-memory`). Jobs of many libraries need more metaspace: with 96, Flink 1.10 saw them
fail (FLINK-16406)."""
_NETWORK = "taskmanager.memory.network."
_MIN_NETWORK = 64  # MiB, of Flink's own


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskManagerMemory:
    """Memory of one TaskManager, in MiB."""

    process: int = DEFAULT_PROCESS_MEMORY
    """All of the process: heap, off-heap, metaspace, overhead."""
    managed: int = 0
    """Of it, for what lives off the heap: RocksDB, SQL's windows and joins, Python."""
    network: int = 0
    """Of it, what network buffers need at the most replicas; Flink's own share may be more."""

    def settings(self, user: Mapping[str, str]) -> dict[str, str]:
        """Return the keys for it, in addition to the user's."""
        own = add_own_names(user)
        chosen = dict(_SMALL_PARTS)
        if self.network > _MIN_NETWORK and not any(key.startswith(_NETWORK) for key in own):
            chosen[f"{_NETWORK}min"] = f"{self.network}m"
        return {
            **{key: size for key, size in chosen.items() if key not in own},
            "taskmanager.memory.process.size": f"{self.process}m",
            "taskmanager.memory.managed.size": f"{self.managed}m",
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskManagerIdentity:
    """Which replica a TaskManager is."""

    app: str
    id: str | None
    """`None` where the command line gives it, because one file serves many."""
    operator: str
    pool: str


def job_manager_configuration(
    *,
    app: str,
    address: ClusterAddress,
    storage: Storage,
    metrics_ports: Iterable[int],
    max_parallelism: int | None,
    user: Mapping[str, str],
    place: Mapping[str, str],
) -> dict[str, str]:
    """Return the JobManager's `config.yaml`; the job inherits it when its jar is run over REST.

    Args:
        app: Value of the label `weir_app` on every series.
        address: Where it listens.
        storage: Where checkpoints and savepoints go.
        metrics_ports: The reporter takes the first of these that is free.
        max_parallelism: Key groups of the job; `None` leaves it to the job.
        user: The user's keys.
        place: Keys that depend on where the process lives: interfaces, folders.
    """
    owned = {
        **_owned(address, storage),
        # A job waits in SCHEDULED for its TaskManagers; past this time it would fail and restart
        # twice a second until they come.
        "resourcemanager.standalone.start-up-time": "86400000",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "jobmanager.scheduler": "Default",
        # A controller that was away for long asks what became of a savepoint: by default Flink
        # forgets that after 5 minutes, and a job that has ended after an hour.
        "rest.async.store-duration": "7 d",
        "jobstore.expiration-time": str(7 * 86_400),
        "jobstore.max-capacity": "100",
        **_reporter(metrics_ports, {"weir_app": app}),
        **place,
    }
    if max_parallelism is not None:
        owned["pipeline.max-parallelism"] = str(max_parallelism)
    return _layered(_recommended(place), user, owned)


def task_manager_configuration(
    *,
    identity: TaskManagerIdentity,
    address: ClusterAddress,
    storage: Storage,
    memory: TaskManagerMemory,
    metrics_ports: Iterable[int],
    user: Mapping[str, str],
    place: Mapping[str, str],
) -> dict[str, str]:
    """Return one TaskManager's `config.yaml`: one slot, pinned to its operator.

    Args:
        identity: Which replica it is; the labels of every series say so.
        address: Where its JobManager is.
        storage: Where checkpoints and savepoints go.
        memory: Its memory.
        metrics_ports: The reporter takes the first of these that is free.
        user: The user's keys.
        place: Keys that depend on where the process lives: interfaces, folders.
    """
    resource = f"op-{identity.operator}"
    labels = {
        "weir_app": identity.app,
        "weir_operator": identity.operator,
        "weir_pool": identity.pool,
    }
    owned = {
        **_owned(address, storage),
        **({} if identity.id is None else {"taskmanager.resource-id": identity.id}),
        "taskmanager.numberOfTaskSlots": "1",
        # No driver is needed for a resource that only has a name; Flink warns once and goes on.
        "external-resources": resource,
        f"external-resource.{resource}.amount": "1",
        **memory.settings(user),
        **_reporter(metrics_ports, labels),
        **place,
    }
    return _layered(_recommended(place), user, owned)


def high_availability(*, cluster: str, namespace: str, storage: str) -> dict[str, str]:
    """Return the keys with which Flink recovers the job of a lost JobManager, on Kubernetes.

    Args:
        cluster: Prefix of the ConfigMaps in which Flink keeps who leads and what runs.
        namespace: Where these are.
        storage: URI of the folder for what they point to.
    """
    return {
        "high-availability.type": "kubernetes",
        "high-availability.storageDir": storage,
        "kubernetes.cluster-id": cluster,
        "kubernetes.namespace": namespace,
        # A JobManager that died is followed at once by its own successor: nobody else competes, and
        # the default of 15 s would be waited for in full.
        "high-availability.kubernetes.leader-election.lease-duration": "5 s",
        "high-availability.kubernetes.leader-election.renew-deadline": "4 s",
        "high-availability.kubernetes.leader-election.retry-period": "1 s",
    }


def render_yaml(configuration: Mapping[str, str]) -> str:
    """Return the text of a `config.yaml` with flat keys in order.

    Values stay text: an unquoted `0123` would be read as a number by Flink's YAML 1.2 parser.
    """
    text: str = yaml.dump(
        dict(configuration), Dumper=_DUMPER, sort_keys=True, default_style='"', width=10_000
    )
    return text


def _owned(address: ClusterAddress, storage: Storage) -> dict[str, str]:
    return {
        "jobmanager.rpc.address": address.host,
        "jobmanager.rpc.port": str(address.rpc_port),
        "rest.address": address.host,
        "rest.port": str(address.rest_port),
        "execution.checkpointing.dir": storage.checkpoints,
        "execution.checkpointing.savepoint-dir": storage.savepoints,
        "metrics.latency.granularity": "operator",
    }


def _reporter(ports: Iterable[int], labels: Mapping[str, str]) -> dict[str, str]:
    prefix = "metrics.reporter.prom"
    return {
        f"{prefix}.factory.class": PROMETHEUS_REPORTER,
        f"{prefix}.port": ",".join(str(port) for port in ports),
        # The list is written `name:value,name:value`, without any way to quote.
        _METRIC_LABELS: ",".join(
            f"{name}:{_LABEL_BREAKERS.sub('_', value)}" for name, value in labels.items()
        ),
    }


def _recommended(place: Mapping[str, str]) -> Mapping[str, str]:
    if "high-availability.type" in place:
        return RECOMMENDED
    return {**RECOMMENDED, **_AT_THE_SAME_ADDRESS}


def _layered(
    recommended: Mapping[str, str], user: Mapping[str, str], owned: Mapping[str, str]
) -> dict[str, str]:
    return {**recommended, **add_own_names(user), **owned}
