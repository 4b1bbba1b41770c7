"""The keys of Flink's configuration: the names that each has, and those that Weir sets. Pure.

An option of Flink may have older names, and names of other options whose value it takes when it is
not set itself (fallbacks). Flink looks for an option under its own name first. What Weir recommends
stands under an option's own name, so what a user wrote under another one would lose, in silence:
`add_own_names` gives it the option's own name, too.

The keys that Weir sets itself are refused, each with a remedy and under every name. Weir pins
operators, scales them, takes savepoints and reads metrics through these; a user's value would be
overwritten in the best case, and silently break the pins in the worst. All other keys are passed on
unchanged, including Weir's own defaults (`heartbeat.*`, `web.refresh-interval`,
`taskmanager.network.adaptive-partitioner.enabled`).

The names, and the types of keys, come from Flink itself, all versions that Weir runs:
`scripts/flink_names.py` writes `flink_names.json` and `flink_types.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType


def _read_lists(name: str) -> Mapping[str, tuple[str, ...]]:
    text = files("weir_operator").joinpath(name).read_text(encoding="utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return MappingProxyType({key: tuple(others) for key, others in found.items()})


OTHER_NAMES: Mapping[str, tuple[str, ...]] = _read_lists("flink_names.json")
"""By an option's own name, the others under which Flink finds it, in the order of its search."""
KEYS_BY_TYPE: Mapping[str, frozenset[str]] = MappingProxyType(
    {kind: frozenset(keys) for kind, keys in _read_lists("flink_types.json").items()}
)
"""Keys by the Java type of their value, `Duration` or `MemorySize`."""


def _turn_round() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for own, others in OTHER_NAMES.items():
        for other in others:
            found.setdefault(other, []).append(own)
    return MappingProxyType({other: tuple(own) for other, own in found.items()})


OWN_NAMES: Mapping[str, tuple[str, ...]] = _turn_round()
"""By each other name, the options that Flink also finds under it."""


def own_names(key: str) -> tuple[str, ...]:
    """Return the options that Flink also finds under `key`; `key` itself is not among them."""
    return OWN_NAMES.get(key, ())


