"""What standby TaskManagers would have saved in the past, and what they cost. Pure.

A change that adds replicas first waits for their TaskManagers, while the old job runs on. Standby
takes most of that wait away. Whether more of it would pay is judged by the intervals in that wait
that exceeded the bound: without any, nothing was missed that standby could have kept.

A change whose TaskManagers all were standby has hardly waited, so its intervals say nothing against
standby. What it would have been without is judged by the wait of changes that started their own:
for as long, the old deployment would have run on. Without such changes, it is unknown.

Only what was recorded is counted. An interval may have exceeded the bound in any case, or may not
have exceeded it with the old deployment, so the numbers are what standby could have saved or has
saved at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from weir_operator.loop.decision_records import JobTick
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.standby import replicas_per_pool
from weir_simulator.reports import wording

DAY = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StandbyAdvice:
    """What changes have waited for."""

    changes: int
    """How many added replicas."""
    waited: float
    """Seconds for which they waited for TaskManagers."""
    late: int
    """Intervals over the bound that overlap with such a wait."""
    needed: Mapping[str, int]
    """The most replicas that one of them added, by pool."""
    warm: int = 0
    """How many of the changes took standby TaskManagers only."""
    cold_wait: float | None = None
    """Seconds for which the others waited, the median; `None` without any."""
    kept: int | None = None
    """Intervals within the bound in which the warm changes would still have waited if they had
    started their own TaskManagers; `None` where nothing says how long that takes."""

    @property
    def pays(self) -> bool:
        """Whether standby could have kept the objective more often."""
        return self.late > 0


def judge_standby(changes: Iterable[RescaleJournal], ticks: Iterable[JobTick]) -> StandbyAdvice:
    """Return what standby TaskManagers would have saved."""
    waits: list[tuple[float, float]] = []
    cold: list[float] = []
    warm: list[tuple[float, float]] = []
    needed: Counter[str] = Counter()
    for change in changes:
        added = _added(change.source, change.target)
        begin, end = (change.times.get(str(step)) for step in (Step.START, Step.STOP))
        if change.kind is not Kind.RESCALE or not added or begin is None or end is None:
            continue
        waits.append((begin, end))
        needed |= added
        if 0 < change.started <= change.from_standby:
            warm.append((begin, end))
        else:
            cold.append(end - begin)
    seen = list(ticks)
    cold_wait = median(cold) if cold else None
    spared = () if cold_wait is None else tuple((end, begin + cold_wait) for begin, end in warm)
    return StandbyAdvice(
        changes=len(waits),
        waited=sum(end - begin for begin, end in waits),
        late=_count_within(seen, waits, violated=True),
        needed=dict(needed),
        warm=len(warm),
        cold_wait=cold_wait,
        kept=None if cold_wait is None else _count_within(seen, spared, violated=False),
    )


def describe_standby(
    advice: StandbyAdvice, prices: Mapping[str, float], standby: Mapping[str, int]
) -> str:
    """Return the advice in one or two sentences; empty where no change has added replicas.

    Args:
        advice: What changes have waited for.
        prices: Of one standby TaskManager, currency per hour, by pool.
        standby: How many wait already, by pool.
    """
    if not advice.changes:
        return ""
    waits = (
        f"{wording.counted(advice.changes, 'change')} that added replicas waited"
        f" {wording.seconds(advice.waited)} for TaskManagers, in which"
        f" {wording.counted(advice.late, 'interval')} exceeded the bound."
    )
    if not advice.pays and advice.warm:
        return f"{waits} {_describe_kept(advice)}"
    if not advice.pays:
        return f"{waits} More standby would have saved nothing."
    more = {
        pool: count
        for pool, count in sorted(advice.needed.items())
        if count > standby.get(pool, 0) and pool in prices
    }
    if not more:
        return f"{waits} Each pool has as much standby as a change needed."
    asked = ", ".join(f"standby: {count} in pool {pool}" for pool, count in more.items())
    cost = 24 * sum((count - standby.get(pool, 0)) * prices[pool] for pool, count in more.items())
    return f"{waits} To save up to that, set {asked}, for {wording.money(cost)} per day."


def _describe_kept(advice: StandbyAdvice) -> str:
    """Return what standby has saved, a sentence."""
    took = f"{wording.counted(advice.warm, 'change')} took standby only"
    if advice.cold_wait is None or advice.kept is None:
        return f"{took}: what standby saved is unknown, because no change did without."
    return (
        f"{took}: without, each would have waited some {wording.seconds(advice.cold_wait)}, so"
        f" standby saved at most {wording.counted(advice.kept, 'interval')} over the bound."
    )


def _count_within(
    ticks: Sequence[JobTick], spans: Sequence[tuple[float, float]], *, violated: bool
) -> int:
    """Return how many intervals with this verdict overlap with one of the spans of time."""
    return sum(
        tick.violated is violated
        and any(begin < tick.time and tick.time - tick.seconds < end for begin, end in spans)
        for tick in ticks
    )


def _added(source: Deployments, target: Deployments) -> Counter[str]:
    """Return how many replicas a change adds, by pool."""
    added: Counter[str] = Counter()
    for operator in target:
        before = replicas_per_pool({operator: source.get(operator, {})})
        added += replicas_per_pool({operator: target[operator]}) - before
    return added
