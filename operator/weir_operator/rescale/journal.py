"""The journal of one change to a job, written before each step is taken.

A controller that dies anywhere finds here which step was under way, and takes it again: every
step is idempotent. The identifiers that Flink would otherwise invent (the savepoint's trigger, the
new job) are chosen and written first, so that a request whose answer was lost is found again.

    START -> STOP -> REMOVE -> SUBMIT -> VERIFY -> DONE
      |                           |        |
      |  (job never stopped)      +--------+--> CANCEL -> START -> REMOVE -> SUBMIT -> VERIFY
      +--> REMOVE -> ABANDONED                  (direction BACK)                 -> ROLLED_BACK

A first start has no STOP, a suspension ends after it, a recovery of a lost job begins at START.
An upgrade cannot start new TaskManagers beside the old job, whose JobManager they do not fit. It
starts them in REMOVE, once the old JobManager is gone, if the graph of the new program is already
known; else in START:

    STOP -> REMOVE -> START -> SUBMIT -> VERIFY -> DONE
              |         |        |         |
              +---------+        +---------+--> CANCEL -> REMOVE -> START -> SUBMIT -> VERIFY
              +--> REMOVE -> START -> ...       (direction BACK, old revision)    -> ROLLED_BACK

An upgrade whose spec is edited before SUBMIT continues from REMOVE with the newer revision, and a
rescale that is no longer wanted is ABANDONED, by way of REMOVE, while it is at START.

What a change of a job did, in few words. Pure.
"""

from __future__ import annotations

import uuid
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.revision import Revision


class Kind(StrEnum):
    """What a change is for."""

    START = "Start"
    RESCALE = "Rescale"
    RESIZE = "Resize"
    """In place, without a step: recorded, never walked."""
    RECOVER = "Recover"
    SUSPEND = "Suspend"
    UPGRADE = "Upgrade"
    """To another revision, by a savepoint."""

    @property
    def begins(self) -> bool:
        """Whether no job runs before it that it must leave alone."""
        return self in (Kind.START, Kind.RECOVER)


class Step(StrEnum):
    """The step that is about to be taken, or the end that was reached."""

    START = "Starting"
    STOP = "Stopping"
    CANCEL = "Cancelling"
    REMOVE = "Removing"
    SUBMIT = "Submitting"
    VERIFY = "Verifying"
    DONE = "Done"
    ABANDONED = "Abandoned"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"

    @property
    def is_end(self) -> bool:
        """Whether nothing is left to do."""
        return self in (Step.DONE, Step.ABANDONED, Step.ROLLED_BACK, Step.FAILED)


class Direction(StrEnum):
    """Towards the target, or back to where the job came from."""

    FORWARD = "Forward"
    BACK = "Back"


class RescaleJournal(BaseModel):
    """One change, with its progress."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    kind: Kind
    reason: str
    created: float
    """Unix time of the decision."""
    source: Deployments
    """Where the job comes from; empty for a first start."""
    target: Deployments
    """Where it goes; empty for a suspension."""
    old_job: str | None
    new_job: str
    """Job id for the submission under way; a retried or backward submission gets a new one."""
    trigger: str
    """Trigger id of the savepoint."""
    step: Step
    direction: Direction = Direction.FORWARD
    waits_for: str = ""
    """Why TaskManagers that this step started have no place yet."""
    restore_path: str | None = None
    """Savepoint or checkpoint that the next submission starts from; never forgotten."""
    savepoint: str | None = None
    """What this change's own stop wrote, wherever the job resumes from in the end."""
    by_checkpoint: bool = False
    """The savepoint did not come in time, or could not: the newest checkpoint took its place, and
    a plain sink sees what came after it again."""
    ran: bool = False
    """A task of the new deployment ran: records may have left it."""
    attempt: int = 0
    """Submissions in this direction so far."""
    failure: str | None = None
    """Why the target was given up, one sentence."""
    replace: tuple[str, ...] = ()
    """Replicas that go although their place is wanted: others take it before."""
    avoid: tuple[str, ...] = ()
    """Nodes that those which are started on the way there must not run on."""
    revision: Revision | None = None
    """What the job is to be made of; `None` as before. Not kept once the change has ended."""
    asked_revision: str = ""
    """Fingerprint of the revision that the spec asks for, if Weir found other operators in its
    program; empty if it is that of `revision`."""
    pending: tuple[tuple[str, str], ...] = ()
    """(operator, pool) whose replicas found no place in time."""
    superseded: tuple[str, ...] = ()
    """Checkpoints of jobs that this change has ended: nobody needs them once the next job has one
    of its own."""
    restore_nonce: int | None = None
    """`spec.flink.job.restoreNonce` that this start obeys."""
    edition: str = ""
    """Of the spec for which it was planned; empty where that is not known."""
    withdrawn: bool = False
    """It was given up because the spec has changed: nothing has failed."""
    disturbed: bool = False
    """It was given up because the job failed by itself meanwhile: its target is not to blame."""
    ended_unread: bool = False
    """The job that it restored came to its end without having read a record."""
    flowed: bool = False
    """Records passed the job in the last seconds before it was restarted."""
    no_record_seen: bool = False
    """None passed after that, and no source said whether any waits."""
    started: int = 0
    """TaskManagers that were added."""
    in_place: bool = False
    """The parallelism of an external job is changed where it runs; the job keeps its id."""
    down_for: float | None = None
    """Seconds for which that stopped the job; `None` where Flink does not say."""
    times: dict[str, float] = Field(default_factory=dict)
    """Unix time at which each step was reached, `Back` before the name on the way back."""

    @property
    def wanted(self) -> Deployments:
        """The deployment that the present direction leads to."""
        return self.target if self.direction is Direction.FORWARD else self.source

    @property
    def is_back(self) -> bool:
        """Whether it is on the way back."""
        return self.direction is Direction.BACK

    @property
    def has_submitted(self) -> bool:
        """Whether a job was submitted, on the way forward or back."""
        return any(_name(Step.SUBMIT, direction) in self.times for direction in Direction)

    def revision_of_processes(self, running: Revision | None) -> Revision | None:
        """Return the revision of processes at this step; `running` is their present one."""
        if self.revision is None or self.is_back:
            return running
        before = self.kind is Kind.UPGRADE and self.step is Step.STOP
        return running if before else self.revision

    @property
    def fingerprint_asked(self) -> str | None:
        """Fingerprint of the revision that the spec asks for; `None` if the job keeps its own."""
        if self.asked_revision or self.revision is None:
            return self.asked_revision or None
        return self.revision.fingerprint

    @property
    def replaced(self) -> tuple[str, ...]:
        """Replicas whose place others take; on the way back they may stay."""
        return () if self.is_back else self.replace

    def at(self, step: Step, now: float, **changes: object) -> RescaleJournal:
        """Return the journal to write before `step` is taken."""
        direction = changes.get("direction", self.direction)
        times = dict(self.times)
        times.setdefault(_name(step, direction), now)
        update = {"waits_for": "", **changes, "step": step, "times": times}
        return self.model_copy(update=update)


