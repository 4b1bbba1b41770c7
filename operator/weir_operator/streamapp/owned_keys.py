"""The keys of Flink's configuration that Weir sets itself, each with what to do instead.

Weir pins operators, scales them, takes savepoints and reads metrics through these; a value of the
user's would be overwritten in the best case and break the pins in silence in the worst. All other
keys pass through untouched, Weir's own good defaults (`heartbeat.*`, `web.refresh-interval`,
`taskmanager.network.adaptive-partitioner.enabled`) included.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_ADDRESS = "leave it out, Weir chooses addresses and ports"
_PIN = "leave it out, Weir pins operators to their TaskManagers by it"
_SCHEDULER = "leave it out, only the default scheduler keeps operators on their TaskManagers"
_METRICS = "leave it out, Weir reads the job's metrics through it"
_STORAGE = "set spec.flink.storage instead"
_SCALER = "leave it out, Weir sets the parallelism of every operator"
_ANSWERS = "leave it out, Weir asks long afterwards what became of a savepoint"
_PLAIN = "leave it out, Weir speaks plain HTTP to Flink's REST interface"
_SESSION = "leave it out, Weir starts a lost JobManager and its job again itself"

OWNED_FLINK_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "jobmanager.rpc.*": _ADDRESS,
        "rest.address": _ADDRESS,
        "rest.bind-address": _ADDRESS,
        "rest.bind-port": _ADDRESS,
        "rest.port": _ADDRESS,
        "taskmanager.data.port": _ADDRESS,
        "taskmanager.host": _ADDRESS,
        "taskmanager.rpc.port": _ADDRESS,
        "security.ssl.rest.*": _PLAIN,
        "external-resource.*": _PIN,
        "external-resources": _PIN,
        "taskmanager.numberOfTaskSlots": _PIN,
        "taskmanager.resource-id": _PIN,
        "jobmanager.scheduler": _SCHEDULER,
        "scheduler-mode": _SCHEDULER,
        "metrics.latency.granularity": _METRICS,
        "metrics.reporter.prom.*": _METRICS,
        "metrics.reporters": _METRICS,
        "execution.checkpointing.dir": _STORAGE,
        "execution.checkpointing.savepoint-dir": _STORAGE,
        "state.checkpoints.dir": _STORAGE,
        "state.savepoints.dir": _STORAGE,
        "execution.checkpointing.externalized-checkpoint-retention": (
            "leave it out, Weir retains checkpoints, and deletes them once the next job has its own"
        ),
        "rest.async.store-duration": _ANSWERS,
        "jobstore.expiration-time": _ANSWERS,
        "jobstore.max-capacity": _ANSWERS,
        "high-availability": _SESSION,
        "high-availability.*": _SESSION,
        "resourcemanager.standalone.start-up-time": (
            "leave it out, Weir lets a job wait for its TaskManagers"
        ),
        "job.autoscaler.*": _SCALER,
        "parallelism.default": _SCALER,
        "pipeline.jobvertex-parallelism-overrides": _SCALER,
        "pipeline.max-parallelism": "set spec.flink.maxParallelism instead",
        "jobmanager.memory.process.size": "set spec.flink.jobManager.memory instead",
        "taskmanager.memory.process.size": "set spec.nodePools[].memory instead",
    }
)
"""What to do instead of setting a key; a key that ends in `*` stands for all that begin so."""


def remedy_for_owned(key: str) -> str | None:
    """Return what to do instead of setting `key`, `None` where the key is the user's."""
    for owned, remedy in OWNED_FLINK_KEYS.items():
        if key == owned or (owned.endswith("*") and key.startswith(owned.removesuffix("*"))):
            return remedy
    return None


def owned_key_cel() -> str:
    """Return the CEL expression that holds where the key `k` is owned."""
    exact = ", ".join(f"'{key}'" for key in OWNED_FLINK_KEYS if not key.endswith("*"))
    prefixes = [key.removesuffix("*") for key in OWNED_FLINK_KEYS if key.endswith("*")]
    starts = " || ".join(f"k.startsWith('{prefix}')" for prefix in prefixes)
    return f"k in [{exact}] || {starts}"
