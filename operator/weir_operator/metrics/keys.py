"""What Weir's agent counted of a job's keys, how unevenly they bring records, and what helps. Pure.

Every task that sends records by key has a text (`java/agent`, `KeyCounts`), a line per output:

    OPERATORS GROUPS COUNTED SHIFT WIDTH c,c,...  KEY:GROUP:c,...

Numbers are to base 36, weights shifted right by SHIFT. Each count is of WIDTH neighbouring key
groups; what the named keys did not bring is then taken as spread evenly over these. Lines of
several tasks are added. Where OPERATORS is `.OPERATOR`, the weights are the time that the key
groups took in a task of that operator, and COUNTED is how many timed records of equal length would
tell as much.

The shares of the key groups say what each replica gets at any parallelism. Where they are not
counted, for want of Weir's agent, the rates of the replicas say what one of them gets beyond its
part. Scaling out helps until the heavy groups are parted; a heavy key cannot be. Nor can a
partition of a source: what waits in one waits for its reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote_plus

import numpy as np

from weir_operator.errors import PermanentError
from weir_operator.limits import KEY_LINE, MAX_JOB_KEY_GROUPS, MAX_KEY_GROUPS
from weir_operator.metrics.values import AppMeasurement, PartitionMeasurement
from weir_policies.model.arrays import Floats
from weir_policies.model.estimation import ENOUGH_KEYS
from weir_policies.model.keys import (
    UNEVEN,
    HeavyKey,
    KeyShares,
    even_share,
    fullest_share,
    measure_lengths,
    most_useful,
    replica_shares,
)
from weir_policies.model.node_types import NOWHERE, Deployment
from weir_policies.model.sharing import fullest_of, predict_utilisation
from weir_policies.policy import Observation

MOST_KEYS = 5
"""Keys of an operator that are named, and of a line that are read: the agent writes no more."""
NAMED_FROM = 0.008
"""Part of the records from which a key is named: less than 1 %, which may be counted too low."""
_LONGEST = 40  # characters of a key's text
_GREATEST = 2**63 - 1  # a long of Java


def read_keys(texts: Iterable[str], operators: Collection[str]) -> dict[str, KeyShares]:
    """Return what was counted of each operator's keys, by the operator's name.

    Where an operator has inputs of different numbers of key groups, the one with most records
    counts.

    Args:
        texts: Of all tasks.
        operators: Those of the job; lines of others are left out.

    Raises:
        PermanentError: A text is not what the agent writes, or there are too many key groups.
    """
    found: dict[tuple[str, int], _Sum] = {}
    groups_held = 0
    for text in texts:
        for line in text.splitlines():
            try:
                receivers, counts = _read_line(line)
            except (ValueError, IndexError) as error:
                raise PermanentError(
                    f"Expected counts of keys as Weir's agent writes them, got {line[:80]!r}"
                ) from error
            groups = counts.weights.size
            for name in receivers:
                if name.removeprefix(".") not in operators:
                    continue
                if (name, groups) not in found:
                    groups_held += groups
                    if groups_held > MAX_JOB_KEY_GROUPS:
                        raise PermanentError(
                            f"Expected at most {MAX_JOB_KEY_GROUPS:,} key groups over all "
                            f"operators, got at least {groups_held:,}; lower the job's "
                            "maxParallelism"
                        )
                    found[name, groups] = _Sum(groups)
                found[name, groups].add(counts)
    by_operator: dict[str, KeyShares] = {}
    for (name, groups), counts in sorted(found.items(), key=lambda each: each[1].total):
        if counts.total > 0 and not name.startswith("."):
            by_operator[name] = counts.shares(found.get((f".{name}", groups)))
    return dict(sorted(by_operator.items()))


class _Sum:
    """Weights of key groups and keys, added up."""

    def __init__(self, groups: int) -> None:
        self.weights: Floats = np.zeros(groups)
        self.counted = 0
        self.width = 1
        self.keys: dict[tuple[str, int], float] = {}

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def add(self, other: _Sum) -> None:
        self.weights += other.weights
        self.counted += other.counted
        self.width = other.width
        for key, weight in other.keys.items():
            self.keys[key] = self.keys.get(key, 0.0) + weight

    def shares(self, time: _Sum | None) -> KeyShares:
        total = self.total
        by_group = self.weights / total
        work: tuple[float, ...] = ()
        if time is not None:
            edges = np.arange(0, by_group.size, time.width)
            records, taken = (np.add.reduceat(each, edges) for each in (by_group, time.weights))
            # Of a group whose few records were not counted, time says nothing.
            taken = np.where(records > 0, taken, 0.0)
            if taken.sum() > 0:
                lengths = measure_lengths(records, taken / taken.sum(), time.counted)
                if (lengths != 1).any():
                    parts = by_group * np.repeat(lengths, time.width)[: by_group.size]
                    work = tuple((parts / parts.sum()).tolist())
        heaviest = sorted(self.keys.items(), key=lambda each: -each[1])[:MOST_KEYS]
        return KeyShares(
            by_group=tuple(by_group.tolist()),
            work=work,
            counted=float(self.counted),
            heavy=tuple(
                # A key that was held for a part of the time may be counted too high.
                HeavyKey(name=name, group=group, share=min(weight / total, float(by_group[group])))
                for (name, group), weight in heaviest
                if weight >= NAMED_FROM * total
            ),
        )


def _read_line(line: str) -> tuple[list[str], _Sum]:
    if len(line) > KEY_LINE:
        raise ValueError("too long")
    names, *numbers, counts = line.split(" ")[:6]
    groups, counted, shift, width = map(_read_number, numbers)
    blocks = [_read_number(count) for count in counts.split(",")]
    if not (0 < groups <= MAX_KEY_GROUPS and 0 <= shift < 64 and 0 < width <= groups):
        raise ValueError("no such key groups")
    if len(blocks) != -(-groups // width):
        raise ValueError("not so many counts")
    read = _Sum(groups)
    read.counted, read.width = counted, width
    rest = np.array(blocks, dtype=np.float64)
    for key in line.split(" ")[6:7]:
        for each in key.split(",")[:MOST_KEYS]:
            name, number, count = each.split(":")
            group, weight = _read_number(number), _read_number(count)
            if group >= groups:
                raise ValueError("no such key group")
            read.keys[_readable(name), group] = float(weight << shift)
            if width > 1:
                # What a key brings is in its own group, not spread over its neighbours.
                own = min(float(weight), rest[group // width])
                rest[group // width] -= own
                read.weights[group] += own
    sizes = np.bincount(np.arange(groups) // width)
    read.weights += np.repeat(rest / sizes, sizes)
    read.weights *= 2.0**shift
    return names.split(","), read


def _read_number(text: str) -> int:
    number = int(text, 36)
    if not 0 <= number <= _GREATEST:
        raise ValueError(f"expected a number in base 36 up to 2^63-1, got {text!r:.20}")
    return number


def _readable(name: str) -> str:
    if not name.startswith("="):
        return name[:_LONGEST]
    text = unquote_plus(name[1:])[:_LONGEST]
    return "=" + "".join(sign if sign.isprintable() else "?" for sign in text)


MANY_WAIT = 1000
"""Records that wait from which partitions are told of: a few are on their way."""
LAGS = 1.5
"""How many times its part of all that waits one reader has where it lags."""
MOST_NAMED = 5
"""Partitions that are named."""
FULL = 0.9
"""Predicted busy share from which a replica has no room: so well are times and shares known."""
ONE_KEY = 0.5
"""Part of what the fullest replica gets that one key brings where it alone is named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyReport:
    """What is known of the keys of one operator, at the parallelism that it has."""

    replicas: tuple[float, ...]
    """Part of the records that each replica gets, by subtask."""
    heaviest: int
    """Key group with the most records."""
    heaviest_share: float
    heavy: tuple[HeavyKey, ...]
    counted: float
    """Records that this comes from."""
    work: float | None = None
    """Part of the work that the fullest replica has; `None` where it is that of the records."""
    heavy_work: tuple[float, ...] = ()
    """Part of the work of the key group of each of `heavy`; empty where it is that of the records.
    """

    @property
    def fullest(self) -> float:
        """Part of the records that the fullest replica gets."""
        return max(self.replicas)


