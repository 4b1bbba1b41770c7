"""What must hold between the fields of an experiment: one function per rule."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from weir_policies import registry
from weir_policies.errors import DataflowError, WeirPolicyError
from weir_simulator.section import Mistake

if TYPE_CHECKING:
    from weir_simulator.experiment import Experiment, PolicyChoice, TraceSource


def judge(experiment: Experiment) -> list[Mistake]:
    """Return what is wrong between sections that are right in themselves."""
    mistakes = [mistake for rule in _RULES for mistake in rule(experiment)]
    # A graph can only be put together from operators and edges that exist.
    return mistakes or list(_no_cycle(experiment))


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
        yield Mistake(
            ("parameters",), policy.parameters, f"what {policy.name} takes",
            f"correct this: {error}",
        )  # fmt: skip


def suggest(word: str, known: Sequence[str], *, otherwise: str) -> str:
    """Return the remedy for an unknown word: the nearest known one, or `otherwise`."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else otherwise


def _names_once(experiment: Experiment) -> Iterator[Mistake]:
    """Refuse a second operator or node type of one name."""
    for section, items in (
        ("operators", experiment.operators),
        ("nodeTypes", experiment.node_types),
    ):
        names = [item.name for item in items]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield Mistake(
                    (section, index, "name"), name,
                    f"a name that {section}[{names.index(name)}] does not have yet",
                    "rename one of them",
                )  # fmt: skip


def _edges_join_operators(experiment: Experiment) -> Iterator[Mistake]:
    """Refuse an edge from or to nothing, and a second one between the same operators."""
    known = [operator.name for operator in experiment.operators]
    pairs = [(edge.source, edge.target) for edge in experiment.edges]
    for index, (source, target) in enumerate(pairs):
        for name in (source, target):
            if name not in known:
                yield Mistake(
                    ("edges", index), name, f"an operator ({', '.join(known)})",
                    suggest(name, known, otherwise="choose one of those or add the operator"),
                )  # fmt: skip
        if (source, target) in pairs[:index]:
            yield Mistake(
                ("edges", index), [source, target], "each edge once",
                "remove this one, and add its selectivity to the other's",
            )  # fmt: skip


def _no_cycle(experiment: Experiment) -> Iterator[Mistake]:
    try:
        _ = experiment.dataflow
    except DataflowError as error:
        yield Mistake(
            ("edges",), [[edge.source, edge.target] for edge in experiment.edges],
            "no cycle", f"take out an edge: {error}",
        )  # fmt: skip


def _node_types_are_known(experiment: Experiment) -> Iterator[Mistake]:
    """Refuse a count, a factor or a belief for a node type that does not exist."""
    yield from _unknown_node_types(("initial",), experiment.initial or {}, experiment)
    yield from _unknown_node_types(
        ("believed", "speedups"), experiment.believed.speedups, experiment
    )
    for index, change in enumerate(experiment.world.changes):
        here = ("world", "changes", index)
        yield from _unknown_node_types((*here, "prices"), change.prices, experiment)
        yield from _unknown_node_types((*here, "speedups"), change.speedups, experiment)


def _unknown_node_types(
    path: tuple[str | int, ...], named: Mapping[str, object], experiment: Experiment
) -> Iterator[Mistake]:
    known = [node_type.name for node_type in experiment.node_types]
    for name in named:
        if name not in known:
            yield Mistake(
                (*path, name), name, f"a node type ({', '.join(known)})",
                suggest(name, known, otherwise="choose one of those or add the type"),
            )  # fmt: skip


def _initial_deployment_fits(experiment: Experiment) -> Iterator[Mistake]:
    """Refuse an initial deployment without replicas, or with too many."""
    if experiment.initial is None:
        return
    size = sum(experiment.initial.values())
    smallest = min(operator.max_replicas for operator in experiment.operators)
    if not 1 <= size <= smallest:
        yield Mistake(
            ("initial",), experiment.initial,
            f"from 1 to {smallest} replicas, the least maxReplicas of the operators",
            "add replicas" if size < 1 else "take replicas away",
        )  # fmt: skip


def _pools_agree(experiment: Experiment) -> Iterator[Mistake]:
    """Refuse two limits for one pool, and an initial deployment that exceeds a limit."""
    limits: dict[str, int] = {}
    for index, node_type in enumerate(experiment.node_types):
        if node_type.pool_limit is None:
            continue
        limit = limits.setdefault(node_type.pool_name, node_type.pool_limit)
        if limit != node_type.pool_limit:
            yield Mistake(
                ("nodeTypes", index, "poolLimit"), node_type.pool_limit,
                f"{limit}, as for the other types of pool {node_type.pool_name}",
                "write the limit once, or the same for all",
            )  # fmt: skip
    wanted = experiment.initial or {experiment.node_types[0].name: 1}
    for pool, limit in limits.items():
        each = sum(wanted.get(it.name, 0) for it in experiment.node_types if it.pool_name == pool)
        used = each * len(experiment.operators)
        if used > limit:
            yield Mistake(
                ("initial",), experiment.initial,
                f"at most {limit} replicas of all operators in pool {pool}, got {used}",
                "take replicas away, begin on another node type, or raise the pool's limit",
            )  # fmt: skip


def _key_groups_suffice(experiment: Experiment) -> Iterator[Mistake]:
    """Refuse more replicas than key groups: the rest would never get a record."""
    for index, operator in enumerate(experiment.operators):
        if operator.key_groups is not None and operator.key_groups < operator.max_replicas:
            yield Mistake(
                ("operators", index, "keyGroups"), operator.key_groups,
                f"at least maxReplicas = {operator.max_replicas}",
                "raise it, or lower maxReplicas",
            )  # fmt: skip


def _errors_are_given_or_drawn(experiment: Experiment) -> Iterator[Mistake]:
    """Refuse an error that is both written and drawn, and a range that runs backwards."""
    believed = experiment.believed
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


_RULES = (
    _names_once,
    _edges_join_operators,
    _node_types_are_known,
    _initial_deployment_fits,
    _pools_agree,
    _key_groups_suffice,
    _errors_are_given_or_drawn,
)
