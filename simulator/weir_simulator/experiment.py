"""An experiment: a dataflow, an infrastructure, a trace, a policy, and what the world does.

The defaults are the setting of Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023: equal sharing,
the worst replica counts, every slot is a steady state, a change is in force from the next slot on.
What real pools do beyond that is `World`, off by default; what a policy wrongly believes is
`Believed`.

An `Experiment` is always valid in itself, except for its trace, which is another file:
`experiment_files` reads both and reports mistakes, `arrivals` returns the rates, `beliefs` the
operators as they are and as the policy knows them.

Rules between the fields of an experiment are one function each. A rule's parameters name the
sections that it reads, so that it can be checked even if other sections have mistakes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from weir_policies import registry
from weir_policies.application_manager.budgets import (
    profile_budgets,
    share_budgets,
    share_equally,
)
from weir_policies.errors import (
    DataflowError,
    InfeasibleObjectiveError,
    ParameterError,
    UnknownSettingError,
    WeirPolicyError,
)
from weir_policies.model import dataflow as graph
from weir_policies.model import node_types as model_types
from weir_policies.model.keys import KeyShares, fullest_shares, shares_of_groups, zipf_shares
from weir_policies.model.node_types import Deployment
from weir_policies.model.objective import Statistic, infer_tail
from weir_policies.model.queueing import min_response_time
from weir_policies.model.season import HOURS, Season
from weir_policies.parameters import Settings
from weir_policies.policy import Aggregation, CostWeights, Neighbourhood, OperatorModel, Sharing
from weir_simulator.schedules import UTC, check_schedule, check_time_zone
from weir_simulator.section import (
    MAX_SEED,
    MAX_SLOTS,
    AboveZero,
    AtLeastZero,
    Duration,
    Name,
    Probability,
)
from weir_simulator.traces import TraceKind
from weir_simulator.validation import Mistake, Section, judge, refusal, refuse, suggest


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
    """Return a pool that holds more replicas than its limit, the limit, and how many; or `None`."""
    limits = {each.pool_name: each.pool_limit for each in node_types if each.pool_limit is not None}
    for pool, limit in limits.items():
        names = [each.name for each in node_types if each.pool_name == pool]
        held = sum(named.get(name, 0) for named in begun for name in names)
        if held > limit:
            return pool, limit, held
    return None


def judge_trace(trace: TraceSource) -> Iterator[Mistake]:
    """Refuse a trace that is neither a file nor made up, or both."""
    if (trace.file is None) == (trace.kind is None):
        yield Mistake(
            (), {"file": trace.file and str(trace.file), "kind": trace.kind},
            "either a file or a kind",
            "write file: taxi.txt to read a trace, or kind: taxi to generate one",
        )  # fmt: skip


def judge_policy(policy: PolicyChoice) -> Iterator[Mistake]:
    """Refuse a policy that does not exist, and parameters that it does not take."""
    known = registry.names()
    if policy.name not in known:
        yield _unknown(("name",), policy.name, known, "a policy", "choose one of them")
        return
    try:
        registry.refuse_parameters(policy.name, policy.parameters)
    except UnknownSettingError as error:
        yield Mistake(
            ("parameters", error.setting), policy.parameters[error.setting],
            f"a parameter of {policy.name} ({', '.join(error.known)})",
            suggest(error.setting, error.known, otherwise="choose one of them, or remove it"),
        )  # fmt: skip
    except WeirPolicyError as error:
        at = _find_parameter(policy.parameters, str(error))
        yield Mistake(
            ("parameters", *at),
            policy.parameters[at[0]] if at else policy.parameters,
            # The policy's own sentence: `Expected a whole number for levels, got 2.5`.
            str(error).removeprefix("Expected ").rpartition(", got ")[0] or f"{error}",
            "correct it, or remove it to use its default",
        )


def _unknown(
    path: tuple[str | int, ...], name: str, known: Sequence[str], what: str, otherwise: str
) -> Mistake:
    """Return that a name is not among those that are known."""
    expected = f"{what} ({', '.join(known)})"
    return Mistake(path, name, expected, suggest(name, known, otherwise=otherwise))


def _find_parameter(parameters: Mapping[str, object], error: str) -> tuple[str, ...]:
    """Return the name that an error is about, in a tuple that is empty where it names none."""
    for before, after in (("got '", "'"), (r"\b(for|Expected) ", r"\b")):
        for name in parameters:
            if re.search(before + re.escape(name) + after, error):
                return (name,)
    return ()


def _operators_once(operators: Sequence[Operator]) -> Iterator[Mistake]:
    yield from _repeated("operators", [operator.name for operator in operators])


def _node_types_once(node_types: Sequence[NodeType]) -> Iterator[Mistake]:
    yield from _repeated("nodeTypes", [node_type.name for node_type in node_types])


def _something_has_a_price(
    node_types: Sequence[NodeType], cost_normaliser: float | None
) -> Iterator[Mistake]:
    """Refuse prices that are all zero: resources are a part of the dearest deployment's price."""
    if cost_normaliser is None and all(each.price == 0 for each in node_types):
        yield Mistake(
            ("nodeTypes",), [each.price for each in node_types],
            "a price above zero for one of them",
            "set prices, or costNormaliser: 1 if only violations count",
        )  # fmt: skip


