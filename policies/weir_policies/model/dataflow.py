"""The dataflow: operators, edges, paths from source to sink, and how rates spread along them.

Knows nothing of replicas or queues. Response time is source to sink over the slowest path
(Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 3); rates spread with the edges'
selectivities.

Longest paths are found by dynamic programming in topological order. `paths` lists them all and is
for small graphs: a chain of n diamonds has 2^n.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from graphlib import CycleError, TopologicalSorter

import numpy as np

from weir_policies.errors import DataflowError
from weir_policies.model.arrays import Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """Records that flow from one operator to another."""

    source: str
    target: str
    selectivity: float = 1.0
    """Records on this edge per record that `source` takes in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataflow:
    """An acyclic graph over named operators.

    Raises:
        DataflowError: No operator, a name twice, an edge that is twice there or names an unknown
            operator, a selectivity that is negative or not finite, or a cycle.
    """

    operators: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    order: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """The operators, every one behind all that feed it."""
    _into: Mapping[str, tuple[Edge, ...]] = field(init=False, compare=False, repr=False)
    _out_of: Mapping[str, tuple[Edge, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check the graph and put it in order."""
        if not self.operators:
            raise DataflowError("Expected at least one operator, got none")
        _refuse_doubles("operators", self.operators)
        _refuse_doubles("edges", tuple(f"{edge.source} -> {edge.target}" for edge in self.edges))
        into: dict[str, list[Edge]] = {name: [] for name in self.operators}
        out_of: dict[str, list[Edge]] = {name: [] for name in self.operators}
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in into:
                    raise DataflowError(f"Expected edges between {self.operators}, got {end!r}")
            if not (math.isfinite(edge.selectivity) and edge.selectivity >= 0):
                raise DataflowError(
                    f"Expected a selectivity >= 0 on {edge.source} -> {edge.target}, "
                    f"got {edge.selectivity}"
                )
            into[edge.target].append(edge)
            out_of[edge.source].append(edge)
        before = {name: [edge.source for edge in edges] for name, edges in into.items()}
        try:
            order = tuple(TopologicalSorter(before).static_order())
        except CycleError as error:
            cycle = " -> ".join(reversed(error.args[1]))
            raise DataflowError(f"Expected no cycle, got {cycle}") from error
        object.__setattr__(self, "order", order)
        for name, ends in (("_into", into), ("_out_of", out_of)):
            found = {operator: tuple(edges) for operator, edges in ends.items()}
            object.__setattr__(self, name, found)

    @property
    def sources(self) -> tuple[str, ...]:
        """Operators that nothing feeds."""
        return tuple(name for name in self.operators if not self.into(name))

    @property
    def sinks(self) -> tuple[str, ...]:
        """Operators that feed nothing."""
        return tuple(name for name in self.operators if not self.out_of(name))

    def into(self, operator: str) -> tuple[Edge, ...]:
        """Return the edges that feed the operator."""
        return self._into.get(operator, ())

    def out_of(self, operator: str) -> tuple[Edge, ...]:
        """Return the edges that leave the operator."""
        return self._out_of.get(operator, ())

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Yield every path from a source to a sink."""
        unfinished: list[tuple[str, ...]] = [(source,) for source in reversed(self.sources)]
        while unfinished:
            path = unfinished.pop()
            onward = self.out_of(path[-1])
            if not onward:
                yield path
            unfinished.extend((*path, edge.target) for edge in reversed(onward))

    def leading_to(self, operator: str) -> Dataflow:
        """Return the part of the graph whose records can reach the operator."""
        reached = {operator}
        for name in reversed(self.order):
            if any(edge.target in reached for edge in self.out_of(name)):
                reached.add(name)
        return Dataflow(
            operators=tuple(name for name in self.operators if name in reached),
            edges=tuple(
                edge for edge in self.edges if edge.source in reached and edge.target in reached
            ),
        )

    def without(self, removed: Collection[str]) -> Dataflow | None:
        """Return the graph without some operators, feeders joined to followers; `None` if empty.

        Records that would have passed a removed operator keep its selectivity.
        """
        passed = {(edge.source, edge.target): edge.selectivity for edge in self.edges}
        for name in removed:
            feeders = {source: s for (source, target), s in passed.items() if target == name}
            followers = {target: s for (source, target), s in passed.items() if source == name}
            passed = {ends: s for ends, s in passed.items() if name not in ends}
            for source, arriving in feeders.items():
                for target, leaving in followers.items():
                    direct = passed.get((source, target), 0.0)
                    passed[source, target] = direct + arriving * leaving
        left = tuple(name for name in self.operators if name not in removed)
        if not left:
            return None
        return Dataflow(
            operators=left,
            edges=tuple(
                Edge(source=source, target=target, selectivity=passed[source, target])
                for source, target in sorted(passed)
            ),
        )

    def longest_path(self, lengths: Mapping[str, float]) -> tuple[str, ...]:
        """Return the path with the greatest sum; the first found among equals.

        Args:
            lengths: A number per operator, such as seconds of response time; no NaN.
        """
        reached = self._longest_from(lengths)
        path = [max(self.sources, key=reached.__getitem__)]
        while onward := self.out_of(path[-1]):
            path.append(max((edge.target for edge in onward), key=reached.__getitem__))
        return tuple(path)

    def response_time(self, response_times: Mapping[str, float]) -> float:
        """Return the sum over the slowest path, s; NaN where any operator's time is NaN."""
        if any(math.isnan(response_times[name]) for name in self.operators):
            return math.nan
        reached = self._longest_from(response_times)
        return max(reached[source] for source in self.sources)

    def response_times(self, times: Mapping[str, Floats]) -> Floats:
        """Return `response_time` of many times of each operator, s, shaped as they broadcast."""
        reached: dict[str, Floats] = {}
        for name in self.order:
            before = [reached[edge.source] for edge in self.into(name)]
            reached[name] = times[name] + (reduce(np.maximum, before) if before else 0.0)
        return reduce(np.maximum, (reached[sink] for sink in self.sinks))

    def longest_through(self, lengths: Mapping[str, float]) -> dict[str, float]:
        """Return per operator the length of the longest path that passes through it."""
        onward = self._longest_from(lengths)
        through: dict[str, float] = {}
        behind: dict[str, float] = {}
        for name in self.order:
            behind[name] = max(
                (behind[edge.source] + lengths[edge.source] for edge in self.into(name)),
                default=0.0,
            )
            through[name] = behind[name] + onward[name]
        return through

    def spread_rates(self, source_rates: Mapping[str, float]) -> dict[str, float]:
        """Return the records/s that arrive at each operator, by those at each source.

        Raises:
            DataflowError: A source has no rate.
        """
        missing = [source for source in self.sources if source not in source_rates]
        if missing:
            raise DataflowError(f"Expected a rate for every source, got none for {missing}")
        rates: dict[str, float] = {}
        for name in self.order:
            feeding = self.into(name)
            if not feeding:
                rates[name] = source_rates[name]
                continue
            rates[name] = sum(rates[edge.source] * edge.selectivity for edge in feeding)
        return rates

    def _longest_from(self, lengths: Mapping[str, float]) -> dict[str, float]:
        """Return per operator the length of the longest path from it to a sink, itself included."""
        reached: dict[str, float] = {}
        for name in reversed(self.order):
            onward = (reached[edge.target] for edge in self.out_of(name))
            reached[name] = lengths[name] + max(onward, default=0.0)
        return reached


def _refuse_doubles(what: str, names: tuple[str, ...]) -> None:
    if len(set(names)) < len(names):
        doubles = sorted({name for name in names if names.count(name) > 1})
        raise DataflowError(f"Expected distinct {what}, got {doubles} more than once")
