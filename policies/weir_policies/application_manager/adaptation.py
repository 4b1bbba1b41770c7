"""EDF's requests, in order of priority.

Managers of operators and of nodes see no more than their own part and change nothing: they ask,
each with a score. Every period the requests are ranked by score and granted, all of them or as far
as a `token_bucket` pays; the rest is forgotten, and its managers ask anew.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 4 and 7. Decided where it leaves a choice:
1. Scale-outs and migrations are one list, because one kind of token pays both. Of equal scores a
   scale-out comes first, then the operator's name decides.
2. There are no conflicts over nodes, because no request names the one that it wants: the cluster's
   scheduler chooses nodes, and has the last word on their room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Adaptation(StrEnum):
    """What is asked for; in the order in which equal scores are served."""

    SCALE_OUT = "scale-out"
    """One replica more."""
    MIGRATION = "migration"
    """One replica on another node of the same pool."""
    SCALE_IN = "scale-in"
    """One replica less."""


RANKS = {kind: rank for rank, kind in enumerate(Adaptation)}


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptationRequest:
    """One step that a manager asks for."""

    operator: str
    kind: Adaptation
    score: float
    """How much it gains, 1 the most; comparable among requests of one kind. A learner that explores
    may ask for what it takes to be a loss: then it is negative."""
    replica: str | None = None
    """The one that leaves; `None` where that is left to whoever makes the change."""

    @property
    def change(self) -> int:
        """Replicas that the operator has more afterwards."""
        return {Adaptation.SCALE_OUT: 1, Adaptation.SCALE_IN: -1}.get(self.kind, 0)


def step_of(operator: str, change: int, score: float) -> AdaptationRequest:
    """Return the request of an operator for one replica more (`change` > 0) or less."""
    kind = Adaptation.SCALE_OUT if change > 0 else Adaptation.SCALE_IN
    return AdaptationRequest(operator=operator, kind=kind, score=score)


def prioritise(requests: Sequence[AdaptationRequest]) -> list[AdaptationRequest]:
    """Return the requests, the highest score first."""
    return sorted(requests, key=lambda each: (-each.score, RANKS[each.kind], each.operator))
