"""What must hold between the fields of an experiment: one function per rule.

A rule's parameters are named for the sections that it looks at, so that a rule can be asked even
where other sections have mistakes of their own.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from weir_policies import registry
from weir_policies.errors import DataflowError, WeirPolicyError
from weir_policies.model import dataflow
from weir_simulator.beginning import find_overfull, initial_counts
from weir_simulator.section import Mistake

if TYPE_CHECKING:
    from weir_simulator.experiment import (
        Believed,
        Edge,
        NodeType,
        Operator,
        PolicyChoice,
        TraceSource,
        World,
    )


def judge(sections: Mapping[str, object]) -> list[Mistake]:
    """Return what the rules find whose sections are all given.

    Args:
        sections: Sections of an experiment that are right in themselves, by their Python names.
    """
    mistakes: list[Mistake] = []
    for rule in _RULES:
        needed = inspect.signature(rule).parameters
        if needed.keys() <= sections.keys():
            mistakes += rule(**{name: sections[name] for name in needed})
    return mistakes


def judge_trace(trace: TraceSource) -> Iterator[Mistake]:
    """Refuse a trace that is neither a file nor made up, or both."""
    if (trace.file is None) == (trace.kind is None):
        yield Mistake(
            (), {"file": trace.file and str(trace.file), "kind": trace.kind},
            "either a file or a kind",
            "write file: taxi.txt to read a trace, kind: taxi to make one up",
        )  # fmt: skip


def judge_policy(policy: PolicyChoice) -> Iterator[Mistake]:
    """Refuse a policy that does not exist, and parameters that it does not take."""
    known = registry.names()
    if policy.name not in known:
        yield Mistake(
            ("name",), policy.name, f"a policy ({', '.join(known)})",
            suggest(policy.name, known, otherwise="choose one of those"),
        )  # fmt: skip
        return
    try:
        registry.build(policy.name, rng=np.random.default_rng(0), parameters=policy.parameters)
    except WeirPolicyError as error:
        at = _find_parameter(policy.parameters, str(error))
        yield Mistake(
            ("parameters", *at),
            policy.parameters[at[0]] if at else policy.parameters,
            # The policy's own sentence: `Expected a whole number for levels, got 2.5`.
            str(error).removeprefix("Expected ").rpartition(", got ")[0] or f"{error}",
            "correct it or leave it out, which is its default",
        )


def suggest(word: str, known: Sequence[str], *, otherwise: str) -> str:
    """Return the remedy for an unknown word: the nearest known one, or `otherwise`."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else otherwise


def _find_parameter(parameters: Mapping[str, object], error: str) -> tuple[str, ...]:
    """Return the name that an error is about, in a tuple that is empty where it names none."""
    for before, after in (("got '", "'"), (r"\b(for|Expected) ", r"\b")):
        for name in parameters:
            if re.search(before + re.escape(name) + after, error):
                return (name,)
    return ()


def _operators_once(operators: Sequence[Operator]) -> Iterator[Mistake]:
    """Refuse a second operator of one name."""
    yield from _repeated("operators", [operator.name for operator in operators])


def _node_types_once(node_types: Sequence[NodeType]) -> Iterator[Mistake]:
    """Refuse a second node type of one name."""
    yield from _repeated("nodeTypes", [node_type.name for node_type in node_types])


def _something_has_a_price(
    node_types: Sequence[NodeType], cost_normaliser: float | None
) -> Iterator[Mistake]:
    """Refuse prices that are all zero: resources are a part of the dearest deployment's price."""
    if cost_normaliser is None and all(each.price == 0 for each in node_types):
        yield Mistake(
            ("nodeTypes",), [each.price for each in node_types],
            "a price above zero for one of them",
            "give prices, or costNormaliser: 1 where only violations count",
        )  # fmt: skip


def _repeated(section: str, names: Sequence[str]) -> Iterator[Mistake]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Mistake(
                (section, index, "name"), name,
                f"a name that {section}[{names.index(name)}] does not have yet",
                "rename one of them",
            )  # fmt: skip


def _edges_join_operators(
    operators: Sequence[Operator], edges: Sequence[Edge]
) -> Iterator[Mistake]:
    """Refuse an edge from or to nothing, a second one between the same operators, and a cycle."""
    known = [operator.name for operator in operators]
    pairs = [(edge.source, edge.target) for edge in edges]
    wrong = False
    for index, pair in enumerate(pairs):
        for name in pair:
            if name not in known:
                wrong = True
                yield Mistake(
                    ("edges", index), name, f"an operator ({', '.join(known)})",
                    suggest(name, known, otherwise="choose one of those or add the operator"),
                )  # fmt: skip
        if pair in pairs[:index]:
            wrong = True
            yield Mistake(
                ("edges", index), list(pair), "each edge once",
                "remove this one, and add its selectivity to the other's",
            )  # fmt: skip
    if wrong:
        return
    try:
        dataflow.Dataflow(
            operators=tuple(dict.fromkeys(known)),
            edges=tuple(dataflow.Edge(source=source, target=target) for source, target in pairs),
        )
    except DataflowError as error:
        yield Mistake(
            ("edges",), [list(pair) for pair in pairs], "edges without a cycle",
            f"take one of its edges out: {error}",
        )  # fmt: skip


def _initial_names_node_types(
    node_types: Sequence[NodeType], initial: Mapping[str, int] | None
) -> Iterator[Mistake]:
    """Refuse a count for a node type that does not exist."""
    yield from _unknown_node_types(("initial",), initial or {}, node_types)