def report_keys(
    keys: Mapping[str, KeyShares], observations: Mapping[str, Observation]
) -> dict[str, KeyReport]:
    """Return what is known of the keys of the operators that are observed.

    Of fewer than `ENOUGH_KEYS` counted records, as after each start, nothing is known.
    """
    return {
        name: _report(found, observations[name].deployment)
        for name, found in keys.items()
        if name in observations and found.counted >= ENOUGH_KEYS
    }


def _report(found: KeyShares, deployment: Deployment) -> KeyReport:
    work = () if is_mixed(deployment) else found.work
    return KeyReport(
        replicas=tuple(replica_shares(found.by_group, deployment.size).tolist()),
        heaviest=found.heaviest,
        heaviest_share=found.by_group[found.heaviest],
        heavy=found.heavy,
        counted=found.counted,
        work=fullest_share(work, deployment.size) if work else None,
        heavy_work=tuple(work[each.group] for each in found.heavy) if work else (),
    )


def is_mixed(deployment: Deployment) -> bool:
    """Return whether replicas are of several node types: then time says little of key groups."""
    return sum(count > 0 for count in deployment.counts) > 1


def describe_skews(
    keys: Mapping[str, KeyReport], observations: Mapping[str, Observation]
) -> dict[str, str]:
    """Return a sentence for each operator of which one replica gets many more records."""
    found = {
        name: _describe(name, seen, keys.get(name))
        for name, seen in observations.items()
        if seen.model.is_skewed
    }
    return {name: sentence for name, sentence in found.items() if sentence}