def add_own_names(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration in which every value also stands under its option's own name.

    The order is that of `config`, and a value under the own name is left as it is.
    """
    added: dict[str, str] = {}
    for key in config:
        for own in own_names(key):
            if own not in config:
                first = next(other for other in OTHER_NAMES[own] if other in config)
                added[own] = config[first]
    return {**config, **added}


_ADDRESS = "remove it, because Weir chooses addresses and ports"
_PIN = "remove it, because Weir uses it to pin operators to their TaskManagers"
_SCHEDULER = "remove it, because only the default scheduler keeps operators on their TaskManagers"
_METRICS = "remove it, because Weir uses it to read the job's metrics"
_STORAGE = "set spec.flink.storage instead"
_SCALER = "remove it, because Weir sets the parallelism of every operator"
_ANSWERS = "remove it, because Weir needs the results of savepoints for a longer time"
_PLAIN = "remove it, because Weir uses plain HTTP for Flink's REST interface"
_SESSION = "remove it, because Weir restarts a lost JobManager and its job itself"
_FOLDERS = "remove it, because Weir finds the state of a job by its folder"
_REST = "remove it, because Weir submits, stops and cancels jobs through it"
_PODS = "write what the pods need into spec.flink.podTemplate, because Weir makes them"
_OTHER_OPERATOR = "remove it, because the Flink Kubernetes Operator does not run this job"
_MEMORY_OF_JOB_MANAGER = "set spec.flink.jobManager.memory instead"
_MEMORY_OF_TASK_MANAGER = "set spec.nodePools[].memory instead"

OWNED_FLINK_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "blob.server.port": _ADDRESS,
        "jobmanager.bind-host": _ADDRESS,
        "jobmanager.rpc.*": _ADDRESS,
        "rest.address": _ADDRESS,
        "rest.bind-address": _ADDRESS,
        "rest.bind-port": _ADDRESS,
        "rest.port": _ADDRESS,
        "taskmanager.bind-host": _ADDRESS,
        "taskmanager.data.port": _ADDRESS,
        "taskmanager.host": _ADDRESS,
        "taskmanager.rpc.port": _ADDRESS,
        "security.ssl.enabled": _PLAIN,
        "security.ssl.rest.*": _PLAIN,
        "external-resource.*": _PIN,
        "external-resources": _PIN,
        "taskmanager.numberOfTaskSlots": _PIN,
        "taskmanager.cpu.cores": _PIN,
        "taskmanager.resource-id": _PIN,
        "jobmanager.scheduler": _SCHEDULER,
        "scheduler-mode": _SCHEDULER,
        "metrics.latency.granularity": _METRICS,
        "metrics.reporter.prom.*": _METRICS,
        "metrics.reporters": _METRICS,
        "execution.checkpointing.dir": _STORAGE,
        "execution.checkpointing.savepoint-dir": _STORAGE,
        "execution.checkpointing.create-subdir": _FOLDERS,
        "web.submit.enable": _REST,
        "web.cancel.enable": _REST,
        "web.upload.dir": _REST,
        "execution.checkpointing.externalized-checkpoint-retention": (
            "remove it, because Weir deletes old checkpoints itself"
        ),
        "rest.async.store-duration": _ANSWERS,
        "jobstore.expiration-time": _ANSWERS,
        "jobstore.max-capacity": _ANSWERS,
        "high-availability.*": _SESSION,
        "kubernetes.operator.*": _OTHER_OPERATOR,  # before the next one, which it begins with
        "kubernetes.*": _PODS,
        "containerized.*": _PODS,
        "resourcemanager.standalone.start-up-time": (
            "remove it, because Weir lets a job wait for its TaskManagers"
        ),
        "job.autoscaler.*": _SCALER,
        "parallelism.default": _SCALER,
        "pipeline.jobvertex-parallelism-overrides": _SCALER,
        "pipeline.max-parallelism": "set spec.flink.maxParallelism instead",
        "jobmanager.memory.process.size": _MEMORY_OF_JOB_MANAGER,
        "jobmanager.heap.*": _MEMORY_OF_JOB_MANAGER,
        "taskmanager.memory.process.size": _MEMORY_OF_TASK_MANAGER,
        "taskmanager.heap.*": _MEMORY_OF_TASK_MANAGER,
    }
)
"""What to do instead of setting a key under its own name; one that ends in `*` stands for all that
begin so."""


def remedy_for_owned(key: str) -> str | None:
    """Return what to do instead of setting `key`, `None` where the key is the user's."""
    return next((remedy for name in (key, *_related(key)) if (remedy := _remedy(name))), None)


def owned_key_cel() -> str:
    """Return the CEL expression that holds where the key `k` is owned."""
    exact = ", ".join(f"'{key}'" for key in owned_keys() if not key.endswith("*"))
    prefixes = [key.removesuffix("*") for key in OWNED_FLINK_KEYS if key.endswith("*")]
    starts = " || ".join(f"k.startsWith('{prefix}')" for prefix in prefixes)
    return f"k in [{exact}] || {starts}"


def owned_keys() -> Mapping[str, str]:
    """Return `OWNED_FLINK_KEYS` and the other names of these, with the same remedies."""
    others = {
        name: remedy
        for name in sorted({*OTHER_NAMES, *OWN_NAMES})
        if _remedy(name) is None and (remedy := remedy_for_owned(name)) is not None
    }
    return {**OWNED_FLINK_KEYS, **others}


def _remedy(key: str) -> str | None:
    for owned, remedy in OWNED_FLINK_KEYS.items():
        if key == owned or (owned.endswith("*") and key.startswith(owned.removesuffix("*"))):
            return remedy
    return None


def _related(key: str) -> Iterator[str]:
    """Yield the options that are found under `key`, and what the option `key` is found under."""
    yield from own_names(key)
    yield from OTHER_NAMES.get(key, ())
