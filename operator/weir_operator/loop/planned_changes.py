"""Changes that keep a job running and as the manifest asks, and when Weir retries them.

The first part is pure: it returns the journals of starts, upgrades, suspensions and replacements.

Failed changes are retried after pauses that grow (`Retries`). Changes are identified by what they
are to achieve, not by their ids: a drained node does not wait because an upgrade found no room a
moment ago, and a second node does not wait for the first. The status keeps the failures, so that
another controller continues to count; otherwise a manifest whose deployment never runs would stop
the job at each start. A new spec resets the count: whoever corrected it need not wait.

A job that is down resumes with its old deployment, or the next best that is possible: where pools
have no room, or the manifest no longer allows the old one. It cannot wait for a decision, and fewer
replicas that run are better than all that do not. The same holds for replicas whose nodes are about
to be removed, which must not wait for room in their own pool. Policies decide from there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypedDict, Unpack

from weir_operator.clock import Clock
from weir_operator.loop.proposals import count_per_pool
from weir_operator.rescale.closing import add_full
from weir_operator.rescale.engine import EngineParts
from weir_operator.rescale.journal import (
    Kind,
    RescaleJournal,
    Step,
    plan,
    summarise_change,
)
from weir_operator.rescale.replicas import explain_absence, misplaced_replicas
from weir_operator.rescale.status import (
    LONGEST_PAUSE,
    AppStatus,
    FailedChange,
    StatusStore,
    find_failed,
    lengthen,
)
from weir_operator.runtime.protocol import Deployments, Replica
from weir_operator.runtime.revision import Revision
from weir_policies.model.node_types import NodeType
from weir_policies.policy import OperatorModel


@dataclass(frozen=True, kw_only=True, slots=True)
class Pauses:
    """Seconds between two tries: twice as many each time, up to a bound."""

    first: float
    longest: float
    """Where the job ran on. A try that stopped it is not repeated often, however it hurries."""


PATIENT = Pauses(first=60.0, longest=960.0)
"""For what can wait: each try costs pods that come and go, and events."""
URGENT = Pauses(first=5.0, longest=60.0)
"""For replicas that are about to be lost: room may come free any moment, and a try waits for it a
minute by itself."""


class Retries:
    """Remembers the changes of one StreamApp that came to nothing."""

    def __init__(self, store: StatusStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def note_spec(self, edition: str) -> None:
        """Forget what failed under another spec.

        Raises:
            TemporaryError: The status could not be written.
        """
        status = self._store.load()
        nothing_failed_yet = not (status.edition or status.failed or status.failed_changes)
        if not edition or status.edition == edition or nothing_failed_yet:
            return
        changes: dict[str, object] = {"edition": edition}
        if status.edition:
            changes |= {"failed": (), "failed_changes": ()}
        await self._store.save(status.model_copy(update=changes))

    def allows(self, journal: RescaleJournal) -> bool:
        """Return whether it is time to try this change."""
        status, now, subject = self._store.load(), self._clock.now(), _subject(journal)
        if find_failed(status.failed, journal.source, journal.target, now) is not None:
            return False
        return not any(
            each.subject == subject and each.holds(now) for each in status.failed_changes
        )

    async def note(self, journal: RescaleJournal, end: RescaleJournal, pauses: Pauses) -> None:
        """Store the end of a change; a successful one ends all waiting.

        Raises:
            TemporaryError: The status could not be written.
        """
        status, now, subject = self._store.load(), self._clock.now(), _subject(journal)
        known = status.failed_changes
        if end.step is Step.DONE:
            kept: tuple[FailedChange, ...] = ()
        elif end.withdrawn:
            kept = known
        else:
            before = next((each for each in known if each.subject == subject), None)
            longest = pauses.longest if end.step is Step.ABANDONED else LONGEST_PAUSE
            lasts = lengthen(before, pauses.first, longest, now)
            failed = FailedChange(
                subject=subject, until=now + lasts, lasts=lasts, reason=end.failure or end.reason
            )
            kept = (*[each for each in known if each is not before][-9:], failed)
        if kept != known:
            await self._store.save(status.model_copy(update={"failed_changes": kept}))


def _subject(journal: RescaleJournal) -> str:
    """Return the goal of a change: kind, replicas to replace, revision, target."""
    revision = journal.revision.id if journal.revision is not None else ""
    target = sorted((name, sorted(counts.items())) for name, counts in journal.target.items())
    what = (str(journal.kind), sorted(journal.replace), revision, target)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


class ChangeParts(TypedDict, total=False):
    """What only some changes have, as in `plan`."""

    restore_path: str | None
    change_id: str | None
    replace: tuple[str, ...]
    avoid: tuple[str, ...]
    revision: Revision | None
    by_checkpoint: bool
    superseded: tuple[str, ...]
    restore_nonce: int | None


def plan_from(
    status: AppStatus,
    kind: Kind,
    reason: str,
    target: Deployments,
    *,
    now: float,
    **more: Unpack[ChangeParts],
) -> RescaleJournal:
    """Return the journal of a change of the job that runs."""
    source, job = status.deployments, status.job_id
    return plan(
        kind=kind, reason=reason, now=now, source=source, target=target, old_job=job, **more
    )


def recover(
    status: AppStatus,
    target: Deployments,
    restore_path: str | None,
    revision: Revision | None,
    cause: str,
    *,
    now: float,
    superseded: tuple[str, ...] = (),
) -> RescaleJournal:
    """Return the start of a job that has ended unexpectedly."""
    return plan_from(
        status,
        Kind.RECOVER,
        cause,
        target,
        now=now,
        restore_path=restore_path,
        revision=None if revision == status.revision else revision,
        superseded=superseded,
    )


def upgrade(
    status: AppStatus, revision: Revision, target: Deployments, *, now: float
) -> RescaleJournal:
    """Return the way to another revision."""
    before = status.revision.id if status.revision else "an unknown one"
    reason = f"The job is upgraded from revision {before} to {revision.id}"
    return plan_from(status, Kind.UPGRADE, reason, target, now=now, revision=revision)


def improve(
    status: AppStatus,
    alive: Sequence[Replica],
    wanted: Revision | None,
    target: Deployments,
    *,
    now: float,
) -> RescaleJournal | None:
    """Return the change by which a job that runs becomes what is asked; `None` where it is that."""
    running = status.revision
    if wanted is not None and running is not None and wanted.id != running.id:
        return upgrade(status, wanted, target, now=now)
    moved = () if wanted is None else misplaced_replicas(alive, wanted)
    if target != status.deployments:
        reason = "The manifest has other operators, pools, sizes or limits than the running job"
    elif moved:
        reason = f"Their pool changed in the manifest: {', '.join(moved)}"
    else:
        return None
    revision = None if wanted == running else wanted
    return plan_from(status, Kind.RESCALE, reason, target, now=now, revision=revision)


def replace_sizes(
    status: AppStatus, sizes: Mapping[str, str], refusal: str, *, now: float
) -> RescaleJournal:
    """Return the replacement of replicas that came back with another size and cannot change it."""
    reason = (
        "Replicas came back with other sizes, and the nodes refused to resize "
        f"them in place ({refusal})"
    )
    replace = tuple(sorted(sizes))
    return plan_from(status, Kind.RESCALE, reason, status.deployments, now=now, replace=replace)


def replace_terminating(
    status: AppStatus, alive: Sequence[Replica], target: Deployments, *, now: float
) -> RescaleJournal | None:
    """Return the replacement of replicas about to go; `None` where none is."""
    terminating = {replica.id: replica.terminating for replica in alive if replica.terminating}
    if not terminating:
        return None
    reasons = "; ".join(f"{replica} ({why})" for replica, why in sorted(terminating.items()))
    reason = f"Weir moves replicas before they are lost: {reasons}"
    replace = tuple(sorted(terminating))
    return plan_from(status, Kind.RESCALE, reason, target, now=now, replace=replace)


def describe_end(end: RescaleJournal) -> tuple[tuple[str, str], ...]:
    """Return what to report of a change that was not given up: reasons and sentences."""
    if end.step is Step.DONE and end.failure is not None:
        stays = (
            "Weir does not roll it back, because only the new revision can read the "
            "checkpoint that it wrote"
        )
        return ((f"{end.kind}Failed", f"{end.failure}; {stays}, and restarts it from there"),)
    if end.step is Step.DONE:
        by = (
            " from a checkpoint (a sink without transactions gets some records again)"
            if end.by_checkpoint
            else ""
        )
        done = (f"{end.kind}Done", _describe_done(end, by))
        return (done, *_describe_flow(end))
    if end.step is Step.ROLLED_BACK:
        back = ("RolledBack", f"{summarise_change(end)}: {end.failure or end.reason}")
        return (back, *_describe_flow(end))
    if end.withdrawn:
        return (("ChangeWithdrawn", f"{end.failure}; the job was left as it is"),)
    abandoned = ("ChangeAbandoned", f"{end.failure}; the job was left as it is")
    if end.pending and not end.avoid:
        places = ", ".join(f"{operator} in {pool}" for operator, pool in end.pending)
        full = f"No room for {places}; Weir looks for the next best deployment"
        return abandoned, ("PoolFull", full)
    return (abandoned,)


def _describe_done(end: RescaleJournal, by: str) -> str:
    """Return what a change that succeeded did; the reason of a start or a stop says nothing."""
    did = summarise_change(end)
    if end.kind is Kind.START:
        place = "empty state" if end.restore_path is None else _name_of(end.restore_path)
        return f"{did}, from {place}"
    if end.kind is Kind.SUSPEND:
        kept = f", with {_name_of(end.restore_path)}" if end.restore_path else ""
        return f"{did}{kept}"
    return f"{did}{by}: {end.reason}"


def _name_of(path: str) -> str:
    """Return the last part of a savepoint's path; of a checkpoint's the last two."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[-1 if parts[-1].startswith("savepoint-") else -2 :])


def _describe_flow(end: RescaleJournal) -> Iterator[tuple[str, str]]:
    if end.ended_unread:
        sentence = (
            "The restored job came to its end without having read a record; if its input was not "
            f"at its end, set spec.flink.job.initialSavepoint to {end.restore_path} and change "
            "spec.flink.job.restoreNonce to start it again from there"
        )
        yield "EndedUnread", sentence
    if end.no_record_seen:
        sentence = (
            "Records passed the job before it was restarted, and none has passed since; if its "
            "input has not ended, check in the TaskManagers' logs whether the sources reach their "
            "brokers"
        )
        yield "NoRecordSeen", sentence


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
        held = count_per_pool([counts])
        room = [
            other
            for other in model.node_types
            if (each.operator, other.pool) not in full
            and (other.pool_limit is None or held.get(other.pool, 0) < other.pool_limit)
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
        self, parts: EngineParts, initial: Deployments, models: Mapping[str, OperatorModel] | None
    ) -> None:
        """Create it for what the manifest allows; without models, nothing is held against it."""
        self._runtime = parts.runtime
        self._store = parts.store
        self._clock = parts.clock
        self._settings = parts.settings
        self._initial = initial
        self._models = models
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
