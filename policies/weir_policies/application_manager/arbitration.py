"""Grants or denies the operators' proposals of a tick. Pure: time and tokens are arguments.

1. Resizes are granted: they need no restart.
2. Rescales are ranked by urgency, then by savings. In that order, each is granted if its pools have
   room, unless its records go only to operators that are saturated and do not grow.
3. All granted rescales share one restart, which costs one token. An urgent rescale may take the
   last token; savings alone leave `RESERVE` tokens for emergencies. With an urgent one, savings are
   free. Without a token, all rescales are denied.

Room in a pool is what is left beside the running replicas: new replicas start before old ones stop,
so another operator can use what one gives up in the next tick.

The order by score follows the Application Manager of EDF (Cardellini, Lo Presti, Nardelli, Russo
Russo, Future Generation Computer Systems 2018), which restarts one operator at a time; Flink
restarts the whole job. Its conflicts are those over room in pools.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from weir_policies.application_manager.restart_budget import RestartBudget, RestartTokens
from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import NEEDED, ChangeKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What one operator proposes."""

    operator: str
    kind: ChangeKind
    current: Mapping[str, int]
    """Replicas per pool now."""
    target: Mapping[str, int]
    """Replicas per pool as proposed."""
    urgency: float
    """The decision's; from `NEEDED` on the objective is at risk."""
    saving: float
    """Currency per hour that the change saves; negative where it costs more."""
    required: bool = False
    """The operator cannot stay as it is, whatever becomes of its records."""

    @property
    def added(self) -> dict[str, int]:
        """Replicas that are new, per pool that grows."""
        return count_added(self.current, self.target)


