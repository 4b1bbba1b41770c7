"""A StreamApp's events: their reasons, their severity, and events about ongoing trouble.

A reason is part of the interface: alerts and other tools select by it. Trouble that lasts is
reported when it begins and when it ends, not at every tick. Two causes of one reason are reported
separately; a message in which only numbers changed has the same cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from weir_operator.clock import Clock
from weir_operator.errors import UndeclaredReasonError
from weir_operator.loop.bounds import Cause, Guard
from weir_operator.rescale.journal import Kind

Severity = Literal["Normal", "Warning"]

WARNINGS = frozenset(
    {
        *(f"{kind}Failed" for kind in Kind),
        "CannotTune",
        "ChangeAbandoned",
        "ChangeDidWorse",
        "ChangeFailed",
        "CostCapped",
        "DeletionWaits",
        "EndedUnread",
        "EndedWithoutSavepoint",
        "FallbackHeld",
        "FallbackTaken",
        "FinalSavepointFailed",
        "FloorMissed",
        "HistoryUnused",
        "InvalidSpec",
        "JobAdopted",
        "JobDown",
        "JobFailing",
        "JobLost",
        "JobManagerLost",
        "JobNotSeen",
        "JobTakenBack",
        "LearnedNotSaved",
        "ManagedElsewhere",
        "MaxParallelismDiffers",
        "ModelDrifted",
        "ModelUnfitted",
        "NoRecordSeen",
        "NodeSlow",
        "ObjectiveInfeasible",
        "ObjectiveMissed",
        "PlanNotRead",
        "OtherAutoscaler",
        "PoolFull",
        "ReconcileFailed",
        "RecordsDamaged",
        "RecordsNotKept",
        "ReplicaLost",
        "ReplicaUnclaimed",
        "ResizeRefused",
        "RollbackBlocked",
        "RolledBack",
        "ScalingRefused",
        "StateMissing",
        "StateNotRemoved",
        "TaskManagerLost",
        "TickFailed",
        "TrialFailed",
        "TuningFailed",
        "TuningKnownToFail",
        "TuningRolledBack",
        "UnknownOperators",
    }
)
"""Something was lost, failed, or takes a person."""

NORMAL = frozenset(
    {
        *(f"{kind}Done" for kind in Kind),
        "ChangeResumed",
        "ChangeWithdrawn",
        "FallbackEnded",
        "FinalSavepoint",
        "JobChanged",
        "JobFinished",
        "JobKept",
        "JobManagerReady",
        "LearnedForgotten",
        "ModelCorrected",
        "NeverRan",
        "OperatorsFound",
        "ParallelismRestored",
        "PolicyTrained",
        "RecordsKept",
        "ReplicaResized",
        "ResizeWaits",
        "RestartNeeded",
        "RestoreAsked",
        "SavingsForecast",
        "Skewed",
        "ScalingPaused",
        "ScalingResumed",
        "StartRestarted",
        "Suspended",
        "TuningApplied",
        "TuningOutgrown",
        "TuningDropped",
        "TuningUnsure",
        "TuningWaits",
        "VarianceAssumed",
        "VerticesBusy",
        "WindowClosed",
        "WindowOpened",
    }
)


def severity_of(reason: str) -> Severity:
    """Return `Warning` where something was lost, failed, or takes a person.

    Raises:
        UndeclaredReasonError: The reason is declared neither to warn nor not to.
    """
    if reason in WARNINGS:
        return "Warning"
    if reason in NORMAL:
        return "Normal"
    raise UndeclaredReasonError(f"Expected a declared reason of an event, got {reason!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A fact worth telling: `reason` in CamelCase, a message for people."""

    time: float
    """Unix seconds."""
    reason: str
    message: str

    @property
    def severity(self) -> Severity:
        """`Warning` or `Normal`; see `severity_of`."""
        return severity_of(self.reason)


CAUSES = 20
"""Causes of one lasting reason that are remembered as told; the oldest is forgotten first."""
_FIGURE = re.compile(r"(?<![\w-])\d[\d.,:]*")
"""A number by itself: not that of a name, such as `node-2`."""

_BEGIN = {
    Cause.PAUSE: "ScalingPaused",
    Cause.WINDOW: "WindowOpened",
    Cause.REFUSED: "ScalingRefused",
}
_END = {
    Cause.PAUSE: "ScalingResumed",
    Cause.WINDOW: "WindowClosed",
    Cause.REFUSED: "ScalingResumed",
}


class Notices:
    """Tells the events of one StreamApp's loops."""

    def __init__(self, on_event: Callable[[Event], None], clock: Clock) -> None:
        self._on_event = on_event
        self.clock = clock
        self._guards: dict[tuple[Cause, str], str] = {}
        self._lasting: dict[str, dict[str, None]] = {}  # the causes told, by reason, in order

    def report(self, reason: str, message: str) -> None:
        """Tell a fact."""
        self._on_event(Event(time=self.clock.now(), reason=reason, message=message))

    def report_while(self, reason: str, message: str) -> None:
        """Tell a lasting fact once for each cause; an empty message ends it.

        A message with other figures is of the same cause.
        """
        if not message:
            self._lasting.pop(reason, None)
            return
        told, cause = self._lasting.setdefault(reason, {}), _FIGURE.sub("#", message)
        if cause in told:
            return
        told[cause] = None
        if len(told) > CAUSES:
            del told[next(iter(told))]
        self.report(reason, message)

    def note_guards(self, guards: Sequence[Guard]) -> None:
        """Tell which guards are new, which are over, and which now say something else."""
        present = {(guard.cause, guard.name): guard.reason for guard in guards}
        for (cause, name), reason in present.items():
            if self._guards.get((cause, name)) != reason:
                self.report(_BEGIN[cause], reason[:1].upper() + reason[1:])
        for cause, name in self._guards.keys() - present.keys():
            self.report(_END[cause], f"{name} has ended")
        self._guards = present