def _repeated(section: str, names: Sequence[str]) -> Iterator[Mistake]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Mistake(
                (section, index, "name"), name,
                f"another name than {section}[{names.index(name)}]",
                "rename one of them",
            )  # fmt: skip


def _edges_join_operators(
    operators: Sequence[Operator], edges: Sequence[Edge]
) -> Iterator[Mistake]:
    known = [operator.name for operator in operators]
    pairs = [(edge.source, edge.target) for edge in edges]
    wrong = False
    for index, pair in enumerate(pairs):
        for name in pair:
            if name not in known:
                wrong = True
                remedy = "choose one of them, or add the operator"
                yield _unknown(("edges", index), name, known, "an operator", remedy)
        if pair in pairs[:index]:
            wrong = True
            yield Mistake(
                ("edges", index), list(pair), "each edge once",
                "remove this one, and add its selectivity to the other's",
            )  # fmt: skip
    if wrong:
        return
    try:
        graph.Dataflow(
            operators=tuple(dict.fromkeys(known)),
            edges=tuple(graph.Edge(source=source, target=target) for source, target in pairs),
        )
    except DataflowError as error:
        yield Mistake(
            ("edges",), [list(pair) for pair in pairs], "edges without a cycle",
            f"remove one of its edges: {error}",
        )  # fmt: skip


def _paths_end_at_operators(
    operators: Sequence[Operator], objective: Objective
) -> Iterator[Mistake]:
    known = [operator.name for operator in operators]
    for index, path in enumerate(objective.paths):
        if path.sink not in known:
            here = ("objective", "paths", index, "sink")
            yield _unknown(here, path.sink, known, "an operator", "choose one of them")


def _initial_names_node_types(
    node_types: Sequence[NodeType], initial: Mapping[str, int] | None
) -> Iterator[Mistake]:
    yield from _unknown_node_types(("initial",), initial or {}, node_types)


def _beliefs_name_node_types(
    node_types: Sequence[NodeType], believed: Believed
) -> Iterator[Mistake]:
    yield from _unknown_node_types(("believed", "speedups"), believed.speedups, node_types)


def _changes_name_node_types(node_types: Sequence[NodeType], world: World) -> Iterator[Mistake]:
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
            remedy = "choose one of them, or add the type"
            yield _unknown((*path, name), name, known, "a node type", remedy)


def _pools_are_known_once(
    operators: Sequence[Operator], node_types: Sequence[NodeType]
) -> Iterator[Mistake]:
    known = list(dict.fromkeys(each.pool_name for each in node_types))
    for index, operator in enumerate(operators):
        for place, pool in enumerate(operator.pools or ()):
            here = ("operators", index, "pools", place)
            if pool not in known:
                remedy = "choose one of them, or add a type of the pool"
                yield _unknown(here, pool, known, "a pool", remedy)
            elif pool in (operator.pools or ())[:place]:
                yield Mistake(here, pool, "each pool once", "remove this one")


def _initial_fits_operators(
    operators: Sequence[Operator],
    node_types: Sequence[NodeType],
    initial: Mapping[str, int] | None,
) -> Iterator[Mistake]:
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
                "add replicas" if size < 1 else "remove replicas",
            )  # fmt: skip
            return


def _floors_can_be_kept(
    operators: Sequence[Operator], node_types: Sequence[NodeType], windows: Sequence[Window]
) -> Iterator[Mistake]:
    known = {each.name: each for each in operators}
    floors: list[tuple[tuple[str | int, ...], str, int]] = [
        (("operators", row, "minReplicas"), each.name, each.min_replicas)
        for row, each in enumerate(operators)
    ]
    floors += [
        (("windows", row, "minReplicas", name), name, floor)
        for row, window in enumerate(windows)
        for name, floor in window.min_replicas.items()
    ]
    for path, name, floor in floors:
        if name not in known:
            remedy = "choose one of them, or add the operator"
            yield _unknown(path, name, tuple(known), "an operator", remedy)
            continue
        operator = known[name]
        pools = {each.pool_name: each.pool_limit for each in node_types if operator.may_use(each)}
        room = sum(math.inf if limit is None else limit for limit in pools.values())
        most = min(operator.max_replicas, room)
        if floor > most:
            yield Mistake(
                path, floor, f"at most {most:.0f} replicas, which {name} may have",
                "lower it, or raise maxReplicas of the operator and the limits of its pools",
            )  # fmt: skip