def count_added(current: Mapping[str, int], target: Mapping[str, int]) -> dict[str, int]:
    """Return how many replicas a change adds, by pool that grows."""
    return {
        pool: count - current.get(pool, 0)
        for pool, count in target.items()
        if count > current.get(pool, 0)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdicts:
    """What became of all proposals of a tick."""

    sentences: Mapping[str, str]
    """One for people about each request, by operator."""
    granted: tuple[str, ...]
    """Names of the operators whose proposal was granted, in the order of the requests."""
    restart: bool
    """Whether the granted ones restart the job."""
    tokens: RestartTokens
    """What is left of the restart budget."""


RESERVE = 1
"""Tokens that savings leave for emergencies; no more than the bucket can spare."""


def arbitrate(
    requests: Sequence[Request],
    *,
    dataflow: Dataflow,
    held: Mapping[str, int],
    saturated: Collection[str],
    pool_limits: Mapping[str, int],
    tokens: RestartTokens,
    budget: RestartBudget,
    now: float,
) -> Verdicts:
    """Grant or deny what the operators propose.

    Args:
        requests: At most one per operator; proposals to stay are left out.
        dataflow: The operators of the job, and what each feeds.
        held: Replicas of all operators now, per pool.
        saturated: Operators that are busy all the time, or whose backlog grows: more records do not
            get through them.
        pool_limits: Most replicas over all operators, per pool that has a limit.
        tokens: What is left of the restart budget.
        budget: How it refills.
        now: Seconds on the clock of the tokens.
    """
    rescales = [request for request in requests if request.kind is ChangeKind.RESCALE]
    ranked = sorted(rescales, key=lambda request: (-request.urgency, -request.saving))
    resized = {
        request.operator
        for request in requests
        if request.kind is ChangeKind.RESIZE and request.urgency >= NEEDED
    }
    blocked = frozenset(saturated)
    denied = _deny_what_cannot_be(ranked, resized, dataflow, held, blocked, pool_limits)
    willing = [request for request in ranked if request.operator not in denied]
    tokens = tokens.refilled(budget, now)
    restart = bool(willing)
    if willing:
        urgent = any(request.urgency >= NEEDED for request in willing)
        refusal = refuse_restart(tokens, budget, now, urgent=urgent)
        if refusal is None:
            tokens = tokens.take(budget, now)
        else:
            restart = False
            denied |= {request.operator: refusal for request in willing}
    return Verdicts(
        sentences={request.operator: _word(request, denied, willing) for request in requests},
        granted=tuple(each.operator for each in requests if each.operator not in denied),
        restart=restart,
        tokens=tokens,
    )


def _deny_what_cannot_be(
    ranked: Sequence[Request],
    resized: set[str],
    dataflow: Dataflow,
    held: Mapping[str, int],
    saturated: frozenset[str],
    pool_limits: Mapping[str, int],
) -> dict[str, str]:
    """Return why some rescales cannot be granted, whatever the tokens, by operator.

    `resized` are the operators that get more speed without a restart.
    """
    futile: dict[str, str] = {}
    required = {request.operator for request in ranked if request.required}
    while True:
        candidates = [request for request in ranked if request.operator not in futile]
        no_room = _deny_without_room(candidates, held, pool_limits)
        rescaled = {
            request.operator
            for request in candidates
            if request.operator not in no_room and request.urgency >= NEEDED
        }
        stuck = saturated - rescaled - resized
        found = {
            name: _blame(name, dataflow, stuck)
            for name in rescaled - required
            if _feeds_only_blocked(name, dataflow, stuck)
        }
        # Denying one frees room and may block others upstream: judge again until nothing changes.
        if not found:
            return futile | no_room
        futile |= found


def _deny_without_room(
    ranked: Sequence[Request], replicas: Mapping[str, int], pool_limits: Mapping[str, int]
) -> dict[str, str]:
    """Return which rescales find a pool full when room is given out in order of rank."""
    held = dict(replicas)
    denied: dict[str, str] = {}
    for request in ranked:
        full = [
            pool
            for pool, added in request.added.items()
            if pool in pool_limits and held.get(pool, 0) + added > pool_limits[pool]
        ]
        if full:
            pool = full[0]
            denied[request.operator] = (
                f"pool {pool} is full: it has {held.get(pool, 0)} replicas, including those "
                f"granted in this interval, and {request.added[pool]} more would exceed its "
                f"limit of {pool_limits[pool]}"
            )
            continue
        for pool, added in request.added.items():
            held[pool] = held.get(pool, 0) + added
    return denied


def _feeds_only_blocked(name: str, dataflow: Dataflow, stuck: frozenset[str]) -> bool:
    """Tell whether all that leaves the operator ends at one that is saturated and stays so."""
    downstream = [edge.target for edge in dataflow.out_of(name)]
    return bool(downstream) and all(
        follower in stuck or _feeds_only_blocked(follower, dataflow, stuck)
        for follower in downstream
    )


def _blame(name: str, dataflow: Dataflow, stuck: frozenset[str]) -> str:
    """Return the denial that names the saturated operators at the end."""
    blocked: list[str] = []
    onward = [edge.target for edge in dataflow.out_of(name)]
    while onward:
        follower = onward.pop(0)
        if follower in stuck:
            blocked.append(follower)
        else:
            onward.extend(edge.target for edge in dataflow.out_of(follower))
    named = " and ".join(dict.fromkeys(blocked))
    return f"its records go only to {named}, which is saturated and cannot grow in this interval"


def refuse_restart(
    tokens: RestartTokens, budget: RestartBudget, now: float, *, urgent: bool
) -> str | None:
    """Return why a restart cannot be paid, a clause; `None` where it can."""
    available = tokens.available(budget, now)
    # A bucket of one token has none to spare: then savings may take it, or they never could.
    kept = 0 if urgent else min(RESERVE, budget.size - 1)
    if available > kept:
        return None
    until = _format_wait(tokens.wait(budget, now))
    if available == 0:
        today = len(tokens.restarts)
        if budget.max_per_day is not None and today >= budget.max_per_day:
            return f"all {budget.max_per_day} restarts allowed in 24 hours are used; {until}"
        return f"the restart budget is empty (applicationManager.restartBudget); {until}"
    return f"the last restart token is reserved for changes that the objective needs; {until}"


def _format_wait(seconds: float) -> str:
    if seconds == float("inf"):
        return "no further restart will be allowed"
    if seconds < 120:
        return f"the next is available in {seconds:.0f} s"
    return f"the next is available in {seconds / 60:.0f} min"


def _word(request: Request, denied: Mapping[str, str], willing: Sequence[Request]) -> str:
    if request.operator in denied:
        return f"Denied: {denied[request.operator]}"
    if request.kind is ChangeKind.RESIZE:
        return "Granted: a resize needs neither a restart nor a token"
    if request is willing[0]:
        return "Granted: it takes one restart token"
    return f"Granted: it shares the restart of {willing[0].operator}"
