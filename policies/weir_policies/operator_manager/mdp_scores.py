"""What a plan for one node type expects of every action, for people."""

from __future__ import annotations

import math

from weir_policies.kernels.homogeneous import ACTIONS, level_at, number_at, score_of
from weir_policies.kernels.view import RATE, Memory, View
from weir_policies.model.node_types import Deployment


def score_actions(view: View, memory: Memory) -> dict[Deployment, float]:
    """Return Q of every action that can be, by where it leads the operator of row 0."""
    here, level = number_at(0, view, memory), level_at(0, memory, view.seen[0, RATE])
    scores = {}
    for action in range(int(memory.ints[0, ACTIONS])):
        score = score_of(0, view, memory, action, here, level)
        if not math.isinf(score):
            scores[Deployment(tuple(int(count) for count in view.target[0]))] = score
    return scores