def _pools_have_one_limit(node_types: Sequence[NodeType]) -> Iterator[Mistake]:
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
    overfull = find_overfull(initial_counts(operators, node_types, initial), node_types)
    if overfull is not None:
        pool, limit, held = overfull
        yield Mistake(
            ("initial",), initial,
            f"at most {limit} replicas of all operators in pool {pool}, here {held}",
            "start with fewer, start on another node type, or raise the pool's limit",
        )  # fmt: skip


def _key_groups_suffice(operators: Sequence[Operator]) -> Iterator[Mistake]:
    """Refuse more replicas than key groups: the rest would never get a record."""
    for index, operator in enumerate(operators):
        if operator.groups is not None and operator.groups < operator.max_replicas:
            yield Mistake(
                ("operators", index, "keyGroups"), operator.groups,
                f"at least maxReplicas = {operator.max_replicas}",
                "raise it, or lower maxReplicas",
            )  # fmt: skip


def _uneven_keys_deal_records(operators: Sequence[Operator], sharing: Sharing) -> Iterator[Mistake]:
    """Refuse uneven keys where it is not keys that records are dealt by."""
    for index, operator in enumerate(operators):
        if operator.keys is not None and not (
            operator.keyed and (operator.sharing or sharing) is Sharing.EQUAL
        ):
            yield Mistake(
                ("operators", index, "keys"), operator.keys.model_dump(exclude_defaults=True),
                "an operator that is keyed, with sharing: equal",
                "set these, or leave out keys",
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
                "the smallest error before the largest", "swap them",
            )  # fmt: skip
    if believed.speedup_error is not None and believed.speedups:
        yield Mistake(
            ("believed", "speedups"), believed.speedups,
            "either speedups or speedupError", "remove one of them",
        )  # fmt: skip


def _joint_policy_fits_operators(
    policy: PolicyChoice,
    operators: tuple[Operator, ...],
    node_types: tuple[NodeType, ...],
    edges: tuple[Edge, ...],
    rate: RateLevels,
) -> Iterator[Mistake]:
    """Refuse operators that a policy cannot decide for together, where it decides for all."""
    settings = Settings(policy.parameters, {"levels": rate.levels, "max_rate": rate.max})
    if not registry.is_joint(policy.name, settings):
        return
    models = [
        OperatorModel(
            name=operator.name,
            node_types=tuple(
                model_types.NodeType(
                    name=each.name, pool=each.pool_name, speedup=each.speedup, price=each.price
                )
                for each in node_types
                if operator.may_use(each)
            ),
            max_replicas=operator.max_replicas,
            service_mean=1 / operator.service_rate,
            service_scv=operator.scv,
        )
        for operator in operators
    ]
    if not all(model.node_types for model in models):
        return  # pools that do not exist are another rule's
    try:
        flow = _join(operators, edges)
        registry.refuse_operators(policy.name, settings, models, flow)
    except DataflowError:
        return  # another rule's
    except ParameterError as error:
        yield Mistake(
            ("policy", "parameters"),
            policy.parameters,
            f"parameters with which {policy.name} can decide for all operators together",
            str(error).replace("Expected", "expected", 1),
        )


RULES: tuple[Callable[..., Iterable[Mistake]], ...] = (
    _operators_once,
    _node_types_once,
    _something_has_a_price,
    _edges_join_operators,
    _paths_end_at_operators,
    _pools_are_known_once,
    _initial_names_node_types,
    _beliefs_name_node_types,
    _changes_name_node_types,
    _initial_fits_operators,
    _floors_can_be_kept,
    _pools_have_one_limit,
    _initial_fits_pools,
    _key_groups_suffice,
    _uneven_keys_deal_records,
    _errors_are_given_or_drawn,
    _joint_policy_fits_operators,
)


FLINK_KEY_GROUPS = 720
"""Key groups of a StreamApp that names no `maxParallelism`."""


class UsualWeek(Section):
    """The usual course of an operator's rate, which policies that can use it begin with."""

    rates: Annotated[tuple[AtLeastZero | None, ...], Field(min_length=HOURS, max_length=HOURS)] = (
        Field(examples=[[100.0] * HOURS])
    )
    """Records/s for each of the 168 hours of a week; the first is the hour in which the run begins.
    `null` if unknown."""
    weeks: AboveZero = Field(default=1.0, examples=[4])
    """How many weeks it was watched for."""

    @property
    def season(self) -> Season:
        """The same as the policies have it."""
        rates = tuple(math.nan if rate is None else rate for rate in self.rates)
        return Season(rates=rates, weeks=self.weeks)

    @classmethod
    def of(cls, season: Season) -> UsualWeek:
        """Return a season as an experiment says it, to four digits: no rate is known better."""
        rates = tuple(None if math.isnan(each) else float(f"{each:.4g}") for each in season.rates)
        return cls(rates=rates, weeks=season.weeks)


