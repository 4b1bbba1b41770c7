"""Where a job that is down resumes: its old deployment, or the next best that is possible. Pure.

The next best deployment is used if pools have no room, or if the manifest no longer allows the old
one. It is for a job that is down and cannot wait for a decision: fewer replicas that run are better
than all that do not. It is also for replicas whose nodes are about to be removed, which must not
wait for room in their own pool. Policies decide from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weir_operator.clock import Clock
from weir_operator.rescale.closing import add_full
from weir_operator.rescale.replicas import explain_absence
from weir_operator.rescale.settings import RescaleSettings
from weir_operator.rescale.status import AppStatus, StatusStore
from weir_operator.runtime.protocol import Deployments, Replica, Runtime
from weir_policies.model.node_types import NodeType
from weir_policies.policy import OperatorModel

Group = tuple[str, str]  # operator, pool


def fit_into_room(
    wanted: Deployments,
    alive: Collection[Replica],
    full: Collection[Group],
    models: Mapping[str, OperatorModel],
) -> Deployments:
    """Return the deployment closest to `wanted` that fits the available room.

    Args:
        wanted: Where the job should be.
        alive: TaskManagers; those that are pending have no place.
        full: (operator, pool) that take no more replicas than stand there.
        models: Of each operator that may change; the others stay as they are wanted.
    """
    found = {name: dict(counts) for name, counts in wanted.items()}
    for name, pool in full:
        if name not in found or name not in models:
            continue
        standing = sum(
            each.operator == name and each.pool == pool and not each.pending for each in alive
        )
        cut = _cut(found[name], pool, standing)
        if not found[name]:
            found[name] = _move(cut, name, full, models[name].node_types) or dict(wanted[name])
    return found


def move_leaving(
    deployments: Deployments,
    leaving: Collection[Replica],
    full: Collection[Group],
    models: Mapping[str, OperatorModel],
) -> Deployments:
    """Return the deployments with replicas that leave full pools in other pools.

    Args:
        deployments: Where the job runs.
        leaving: Replicas that cannot stay on their nodes.
        full: (operator, pool) that take no more replicas than stand there.
        models: Of each operator that may change; replicas of the others wait for room.
    """
    found = {name: dict(counts) for name, counts in deployments.items()}
    for each in leaving:
        counts, model = found.get(each.operator, {}), models.get(each.operator)
        is_full = (each.operator, each.pool) in full
        if model is None or not is_full or not counts.get(each.node_type):
            continue
        room = [
            other
            for other in model.node_types
            if (each.operator, other.pool) not in full
            and (other.pool_limit is None or _count(counts, other.pool) < other.pool_limit)
        ]
        if not room:
            continue
        fastest = max(room, key=lambda other: other.speedup).name
        counts[fastest] = counts.get(fastest, 0) + 1
        counts[each.node_type] -= 1
        if not counts[each.node_type]:
            del counts[each.node_type]
    return found


def fit_to_manifest(
    deployments: Deployments, initial: Deployments, models: Mapping[str, OperatorModel]
) -> Deployments:
    """Return the deployments as far as the manifest still allows them.

    A size that its pool has no more becomes the pool's fastest, a pool that is gone the fastest of
    all; what is beyond `maxReplicas` or a pool's limit goes.
    """
    return {
        name: _fit_one(deployments[name], models[name])
        if name in models and deployments.get(name)
        else dict(counts)
        for name, counts in initial.items()
    }


def _fit_one(counts: Mapping[str, int], model: OperatorModel) -> dict[str, int]:
    known = {each.name for each in model.node_types}
    found: dict[str, int] = {}
    for node_type, count in counts.items():
        kept = node_type
        if node_type not in known:
            pool = node_type.split("/", 1)[0]
            same = [each for each in model.node_types if each.pool == pool]
            kept = max(same or model.node_types, key=lambda each: each.speedup).name
        found[kept] = found.get(kept, 0) + count
    for each in model.node_types:
        if each.pool_limit is not None:
            _cut(found, each.pool, each.pool_limit)
    excess = sum(found.values()) - model.max_replicas
    for each in sorted(model.node_types, key=lambda each: each.speedup):
        taken = min(max(0, excess), found.get(each.name, 0))
        excess -= taken
        if taken:
            found[each.name] -= taken
    return {node_type: count for node_type, count in found.items() if count}


def _count(counts: Mapping[str, int], pool: str) -> int:
    return sum(count for node_type, count in counts.items() if node_type.split("/", 1)[0] == pool)


def _cut(counts: dict[str, int], pool: str, maximum: int) -> int:
    """Leave no more than `maximum` replicas in a pool; return how many were taken away."""
    mine = [node_type for node_type in counts if node_type.split("/", 1)[0] == pool]
    excess = max(0, sum(counts[node_type] for node_type in mine) - maximum)
    left = excess
    for node_type in reversed(mine):
        taken = min(left, counts[node_type])
        counts[node_type] -= taken
        left -= taken
        if not counts[node_type]:
            del counts[node_type]
    return excess


def _move(
    count: int, operator: str, full: Collection[Group], node_types: Sequence[NodeType]
) -> dict[str, int]:
    """Return the replicas on the fastest type whose pool has room; empty where none has."""
    open_types = [each for each in node_types if (operator, each.pool) not in full]
    if not open_types:
        return {}
    best = max(open_types, key=lambda each: each.speedup)
    maximum = count if best.pool_limit is None else min(count, best.pool_limit)
    return {best.name: maximum}


class PlacementSearch:
    """Finds deployments that have room; remembers since when replicas wait for theirs."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        store: StatusStore,
        clock: Clock,
        initial: Deployments,
        models: Mapping[str, OperatorModel] | None,
        settings: RescaleSettings,
    ) -> None:
        """Create it for what the manifest allows.

        Args:
            runtime: Where the replicas are.
            store: The status, where full pools are remembered.
            clock: The time.
            initial: What each operator begins with.
            models: Of the operators that may change; `None` holds nothing against the manifest.
            settings: How long is waited.
        """
        self._runtime = runtime
        self._store = store
        self._clock = clock
        self._initial = initial
        self._models = models
        self._settings = settings
        self._pending_since: float | None = None

    def fit(self, deployments: Deployments) -> Deployments:
        """Return the deployments as far as the manifest has them now."""
        if self._models is None:
            return {name: deployments.get(name, own) for name, own in self._initial.items()}
        return fit_to_manifest(deployments, self._initial, self._models)

    async def find_target(self, status: AppStatus) -> Deployments:
        """Return where a job that is down should run: its old deployment as far as it fits."""
        alive = await self._runtime.replicas()
        fitting = self.fit(status.deployments)
        return fit_into_room(fitting, alive, self._full(status), self._models or {})

    def find_way_out(self, status: AppStatus, alive: Sequence[Replica]) -> Deployments:
        """Return where a job runs on once replicas that are about to go have left."""
        leaving = [each for each in alive if each.terminating]
        return move_leaving(status.deployments, leaving, self._full(status), self._models or {})

    def _full(self, status: AppStatus) -> list[Group]:
        now = self._clock.now()
        return [(each.operator, each.pool) for each in status.full if each.holds(now)]

    def forget_waiting(self) -> None:
        """Start to count again: all have their place."""
        self._pending_since = None

    async def note_waiting(self, pending: tuple[Replica, ...]) -> str:
        """Remember for how long replicas find no place, and past the deadline which pools are full.

        Returns:
            Why the wait is over, one sentence; empty while it is not.
        """
        now = self._clock.monotonic()
        if not pending:
            self.forget_waiting()
            return ""
        self._pending_since = now if self._pending_since is None else self._pending_since
        limit = self._settings.start_deadline
        if now - self._pending_since < limit:
            return ""
        self.forget_waiting()
        reason = str(explain_absence(pending, limit))
        status = self._store.load()
        known = add_full(
            status.full,
            {(each.operator, each.pool) for each in pending},
            lasts=self._settings.full_for_pools(each.pool for each in pending),
            reason=reason,
            now=self._clock.now(),
        )
        await self._store.save(status.model_copy(update={"full": known}))
        return reason