def _beliefs_name_node_types(
    node_types: Sequence[NodeType], believed: Believed
) -> Iterator[Mistake]:
    """Refuse a belief about a node type that does not exist."""
    yield from _unknown_node_types(("believed", "speedups"), believed.speedups, node_types)


def _changes_name_node_types(node_types: Sequence[NodeType], world: World) -> Iterator[Mistake]:
    """Refuse a factor for a node type that does not exist."""
    for index, change in enumerate(world.changes):
        here = ("world", "changes", index)
        yield from _unknown_node_types((*here, "prices"), change.prices, node_types)
        yield from _unknown_node_types((*here, "speedups"), change.speedups, node_types)


def _unknown_node_types(
    path: tuple[str | int, ...], named: Mapping[str, object], node_types: Sequence[NodeType]
) -> Iterator[Mistake]:
    known = [node_type.name for node_type in node_types]
    for name in named:
        if name not in known:
            yield Mistake(
                (*path, name), name, f"a node type ({', '.join(known)})",
                suggest(name, known, otherwise="choose one of those or add the type"),
            )  # fmt: skip


def _pools_are_known_once(
    operators: Sequence[Operator], node_types: Sequence[NodeType]
) -> Iterator[Mistake]:
    """Refuse a pool of an operator that does not exist, and one that it names twice."""
    known = list(dict.fromkeys(each.pool_name for each in node_types))
    for index, operator in enumerate(operators):
        for place, pool in enumerate(operator.pools or ()):
            here = ("operators", index, "pools", place)
            if pool not in known:
                yield Mistake(
                    here, pool, f"a pool ({', '.join(known)})",
                    suggest(pool, known, otherwise="choose one of those or add a type of the pool"),
                )  # fmt: skip
            elif pool in (operator.pools or ())[:place]:
                yield Mistake(here, pool, "each pool once", "remove this one")


def _initial_fits_operators(
    operators: Sequence[Operator],
    node_types: Sequence[NodeType],
    initial: Mapping[str, int] | None,
) -> Iterator[Mistake]:
    """Refuse an initial deployment that leaves an operator no replicas, or gives it too many."""
    if initial is None:
        return
    for operator, counts in zip(
        operators, initial_counts(operators, node_types, initial), strict=True
    ):
        size = sum(counts.values())
        if not 1 <= size <= operator.max_replicas:
            where = "" if operator.pools is None else f" in {', '.join(operator.pools)}"
            yield Mistake(
                ("initial",), initial,
                f"from 1 to {operator.max_replicas} replicas of {operator.name}{where}",
                "add replicas" if size < 1 else "take replicas away",
            )  # fmt: skip
            return


def _pools_have_one_limit(node_types: Sequence[NodeType]) -> Iterator[Mistake]:
    """Refuse two limits for one pool."""
    limits: dict[str, int] = {}
    for index, node_type in enumerate(node_types):
        if node_type.pool_limit is None:
            continue
        limit = limits.setdefault(node_type.pool_name, node_type.pool_limit)
        if limit != node_type.pool_limit:
            yield Mistake(
                ("nodeTypes", index, "poolLimit"), node_type.pool_limit,
                f"{limit}, as for the other types of pool {node_type.pool_name}",
                "write the limit once, or the same for all",
            )  # fmt: skip


def _initial_fits_pools(
    operators: Sequence[Operator],
    node_types: Sequence[NodeType],
    initial: Mapping[str, int] | None,
) -> Iterator[Mistake]:
    """Refuse an initial deployment that exceeds the limit of a pool."""
    overfull = find_overfull(initial_counts(operators, node_types, initial), node_types)
    if overfull is not None:
        pool, limit, held = overfull
        yield Mistake(
            ("initial",), initial,
            f"at most {limit} replicas of all operators in pool {pool}, here {held}",
            "begin with fewer, begin on another node type, or raise the pool's limit",
        )  # fmt: skip


def _key_groups_suffice(operators: Sequence[Operator]) -> Iterator[Mistake]:
    """Refuse more replicas than key groups: the rest would never get a record."""
    for index, operator in enumerate(operators):
        if operator.key_groups is not None and operator.key_groups < operator.max_replicas:
            yield Mistake(
                ("operators", index, "keyGroups"), operator.key_groups,
                f"at least maxReplicas = {operator.max_replicas}",
                "raise it, or lower maxReplicas",
            )  # fmt: skip


def _errors_are_given_or_drawn(believed: Believed) -> Iterator[Mistake]:
    """Refuse an error that is both written and drawn, and a range that runs backwards."""
    if believed.service_error is not None:
        if believed.service_time != 1:
            yield Mistake(
                ("believed", "serviceTime"), believed.service_time,
                "either serviceTime or serviceError", "remove one of them",
            )  # fmt: skip
        if believed.service_error[0] > believed.service_error[1]:
            yield Mistake(
                ("believed", "serviceError"), list(believed.service_error),
                "the least error before the greatest", "turn them round",
            )  # fmt: skip
    if believed.speedup_error is not None and believed.speedups:
        yield Mistake(
            ("believed", "speedups"), believed.speedups,
            "either speedups or speedupError", "remove one of them",
        )  # fmt: skip


_RULES: tuple[Callable[..., Iterable[Mistake]], ...] = (
    _operators_once,
    _node_types_once,
    _something_has_a_price,
    _edges_join_operators,
    _pools_are_known_once,
    _initial_names_node_types,
    _beliefs_name_node_types,
    _changes_name_node_types,
    _initial_fits_operators,
    _pools_have_one_limit,
    _initial_fits_pools,
    _key_groups_suffice,
    _errors_are_given_or_drawn,
)
