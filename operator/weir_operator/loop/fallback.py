"""The deployment for metrics that stay unhealthy: `spec.fallback`. Pure.

Without metrics, Weir cannot know how much capacity is needed. Users who fear overload more than
cost ask for the largest deployment, or name one. Once metrics are healthy, the regular decisions
reduce it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir_operator.loop.bounds import Floors, keep_all_bounds
from weir_operator.loop.directives import Directives
from weir_operator.loop.guards import Guard, refuse_move
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.managers import Fallback, FallbackDeployment
from weir_operator.streamapp.models import Mode
from weir_policies.model.node_types import Deployment
from weir_policies.policy import OperatorModel


class MetricsOutage:
    """For how long there has been nothing to decide on, and whether that was answered."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._answered = False

    def note(self, *, healthy: bool, now: float) -> bool:
        """Process a tick; return whether this ends an outage that the fallback answered.

        Args:
            healthy: Whether what was measured can be trusted.
            now: Seconds on a clock that cannot be set, here and in `is_due`.
        """
        if not healthy:
            self._since = now if self._since is None else self._since
            return False
        ends = self._answered
        self._since, self._answered = None, False
        return ends

    @property
    def is_answered(self) -> bool:
        """Whether the fallback was taken in this outage."""
        return self._answered

    def is_due(self, fallback: Fallback, now: float, *, again: bool = False) -> bool:
        """Return whether to take the fallback now; true until `answer`, or `again` after it."""
        if self._since is None or (self._answered and not again):
            return False
        return now - self._since >= fallback.after.seconds

    def answer(self) -> None:
        """Take the fallback as taken, until the metrics are healthy again."""
        self._answered = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What is done about an outage of the metrics."""

    target: Deployments
    """Where to go; what runs, where nothing is to be done."""
    reason: str
    """One sentence."""
    refusal: str | None
    """Why it is held back, if it is."""


def answer_outage(
    directives: Directives,
    current: Deployments,
    models: Mapping[str, OperatorModel],
    *,
    pool_limits: Mapping[str, int],
    guards: Sequence[Guard],
    floors: Floors,
    max_prices: Mapping[str, float],
) -> Answer:
    """Return what the manifest asks for once the metrics have been unhealthy for long enough."""
    asked = directives.fallback
    target = find_fallback(asked, current, models, pool_limits)
    target = keep_all_bounds(target, models, floors, pool_limits, max_prices)
    refusal = refuse_move(current, target, models, guards)
    if directives.mode is not Mode.AUTO:
        refusal = f"Only advised: spec.mode is {directives.mode.value}"
    reason = (
        f"The metrics have been unhealthy for at least {asked.after}: the "
        f"fallback is {asked.deployment.value}"
    )
    return Answer(target=current if refusal is not None else target, reason=reason, refusal=refusal)


def find_fallback(
    fallback: Fallback,
    current: Deployments,
    models: Mapping[str, OperatorModel],
    pool_limits: Mapping[str, int],
) -> Deployments:
    """Return the deployments to go to."""
    if fallback.deployment is FallbackDeployment.HOLD:
        return current
    if fallback.deployment is FallbackDeployment.NAMED:
        named = {
            name: {node_type: count for node_type, count in counts.items() if count}
            for name, counts in (fallback.named or {}).items()
        }
        return {**current, **{name: named[name] for name in named if name in models}}
    return {**current, **_find_largest(current, models, pool_limits)}


def _find_largest(
    current: Deployments, models: Mapping[str, OperatorModel], pool_limits: Mapping[str, int]
) -> Deployments:
    """Return the most that each operator may have, taking turns where they share a pool's room.

    Replicas stay in their pool, at its largest size: what leaves a pool frees its place only after
    the new ones have started, so a full pool would never be left.
    """
    fastest = {
        name: {
            each.pool: max(
                (t for t in model.node_types if t.pool == each.pool), key=lambda t: t.speedup
            )
            for each in model.node_types
        }
        for name, model in models.items()
    }
    counts = {
        name: Deployment.from_named(current[name], model.node_types).per_pool(model.node_types)
        for name, model in models.items()
    }
    room = dict(pool_limits)
    for deployed in current.values():
        for node_type, count in deployed.items():
            pool = node_type.split("/", 1)[0]
            if pool in room:
                room[pool] -= count
    growing = list(models)
    while growing:
        for name in list(growing):
            model, mine = models[name], counts[name]
            open_pools = [
                each
                for each in fastest[name].values()
                if room.get(each.pool, 1) > 0
                and (each.pool_limit is None or mine.get(each.pool, 0) < each.pool_limit)
            ]
            if sum(mine.values()) >= model.max_replicas or not open_pools:
                growing.remove(name)
                continue
            best = max(open_pools, key=lambda each: each.speedup)
            mine[best.pool] = mine.get(best.pool, 0) + 1
            if best.pool in room:
                room[best.pool] -= 1
    return {
        name: {fastest[name][pool].name: count for pool, count in mine.items() if count}
        for name, mine in counts.items()
    }
