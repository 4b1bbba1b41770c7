"""What the operators of an experiment begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir_simulator.experiment import NodeType, Operator


def initial_counts(
    operators: Sequence[Operator],
    node_types: Sequence[NodeType],
    initial: Mapping[str, int] | None,
) -> list[dict[str, int]]:
    """Return the replicas that each operator begins with, by node type, in the operators' order.

    Where none are given that is one, on the first type that the operator may run on and that the
    operators before it left room on; on the first type at all where there is no room.

    Args:
        operators: Of the experiment.
        node_types: Of the experiment.
        initial: Replicas of each operator by node type, as given; an operator leaves out the types
            that it may not run on.
    """
    if initial is not None:
        barred = [
            {each.name for each in node_types if not operator.may_use(each)}
            for operator in operators
        ]
        return [
            {name: count for name, count in initial.items() if name not in names}
            for names in barred
        ]
    begun: list[dict[str, int]] = []
    for operator in operators:
        usable = [each for each in node_types if operator.may_use(each)]
        roomy = [
            each for each in usable if find_overfull([*begun, {each.name: 1}], node_types) is None
        ]
        begun.append(dict.fromkeys([each.name for each in (roomy or usable)[:1]], 1))
    return begun


def find_overfull(
    begun: Sequence[Mapping[str, int]], node_types: Sequence[NodeType]
) -> tuple[str, int, int] | None:
    """Return a pool that holds more replicas than its limit, the limit, and how many; or `None`.

    Args:
        begun: Replicas of each operator by node type.
        node_types: Of the experiment.
    """
    limits = {each.pool_name: each.pool_limit for each in node_types if each.pool_limit is not None}
    for pool, limit in limits.items():
        names = [each.name for each in node_types if each.pool_name == pool]
        held = sum(named.get(name, 0) for named in begun for name in names)
        if held > limit:
            return pool, limit, held
    return None