ROUNDED = 1e-3
"""Relative error of a share that is written to four digits, at most."""


class Keys(Section):
    """How unevenly keys bring records: by Zipf's law, with the shares of some, or as measured."""

    zipf: AtLeastZero | None = Field(default=None, examples=[1.1])
    """Exponent: the n-th heaviest key brings records in proportion to n to the minus that."""
    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(), max_length=1000, examples=[[0.3, 0.1]]
    )
    """Part of the records of the heaviest keys; the others bring what is left, each as much."""
    fullest: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        default=(), max_length=10_000, examples=[[1.0, 0.6, 0.45]]
    )
    """Part of the records that the fullest replica gets at each parallelism from 1, as measured of
    a job; at larger parallelisms, the last one holds."""
    count: int = Field(default=10_000, ge=2, le=1_000_000, examples=[10_000])
    """How many keys there are; of no effect with `fullest`."""

    @model_validator(mode="after")
    def _is_one_law(self) -> Self:
        if [self.zipf is not None, bool(self.shares), bool(self.fullest)].count(True) != 1:
            raise refusal("one of zipf, shares and fullest", "write, for example, {zipf: 1.1}")
        if any(size * share < 1 - ROUNDED for size, share in enumerate(self.fullest, 1)):
            raise refusal(
                "of the fullest of p replicas at least one part in p",
                "correct the shares; the first is of one replica, 1.0",
            )
        if sum(self.shares) >= 1 or len(self.shares) >= self.count:
            raise refusal(
                "shares that leave something for the other keys", "lower them, or raise count"
            )
        return self

    def find_fullest(self, groups: int, max_replicas: int) -> tuple[float, ...]:
        """Return the share of the fullest replica at each parallelism; empty where keys are even.

        Args:
            groups: Key groups.
            max_replicas: The largest parallelism.
        """
        if self.fullest:
            missing = max(max_replicas - len(self.fullest), 0)
            return (*self.fullest, *self.fullest[-1:] * missing)[:max_replicas]
        return _fullest(self.zipf, self.shares, self.count, groups, max_replicas)


@lru_cache(maxsize=64)
def _fullest(
    zipf: float | None, heaviest: tuple[float, ...], count: int, groups: int, max_replicas: int
) -> tuple[float, ...]:
    if zipf is not None:
        shares = zipf_shares(zipf, count)
    else:
        left = (1 - sum(heaviest)) / (count - len(heaviest))
        shares = np.array([*heaviest, *[left] * (count - len(heaviest))])
    by_group = shares_of_groups(shares, groups)
    return fullest_shares(KeyShares(by_group=by_group, counted=math.inf), max_replicas)


class Operator(Section):
    """One operator of the dataflow, as it truly is."""

    name: Name = Field(examples=["op"])
    service_rate: AboveZero = Field(examples=[180])
    """Records/s that one replica of speedup 1 processes without a pause."""
    scv: AtLeastZero = Field(default=1.0, examples=[0.5])
    """Squared coefficient of variation of the service time; 1 is exponential."""
    max_replicas: int = Field(ge=1, le=10_000, examples=[10])
    """Most replicas over all node types."""
    min_replicas: int = Field(default=1, ge=1, le=10_000, examples=[2])
    """Fewest replicas over all node types; at most `maxReplicas`."""
    keyed: bool = True
    """Whether records are dealt at random, by key: then a replica sees a Poisson stream where the
    operator does, which is the papers' M/G/1. False deals them by turn, which is smoother."""
    sharing: Sharing | None = None
    """How records are shared among the replicas; `None` is the experiment's."""
    aggregation: Aggregation | None = None
    """How the replicas' response times become the operator's; `None` is the experiment's."""
    key_groups: int | None = Field(default=None, ge=1, examples=[128])
    """Most parts that keyed records can be divided in; `None` divides them without rounding."""
    keys: Keys | None = Field(default=None, examples=[{"zipf": 1.1}])
    """How unevenly its keys bring the records; needs `keyed` and `sharing: equal`, and takes 720
    `keyGroups` where none are given. `None` is evenly."""
    arrival_scv: AtLeastZero = Field(default=1.0, examples=[1.0])
    """Squared coefficient of variation of the times between arrivals; 1 is Poisson."""
    network_time: Duration = Field(default=0.0, ge=0, examples=["2ms"])
    """Seconds per record on the wire before the operator."""
    pools: tuple[Name, ...] | None = Field(default=None, min_length=1, examples=[["small"]])
    """Pools that its replicas may run in; `None` is all of them."""
    budget: Duration | None = Field(default=None, gt=0, examples=["25ms"])
    """Seconds of response time granted to it; `None` is a share of the bound: an equal one with
    policies that move one replica a decision, else by the time that it needs (`share_bound`)."""
    usual: UsualWeek | None = None
    """What usually arrives at it; `None` leaves that to be learned."""

    @property
    def groups(self) -> int | None:
        """Its key groups; `None` divides keyed records without rounding."""
        return FLINK_KEY_GROUPS if self.keys and self.key_groups is None else self.key_groups

    @property
    def fullest(self) -> tuple[float, ...]:
        """Share of the fullest replica at each parallelism; empty where keys are even."""
        return self.keys.find_fullest(self.groups or 1, self.max_replicas) if self.keys else ()

    def may_use(self, node_type: NodeType) -> bool:
        """Return whether its replicas may run on a node type."""
        return self.pools is None or node_type.pool_name in self.pools