def _name(step: Step, direction: object) -> str:
    return f"Back{step}" if direction is Direction.BACK and not step.is_end else str(step)


def new_id() -> str:
    """Return a fresh identifier of Flink's form: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def plan(
    *,
    kind: Kind,
    reason: str,
    now: float,
    source: Deployments,
    target: Deployments,
    old_job: str | None,
    restore_path: str | None = None,
    change_id: str | None = None,
    replace: tuple[str, ...] = (),
    avoid: tuple[str, ...] = (),
    revision: Revision | None = None,
    by_checkpoint: bool = False,
    superseded: tuple[str, ...] = (),
    restore_nonce: int | None = None,
) -> RescaleJournal:
    """Return the journal of a change that is about to begin."""
    journal = RescaleJournal(
        id=change_id or new_id()[:12],
        kind=kind,
        reason=reason,
        created=now,
        source=source,
        target=target,
        old_job=old_job,
        new_job=new_id(),
        trigger=new_id(),
        step=Step.STOP,
        restore_path=restore_path,
        replace=replace,
        avoid=avoid,
        revision=revision,
        by_checkpoint=by_checkpoint,
        superseded=superseded,
        restore_nonce=restore_nonce,
    )
    return journal.at(Step.STOP if kind in (Kind.SUSPEND, Kind.UPGRADE) else Step.START, now)


_DID = {
    Kind.START: "Started",
    Kind.RESCALE: "Rescaled",
    Kind.RESIZE: "Resized",
    Kind.RECOVER: "Recovered",
    Kind.SUSPEND: "Suspended",
    Kind.UPGRADE: "Upgraded",
}
_ENDS = {
    Step.DONE: "",
    Step.ROLLED_BACK: ", rolled back",
    Step.ABANDONED: ", abandoned",
    Step.FAILED: ", failed",
}
_MAX_OPERATORS = 3
"""More would not fit into a column of `kubectl get`."""


def describe_difference(source: Deployments, target: Deployments) -> str:
    """Return which operators change how, such as `match 2 -> 3`; empty where none does.

    Where only pools or sizes change, the new deployment is said: `match -> 2 large/1`.
    """
    parts = []
    for operator, counts in target.items():
        before = source.get(operator, {})
        if counts == before:
            continue
        was, will = sum(before.values()), sum(counts.values())
        if was != will:
            parts.append(f"{operator} {was} -> {will}")
        else:
            types = " + ".join(f"{count} {name}" for name, count in sorted(counts.items()))
            parts.append(f"{operator} -> {types}")
    more = len(parts) - _MAX_OPERATORS
    shown = parts[:_MAX_OPERATORS] + ([f"{more} more"] if more > 0 else [])
    return ", ".join(shown)


def gap_of(journal: RescaleJournal) -> float | None:
    """Return the seconds from the stopped job to the one that ran again; `None` if none stopped.

    From the savepoint's completion to every task running: what a sink sees is some tens of
    milliseconds longer, and is measured where the job keeps a ledger. Of a change in place, the
    seconds that Flink's history gives.
    """
    if journal.in_place:
        return journal.down_for
    times = journal.times
    stopped = times.get(str(Step.REMOVE)) if str(Step.STOP) in times else None
    if journal.kind is Kind.RECOVER:
        stopped = times.get(str(Step.START))
    again = times.get(str(Step.DONE)) or times.get(str(Step.ROLLED_BACK))
    return None if stopped is None or again is None else again - stopped


def summarise_change(change: RescaleJournal) -> str:
    """Return a change that has ended in a few words, with the seconds that it took.

    Of an upgrade and of a change in place, also those for which the job was down: an upgrade is
    mostly that, and a change in place mostly a wait, while the job runs.
    """
    took = max(change.times.values(), default=change.created) - change.created
    moved = change.kind in (Kind.RESCALE, Kind.RESIZE, Kind.UPGRADE)
    difference = describe_difference(change.source, change.target) if moved else ""
    did = f"{_DID[change.kind]} {difference}".rstrip()
    gap = gap_of(change) if change.kind is Kind.UPGRADE or change.in_place else None
    down = "" if gap is None else f" (job down for {gap:.3g} s)"
    return f"{did}{_ENDS[change.step]} in {took:.3g} s{down}"
