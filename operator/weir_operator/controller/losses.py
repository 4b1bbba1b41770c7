"""Which processes of a job were lost between two looks, though nobody here ended them. Pure.

What brings them back (a ReplicaSet, a kubelet, Flink) does so without Weir, and often before it
looks: only another id, or another process under the same one, shows that there was a loss.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weir_operator.rescale.journal import DeploymentMap
from weir_operator.runtime.seam import Replica

Loss = tuple[str, str]
"""Reason and message of an event."""


class Losses:
    """Compares the processes of a job with those of the look before."""

    def __init__(self) -> None:
        self._deployments: DeploymentMap | None = None
        self._replicas: Mapping[str, Replica] = {}
        self._job_manager = ""

    def forget(self) -> None:
        """Take what is found next as it is: a change has ended and started processes."""
        self._deployments = None
        self._job_manager = ""

    def find(
        self,
        replicas: Sequence[Replica],
        job_manager: str,
        deployments: DeploymentMap,
        *,
        ended: Collection[str] = (),
    ) -> tuple[Loss, ...]:
        """Return what was lost since the last look.

        Args:
            replicas: TaskManagers that are alive.
            job_manager: Which process the JobManager is; empty where that is not known.
            deployments: What is to run; where it has changed, so have the TaskManagers.
            ended: Of the replicas, those that Weir ends now.
        """
        now = {each.id: each for each in replicas}
        before = self._replicas if self._deployments == deployments else now
        gone = [_say(each, "is gone") for name, each in before.items() if name not in now]
        again = [
            _say(each, f"ended{f' ({each.ended})' if each.ended else ''} and was started again")
            for name, each in now.items()
            if name in before and _differ(before[name].process, each.process)
        ]
        losses = [("TaskManagerLost", "; ".join(gone + again))] if gone or again else []
        if _differ(self._job_manager, job_manager):
            losses.append(("JobManagerLost", "The JobManager ended and was started again"))
        self._replicas = {name: each for name, each in now.items() if name not in ended}
        self._deployments = deployments
        self._job_manager = job_manager or self._job_manager
        return tuple(losses)


def _differ(before: str, now: str) -> bool:
    return bool(before and now) and before != now


def _say(replica: Replica, what: str) -> str:
    node = f" ({replica.node})" if replica.node else ""
    why = f": {replica.doomed}" if replica.doomed else ""
    return f"TaskManager {replica.id} of {replica.operator} on {replica.pool}{node} {what}{why}"
