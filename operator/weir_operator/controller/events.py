"""What a StreamApp's events are: their reasons, and which of them warn.

A reason is part of the interface: alerts and people's own tools select by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weir_operator.rescale.journal import Kind

Severity = Literal["Normal", "Warning"]

WARNINGS = frozenset(
    {
        *(f"{kind}Failed" for kind in Kind),
        "CannotTune",
        "ChangeAbandoned",
        "ChangeDidWorse",
        "ChangeFailed",
        "EndedWithoutSavepoint",
        "FallbackHeld",
        "FallbackTaken",
        "FinalSavepointFailed",
        "HistoryUnused",
        "InvalidSpec",
        "JobAdopted",
        "JobDown",
        "JobLost",
        "JobManagerLost",
        "JobNotSeen",
        "LearnedNotSaved",
        "MaxParallelismDiffers",
        "ModelDrifted",
        "ModelUnfitted",
        "NetworkPolicyNotEnforced",
        "NodeSlow",
        "ObjectiveInfeasible",
        "OtherAutoscaler",
        "PoolFull",
        "ReconcileFailed",
        "RecordsDamaged",
        "RecordsNotKept",
        "ReplicaLost",
        "ReplicaUnclaimed",
        "ResizeRefused",
        "RolledBack",
        "ScalingRefused",
        "StateMissing",
        "StateNotRemoved",
        "SuspendFailed",
        "TakeBackHeld",
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
        "LearnedForgotten",
        "PolicyTrained",
        "RecordsKept",
        "ReplicaResized",
        "ResizeWaits",
        "RestartNeeded",
        "RestoreAsked",
        "SavingsForecast",
        "ScalingPaused",
        "ScalingResumed",
        "StartBegunAnew",
        "Suspended",
        "TuningApplied",
        "TuningDropped",
        "TuningUnsure",
        "TuningWaits",
        "VarianceAssumed",
        "WindowClosed",
        "WindowOpened",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A fact worth telling: `reason` in CamelCase, a message for people."""

    time: float
    """Unix seconds."""
    reason: str
    message: str

    @property
    def severity(self) -> Severity:
        """`Warning` where something was lost, failed, or takes a person."""
        return "Warning" if self.reason in WARNINGS else "Normal"
