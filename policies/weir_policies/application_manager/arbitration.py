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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir_policies.application_manager.restart_budget import RestartBudget, RestartTokens
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
class OperatorState:
    """What arbitration must know of every operator, whether it proposes something or not."""

    replicas: Mapping[str, int]
    """Replicas per pool now."""
    saturated: bool
    """It is busy all the time, or its backlog grows: more records do not get through it."""
    downstream: tuple[str, ...] = ()
    """Operators that it feeds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposalVerdict:
    """What became of one proposal."""

    operator: str
    granted: bool
    reason: str
    """One sentence for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdicts:
    """What became of all proposals of a tick."""

    verdicts: tuple[ProposalVerdict, ...]
    """In the order of the requests."""
    restart: bool
    """Whether the granted ones restart the job."""
    tokens: RestartTokens
    """What is left of the restart budget."""

    @property
    def granted(self) -> tuple[str, ...]:
        """Names of the operators whose proposal was granted."""
        return tuple(verdict.operator for verdict in self.verdicts if verdict.granted)


RESERVE = 1
"""Tokens that savings leave for emergencies; no more than the bucket can spare."""


def arbitrate(
    requests: Sequence[Request],
    *,
    operators: Mapping[str, OperatorState],
    pool_limits: Mapping[str, int],
    tokens: RestartTokens,
    budget: RestartBudget,
    now: float,
) -> Verdicts:
    """Grant or deny what the operators propose.

    Args:
        requests: At most one per operator; proposals to stay are left out.
        operators: Every operator of the job, by name.
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
    denied = _deny_what_cannot_be(ranked, resized, operators, pool_limits)
    willing = [request for request in ranked if request.operator not in denied]
    tokens = tokens.refilled(budget, now)
    restart = bool(willing)
    if willing:
        refusal = _refuse_restart(willing, tokens, budget, now)
        if refusal is None:
            tokens = tokens.take(budget, now)
        else:
            restart = False
            denied |= {request.operator: refusal for request in willing}
    return Verdicts(
        verdicts=tuple(_verdict(request, denied, willing) for request in requests),
        restart=restart,
        tokens=tokens,
    )


def _deny_what_cannot_be(
    ranked: Sequence[Request],
    resized: set[str],
    operators: Mapping[str, OperatorState],
    pool_limits: Mapping[str, int],
) -> dict[str, str]:
    """Return why some rescales cannot be granted, whatever the tokens, by operator.

    `resized` are the operators that get more speed without a restart.
    """
    futile: dict[str, str] = {}
    required = {request.operator for request in ranked if request.required}
    while True:
        candidates = [request for request in ranked if request.operator not in futile]
        no_room = _deny_without_room(candidates, operators, pool_limits)
        rescaled = {
            request.operator
            for request in candidates
            if request.operator not in no_room and request.urgency >= NEEDED
        }
        found = {
            name: _blame(name, operators, rescaled | resized)
            for name in rescaled - required
            if _feeds_only_blocked(name, operators, rescaled | resized)
        }
        # Denying one frees room and may block others upstream: judge again until nothing changes.
        if not found:
            return futile | no_room
        futile |= found


def _deny_without_room(
    ranked: Sequence[Request],
    operators: Mapping[str, OperatorState],
    pool_limits: Mapping[str, int],
) -> dict[str, str]:
    """Return which rescales find a pool full when room is given out in order of rank."""
    held: dict[str, int] = {}
    for state in operators.values():
        for pool, count in state.replicas.items():
            held[pool] = held.get(pool, 0) + count
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


def _feeds_only_blocked(
    name: str, operators: Mapping[str, OperatorState], growing: set[str]
) -> bool:
    """Tell whether all that leaves the operator ends at one that is saturated and stays so."""
    downstream = operators[name].downstream
    return bool(downstream) and all(
        _is_blocked(follower, operators, growing) for follower in downstream
    )


def _is_blocked(name: str, operators: Mapping[str, OperatorState], growing: set[str]) -> bool:
    if operators[name].saturated and name not in growing:
        return True
    return _feeds_only_blocked(name, operators, growing)


def _blame(name: str, operators: Mapping[str, OperatorState], growing: set[str]) -> str:
    """Return the denial that names the saturated operators at the end."""
    blocked: list[str] = []
    onward = list(operators[name].downstream)
    while onward:
        follower = onward.pop(0)
        if operators[follower].saturated and follower not in growing:
            blocked.append(follower)
        else:
            onward.extend(operators[follower].downstream)
    named = " and ".join(dict.fromkeys(blocked))
    return f"its records go only to {named}, which is saturated and cannot grow in this interval"


def _refuse_restart(
    willing: Sequence[Request],
    tokens: RestartTokens,
    budget: RestartBudget,
    now: float,
) -> str | None:
    """Return why the restart cannot be paid, or `None`."""
    available = tokens.available(budget, now)
    urgent = any(request.urgency >= NEEDED for request in willing)
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


def _verdict(
    request: Request, denied: Mapping[str, str], willing: Sequence[Request]
) -> ProposalVerdict:
    if request.operator in denied:
        return ProposalVerdict(
            operator=request.operator, granted=False, reason=f"Denied: {denied[request.operator]}"
        )
    if request.kind is ChangeKind.RESIZE:
        reason = "Granted: a resize needs neither a restart nor a token"
    elif request is willing[0]:
        reason = "Granted: it takes one restart token"
    else:
        reason = f"Granted: it shares the restart of {willing[0].operator}"
    return ProposalVerdict(operator=request.operator, granted=True, reason=reason)
