"""What the operators' managers propose in a tick, and what the Application Manager made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weir_operator.rescale.journal import DeploymentMap
from weir_policies.application_manager.adaptation import AdaptationRequest
from weir_policies.application_manager.restart_budget import RestartTokens
from weir_policies.model.cost import kind_of_change
from weir_policies.promise import ChangeKind, Decision, Observation


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """One operator's observation and what its manager made of it."""

    observation: Observation
    decision: Decision

    @property
    def kind(self) -> ChangeKind:
        """What the proposal takes."""
        seen = self.observation
        return kind_of_change(seen.deployment, self.decision.target, seen.model.node_types)


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A replica that is to leave its node, for another one of its pool."""

    request: AdaptationRequest
    replica: str
    node: str
    """The one that is left."""
    reason: str
    """One sentence, without a full stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """What the AM made of a tick's proposals."""

    verdicts: Mapping[str, str]
    """One sentence per operator that proposed something, or that something binds."""
    granted: tuple[str, ...]
    target: DeploymentMap
    """Deployments of all operators with the granted changes."""
    restart: bool
    tokens: RestartTokens
    move: Move | None = None
    """What is granted where no proposal is; `None` where no replica leaves its node."""

    def only_advised(self, mode: str, current: DeploymentMap) -> Ruling:
        """Return the ruling of a mode that touches nothing."""
        return replace(
            self,
            verdicts=dict.fromkeys(self.verdicts, f"Advised only: spec.mode is {mode}"),
            granted=(),
            target=current,
            restart=False,
            move=None,
        )