class Edge(Section):
    """Records that flow from one operator to another; `[a, b]` for short."""

    source: Name = Field(alias="from", examples=["a"])
    target: Name = Field(alias="to", examples=["b"])
    selectivity: AtLeastZero = Field(default=1.0, examples=[1.0])
    """Records on this edge per record that `from` takes in."""

    @model_validator(mode="before")
    @classmethod
    def _read_pair(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        if len(value) != 2:
            raise refusal("a pair of operators, [from, to]", "write, for example, [a, b]")
        return {"from": value[0], "to": value[1]}


class NodeType(Section):
    """A kind of node that replicas run on."""

    name: Name = Field(examples=["t1"])
    speedup: AboveZero = Field(examples=[1.0])
    """Work done per second relative to the speed that `serviceRate` is given for."""
    price: AtLeastZero = Field(examples=[1.0])
    """Currency per replica and hour."""
    pool: Name | None = Field(default=None, examples=["small"])
    """Node pool, within which a replica may change its type in place (`world.resizes`); `None` is a
    pool of its own."""
    pool_limit: int | None = Field(default=None, ge=1, examples=[20])
    """Most replicas of all operators over all types of the pool; `None` is no limit."""

    @property
    def pool_name(self) -> str:
        """The pool; by default named after the type."""
        return self.name if self.pool is None else self.pool


class Bound(Section):
    """A bound on a response time: `responseTime: 50ms`, or `{bound: 50ms, statistic: P95}`."""

    response_time: Duration = Field(gt=0, examples=["50ms"])
    """Seconds; a slot above it is a violation."""
    statistic: Statistic = Field(
        default=Statistic.MEAN,
        strict=False,
        exclude_if=lambda statistic: statistic is Statistic.MEAN,
    )
    """Which statistic of the response times of a slot is bounded; in a file part of
    `responseTime`."""

    @model_validator(mode="before")
    @classmethod
    def _read_long_form(cls, value: object) -> object:
        """Take a file's `{bound: 50ms, statistic: P95}` apart."""
        if not isinstance(value, dict):
            return value
        long = value.get("responseTime")
        if not isinstance(long, dict):
            return value
        unknown = sorted(long.keys() - {"bound", "statistic"})
        if unknown or "bound" not in long:
            raise refusal(
                "responseTime with a bound and a statistic",
                "write, for example, responseTime: {bound: 500ms, statistic: P95}",
            )
        rest = {name: field for name, field in value.items() if name != "responseTime"}
        statistic = {name: long[name] for name in ("statistic",) if name in long}
        return {**rest, "responseTime": long["bound"], **statistic}

    @model_serializer(mode="wrap")
    def _write_as_read(
        self, write: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, JsonValue]:
        """Write both as one field where a section is dumped as for a file."""
        written: dict[str, JsonValue] = write(self)
        if info.mode_is_json() and info.by_alias and "statistic" in written:
            bound = {"bound": written["responseTime"], "statistic": written.pop("statistic")}
            written["responseTime"] = bound
        return written


class PathBound(Bound):
    """A bound on the slowest path to one operator, which is judged besides."""

    sink: Name = Field(examples=["alerts"])
    """Where the paths end."""


class Objective(Bound):
    """What the dataflow must achieve, from source to sink along the slowest path."""

    paths: tuple[PathBound, ...] = Field(
        default=(),
        strict=False,
        exclude_if=lambda paths: not paths,
        examples=[[{"sink": "alerts", "responseTime": "100ms"}]],
    )
    """Bounds of single sinks; a slot that exceeds any is a violation."""
    tail: Annotated[float, Field(ge=1)] | None = Field(
        default=None, exclude_if=lambda tail: tail is None, examples=[2.5]
    )
    """How many times the mean the bounded statistic is: budgets are means. `None` is the ratio of
    an exponential time; a fitted experiment has the measured one."""
    max_cost_per_hour: AboveZero | None = Field(
        default=None, exclude_if=lambda cost: cost is None, examples=[20]
    )
    """Currency per hour that no decision may exceed, all replicas together; `None` is no limit."""
    profiled_at: AboveZero | None = Field(default=None, examples=[300])
    """Records/s at the sources for which budgets are profiled, as in EDF: each operator gets the
    time that it takes when the load brings the dataflow to the bound, with the replicas that this
    rate needs. `None` shares the bound (`share_bound`). An operator's own `budget` comes first."""

    @property
    def mean_bound(self) -> float:
        """The bound on the mean that corresponds to the objective, s."""
        return self.response_time / self._tail

    @property
    def mean_sink_bounds(self) -> dict[str, float]:
        """The same of single sinks, s; the tightest where one has several."""
        bounds: dict[str, float] = {}
        for path in self.paths:
            tail = infer_tail(path.statistic, known=self.statistic, tail=self._tail)
            bounds[path.sink] = min(path.response_time / tail, bounds.get(path.sink, math.inf))
        return bounds

    @property
    def _tail(self) -> float:
        return self.statistic.typical_tail if self.tail is None else self.tail

    @property
    def is_plain(self) -> bool:
        """Whether only the mean from source to sink is bounded."""
        return self.statistic is Statistic.MEAN and not self.paths


class RateLevels(Section):
    """How policies with a table cut the rate into levels."""

    levels: int = Field(default=30, ge=1, le=10_000, examples=[30])
    max: AboveZero | None = Field(default=None, examples=[650])
    """Records/s that the levels cover; what is above shares the highest. `None` leaves it to the
    policy: what its fastest deployment can process."""


class Window(Section):
    """A period in which operators have more replicas at least.

    Slot 0 is a Monday, 00:00 in UTC: the first one of 2024.
    """

    name: Name = Field(examples=["peak"])
    schedule: Annotated[str, AfterValidator(check_schedule)] = Field(examples=["0 17 * * 1-5"])
    """When it begins: cron with five fields (minute, hour, day of month, month, day of week)."""
    time_zone: Annotated[str, AfterValidator(check_time_zone)] = Field(
        default=UTC, examples=["Europe/Berlin"]
    )
    """Time zone of the schedule, by its name in the database of the IANA."""
    duration: Duration = Field(gt=0, examples=["2h"])
    min_replicas: dict[Name, Annotated[int, Field(ge=1, le=10_000)]] = Field(
        min_length=1, examples=[{"op": 4}]
    )
    """Fewest replicas of operators by name while it lasts; at most their `maxReplicas`."""


class TraceSource(Section):
    """The source of a trace: a file, or generated."""

    file: Path | None = Field(default=None, strict=False, examples=["taxi.txt"])
    """Text file, one rate in records/s per line; relative to the experiment's file."""
    start: int = Field(default=0, ge=0, le=MAX_SLOTS, examples=[0])
    """First slot to use."""
    slots: int | None = Field(default=None, ge=1, le=MAX_SLOTS, examples=[10080])
    """How many slots to use; `None` is the rest of the file, or a week of minutes made up."""
    kind: TraceKind | None = None
    """The published trace that a made-up one looks like."""
    seed: int = Field(default=1, ge=0, examples=[1])
    """Equal seeds make up equal traces."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse(judge_trace(self))
        return self


class PolicyChoice(Section):
    """Which policy scales the operators."""

    name: str = Field(examples=["planner"])
    parameters: dict[str, JsonValue] = Field(default={})
    """Its settings by name; what is left out keeps its default."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse(judge_policy(self))
        return self


class Change(Section):
    """What is different from a slot on; factors multiply what the file says, not former changes."""

    slot: int = Field(ge=0, le=MAX_SLOTS, examples=[5000])
    rate: AtLeastZero | None = Field(default=None, examples=[2.0])
    """Factor of the trace; `None` leaves the one in force."""
    prices: dict[str, AtLeastZero] = Field(default={}, examples=[{"t1": 100}])
    """Factor by node type."""
    speedups: dict[str, AboveZero] = Field(default={}, examples=[{"t1": 0.5}])
    """Factor by node type."""


class World(Section):
    """What real pools do beyond the papers' model; everything is off by default."""

    resizes: bool = False
    """Whether a change of sizes within the pools is made in place and is no reconfiguration."""
    provisioning_delay: Duration = Field(default=0.0, ge=0, examples=["2m"])
    """Seconds until an added replica is there; the job runs on in the meantime."""
    downtime: Duration = Field(default=0.0, ge=0, examples=["5s"])
    """Seconds that a reconfiguration stops the whole dataflow; its records wait."""
    queues: bool = False
    """Whether backlog is carried over slots; implied by `downtime`."""
    replica_spread: AtLeastZero = Field(default=0.0, examples=[0.1])
    """Relative difference of speed among replicas of one node type (standard deviation)."""
    loss_probability: Probability = Field(default=0.0, examples=[0.0001])
    """Probability per replica and slot that it is lost and has to be replaced."""
    noise: AtLeastZero = Field(default=0.0, examples=[0.05])
    """Relative standard deviation of what is measured."""
    missing: Probability = Field(default=0.0, examples=[0.01])
    """Probability per operator and slot that its measurements are missing."""
    changes: tuple[Change, ...] = ()

    @property
    def carries_backlog(self) -> bool:
        """Whether records wait from slot to slot."""
        return self.queues or self.downtime > 0

    @property
    def is_random(self) -> bool:
        """Whether anything in it happens by chance."""
        chances = (self.replica_spread, self.loss_probability, self.noise, self.missing)
        return any(each > 0 for each in chances)


class TokenBucket(Section):
    """When a token is created that allows a restart; see `weir_policies`' token bucket.

    Source of the defaults: Cardellini et al., FGCS 2018 (EDF), section 9.
    """

    high: AtLeastZero = Field(default=0.9, examples=[0.9])
    """Share of the bound; above it a token comes that pays more speed, or other places."""
    low: AtLeastZero = Field(default=0.5, examples=[0.5])
    """Share of the bound; below it a token comes that pays less speed. At most `high`."""
    every: Duration | None = Field(default=None, gt=0, examples=["60s"])
    """Seconds from one token to the next; `None` is two slots."""
    size: int = Field(default=1, ge=1, le=10_000, examples=[1])
    """Most tokens in the bucket, which holds one kind at a time."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise refusal("low of at most high", "lower it, or raise high")
        return self


class Arbitration(Section):
    """Which of the operators' proposals are made; by default all of them, in one restart."""

    token_bucket: TokenBucket | None = None
    """Tokens that changes with a restart must pay with; `None` asks for none."""
    suspension: Duration = Field(default=0.0, ge=0, examples=["60s"])
    """Seconds after a restart in which no manager learns or decides."""
    nodes: int | None = Field(default=None, ge=1, le=10_000, examples=[4])
    """Nodes of which each proposal for one more replica draws one; of proposals that draw the same
    node in a slot, only the one with the highest score may be granted. `None` is no conflicts."""

    @property
    def grants_all(self) -> bool:
        """Whether every proposal of every slot is made."""
        return self.token_bucket is None and self.suspension == 0 and self.nodes is None


class Believed(Section):
    """How the model that a policy is given differs from the truth: exactly, or drawn from the seed.

    Source of the drawn errors: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6 (PDS+).
    """

    service_time: AboveZero = Field(default=1.0, examples=[1.08])
    """Factor of the mean service time of every operator."""
    service_error: (
        Annotated[
            tuple[Annotated[float, Field(ge=0, lt=1)], ...], Field(min_length=2, max_length=2)
        ]
        | None
    ) = Field(default=None, examples=[[0.05, 0.1]])
    """Least and greatest relative error of the mean service time; size and sign are drawn."""
    scv: AtLeastZero | None = Field(default=None, examples=[1.0])
    """Squared coefficient of variation of the service time; `None` is the truth."""
    speedups: dict[str, AboveZero] = Field(default={}, examples=[{"t2": 0.8}])
    """Speedup by node type; what is left out is the truth."""
    keys: bool = True
    """Whether it is known how unevenly keys bring the records; without, they are taken as even."""
    speedup_error: Annotated[float, Field(ge=0, lt=1)] | None = Field(default=None, examples=[0.2])
    """Greatest relative error of the speedups, drawn between the true ones of the next slower and
    the next faster node type."""

    @property
    def is_random(self) -> bool:
        """Whether any of it is drawn."""
        return self.service_error is not None or self.speedup_error is not None


class Experiment(Section):
    """Everything that a run depends on, but for its seed."""

    operators: tuple[Operator, ...] = Field(min_length=1, examples=[[{"name": "op"}]])
    edges: tuple[Edge, ...] = Field(default=(), examples=[[["a", "b"]]])
    node_types: tuple[NodeType, ...] = Field(
        min_length=1, max_length=64, examples=[[{"name": "t1", "speedup": 1.0, "price": 1.0}]]
    )
    cost_normaliser: AboveZero | None = Field(default=None, examples=[2.0])
    """Price that the greatest cost is made of, all replicas at it; `None` is the dearest type's."""
    objective: Objective = Field(examples=[{"responseTime": "50ms"}])
    weights: CostWeights = CostWeights()
    rate: RateLevels = RateLevels()
    windows: tuple[Window, ...] = ()
    """Periods with a floor on replicas."""
    trace: TraceSource = Field(examples=[{"file": "taxi.txt"}])
    training: TraceSource | None = Field(default=None, examples=[{"file": "last-month.txt"}])
    """Trace that offline policies learn from; not the one that they are judged on."""
    policy: PolicyChoice = PolicyChoice(name="planner")
    seeds: tuple[Annotated[int, Field(ge=0, le=MAX_SEED)], ...] = Field(
        default=(1,), min_length=1, examples=[[1, 2, 3]]
    )
    """Each is a run of its own; `weir compare` makes an interval of them."""
    step: Literal[1, "any"] | None = Field(default=None, examples=[1])
    """Whether a decision reaches one replica more or less, or any deployment; `None` is as the
    policy was made."""
    initial: dict[str, Annotated[int, Field(ge=0)]] | None = Field(
        default=None, examples=[{"t1": 1}]
    )
    """Replicas of each operator to begin with, by node type, those left out that it may not run on;
    `None` is one of the first such type with room in its pool."""
    sharing: Sharing = Sharing.EQUAL
    aggregation: Aggregation = Aggregation.WORST
    slot: Duration = Field(default=60.0, gt=0, examples=["60s"])
    """Seconds between two decisions, one line of the trace."""
    world: World = World()
    arbitration: Arbitration = Arbitration()
    believed: Believed = Believed()

    @field_validator("seeds")
    @classmethod
    def _each_seed_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise refusal("distinct seeds", "equal seeds give equal runs: keep each once")
        return seeds

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse(judge(RULES, {name: getattr(self, name) for name in type(self).model_fields}))
        return self

    @property
    def dearest(self) -> float:
        """Price of a replica for the maximum cost."""
        if self.cost_normaliser is not None:
            return self.cost_normaliser
        return max(node_type.price for node_type in self.node_types)

    @property
    def dataflow(self) -> graph.Dataflow:
        """The operators and their edges as a graph."""
        return _join(self.operators, self.edges)

    def most_replicas(self, policy: str) -> dict[str, int]:
        """Return the number of replicas of each operator for the maximum cost."""
        own = {operator.name: operator.max_replicas for operator in self.operators}
        if registry.find(policy).sees_application:
            return dict.fromkeys(own, sum(own.values()))
        return own

    def share_bound(self, policy: str, models: Sequence[OperatorModel]) -> dict[str, float]:
        """Return seconds of mean response time granted to each operator.

        With a policy that moves one replica a decision, as the papers' that read budgets do, these
        are equal quotas of the bound, as published. With others they are by `share_budgets`, as
        from the controller. Where the bound cannot be kept at all they are equal again: no other
        share would keep it either, and a run in the simulator shall show that, not refuse. With
        `objective.profiledAt` they are profiled (`profile_budgets`).
        """
        dataflow, bound = self.dataflow, self.objective.mean_bound
        sinks = self.objective.mean_sink_bounds
        shares = share_equally(dataflow, bound, sink_bounds=sinks)
        if self.objective.profiled_at is not None:
            with suppress(InfeasibleObjectiveError):
                rate = self.objective.profiled_at
                shares = profile_budgets(dataflow, models, bound, rate=rate)
        elif registry.find(policy).sees_application:
            minimum = {model.name: min_response_time(model) for model in models}
            with suppress(InfeasibleObjectiveError):
                shares = share_budgets(dataflow, bound, least=minimum, sink_bounds=sinks)
        own = {each.name: each.budget for each in self.operators if each.budget is not None}
        return shares | own

    @property
    def initial_deployments(self) -> tuple[Deployment, ...]:
        """Deployments to begin with, one per operator in the file's order."""
        begun = initial_counts(self.operators, self.node_types, self.initial)
        types = [each.name for each in self.node_types]
        return tuple(Deployment(tuple(first.get(name, 0) for name in types)) for first in begun)

    def moves_by_one(self, policy: str) -> bool:
        """Return whether a decision of the policy reaches one replica more or less only."""
        if self.step is not None:
            return self.step == 1
        return registry.find(policy).neighbourhood is Neighbourhood.ONE


def _join(operators: Sequence[Operator], edges: Sequence[Edge]) -> graph.Dataflow:
    return graph.Dataflow(
        operators=tuple(operator.name for operator in operators),
        edges=tuple(
            graph.Edge(source=edge.source, target=edge.target, selectivity=edge.selectivity)
            for edge in edges
        ),
    )
