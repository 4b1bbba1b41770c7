"""Keep the deployment that is there: `hold`, the baseline that every other policy must beat.

It is also the smallest compiled policy: two kernels and their explanation.
"""

from __future__ import annotations

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields
from weir_policies.kernels.policy import definition
from weir_policies.kernels.steps import choose_action
from weir_policies.kernels.view import Memory, View
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import PolicyParameters
from weir_policies.policy import Decision, Observation

STAY = 0
"""The action that changes nothing."""


class Nothing(Fields):
    """What it remembers."""


def _prepare(parameters: PolicyParameters, view: View, ticks: int) -> Memory:
    return Nothing.allocate(view)


@compiled
def learn_nothing(o: int, view: View, memory: Memory) -> None:
    """Learn nothing: the kernel of policies that decide from what they see alone."""


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Stay."""
    choose_action(o, view, STAY)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    return explain_rule(observation, target, "this policy never changes the deployment")


define = definition(
    PolicyParameters, _prepare, learn=learn_nothing, decide=decide, explain=_explain
)