def describe_overload(skewed: Mapping[str, str], observations: Mapping[str, Observation]) -> str:
    """Return that no deployment has room for what passes an operator with uneven keys; else empty.

    What passed counts, not what arrives: of a source that reads as fast as it can, that is a guess.

    Args:
        skewed: What `describe_skews` returned.
        observations: Of an interval that missed the objective.
    """
    for name, sentence in skewed.items():
        if _least_busy(observations[name]) >= FULL:
            return (
                f"Whatever the number of replicas of {name}, the fullest of them would be at least "
                f"{FULL:.0%} busy at this rate. {sentence}"
            )
    return ""


def _least_busy(seen: Observation) -> float:
    """Return how busy the fullest replica is at the parallelism and node type that suit it best."""
    types = seen.model.node_types
    counts = [
        [size * (other is node_type) for other in types]
        for node_type in types
        if node_type.pool != NOWHERE
        for size in range(1, seen.model.max_replicas + 1)
        if node_type.pool_limit is None or size <= node_type.pool_limit
    ]
    return float(predict_utilisation(seen.model, np.array(counts), seen.processed).min())


def describe_partitions(app: AppMeasurement) -> dict[str, str]:
    """Return a sentence for each source of which a partition stands still or one reader lags."""
    found = {
        name: _describe_standing(name, each.partitions) or _describe_lagging(name, each.partitions)
        for name, each in app.operators.items()
        if len(each.partitions) > 1
    }
    return {name: sentence for name, sentence in found.items() if sentence}


def _describe_standing(name: str, partitions: Sequence[PartitionMeasurement]) -> str:
    moving = {each.reader for each in partitions if each.rate > 0}
    standing = [each for each in partitions if each.rate == 0 and each.waiting >= MANY_WAIT]
    if not standing or not moving:
        return ""
    # Where its reader's other partitions move, those may be what the records wait in.
    alone = [each.name for each in standing if each.reader not in moving]
    if not alone:
        return ""
    waiting = sum({each.reader: each.waiting for each in standing if each.name in alone}.values())
    return (
        f"Nothing is read of {_join(alone)} at {name}, where {waiting:,.0f} records wait, while "
        "other partitions are read; more replicas do not help: look for a record that cannot be "
        "read, or a broker that is gone"
    )


def _describe_lagging(name: str, partitions: Sequence[PartitionMeasurement]) -> str:
    waiting = {each.reader: each.waiting for each in partitions}
    total = sum(waiting.values())
    if len(waiting) < 2 or not total >= MANY_WAIT:  # NaN: a reader does not tell
        return ""
    reader = max(waiting, key=lambda each: waiting[each])
    if waiting[reader] < LAGS * total / len(waiting) or waiting[reader] < total / 2:
        return ""
    own = [each.name for each in partitions if each.reader == reader]
    parted = f", as do up to {len(partitions)} replicas" if len(own) > 1 else ""
    return (
        f"{waiting[reader] / total:.0%} of the records that wait at {name} wait in {_join(own)}, "
        f"which one replica reads; records that are spread over more partitions help{parted}"
    )


def _join(partitions: Sequence[str]) -> str:
    names = ", ".join(partitions[:MOST_NAMED])
    more = f" and {len(partitions) - MOST_NAMED} more" if len(partitions) > MOST_NAMED else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {names}{more}"


def _describe(name: str, seen: Observation, keys: KeyReport | None) -> str:
    model, size = seen.model, seen.deployment.size
    shares = fullest_of(model)
    share = shares[min(size, len(shares)) - 1]
    even = even_share(model.key_groups or len(shares), size)
    if size > 1 and share <= UNEVEN * even:
        return ""
    useful = most_useful(shares)
    sentence = f"The keys of {name} are uneven"
    if keys is not None and keys.heavy:
        brought = keys.heavy_work or tuple(each.share for each in keys.heavy)
        place = brought.index(max(brought))
        if brought[place] >= ONE_KEY * min(shares):
            key = keys.heavy[place]
            sentence = f"One key of {name} ({key.label}) carries {key.share:.0%} of its records"
            if keys.heavy_work:
                sentence += f", its key group {brought[place]:.0%} of the work"
    if size > 1:
        of_work = " of the work" if keys is not None and keys.work is not None else ""
        sentence += f"; the fullest of {size} replicas gets {share:.0%}{of_work} instead of "
        sentence += f"{even:.0%}"
    if useful < model.max_replicas:
        sentence += f"; more than {_count(useful)} not help"
        sentence += ", a faster pool does" if _has_faster(seen) else ""
    counts = np.array([seen.deployment.counts])
    without = replace(model, fullest=(), hot_share=0.0)
    busy = [float(predict_utilisation(each, counts, seen.rate)[0]) for each in (model, without)]
    if size > 1 and busy[0] > 0:
        sentence += (
            f"; with even keys (salted, or aggregated in two phases) its busiest replica would be "
            f"{busy[1]:.0%} busy instead of {busy[0]:.0%}"
        )
    return sentence


def _has_faster(seen: Observation) -> bool:
    types = seen.model.node_types
    used = max(each.speedup for each, count in zip(types, seen.deployment, strict=True) if count)
    return any(each.pool != NOWHERE and each.speedup > UNEVEN * used for each in types)


def _count(replicas: int) -> str:
    return "1 replica does" if replicas == 1 else f"{replicas} replicas do"
