"""Limits of restarts across proposals: EDF's token bucket, and the budget of the whole controller.

If `spec.applicationManager.arbitration.tokenBucket` is set, a rescale needs a token: a high one to
get faster or to move, a low one to get slower. High tokens come while the response time is near or
above its bound, low ones while it is far below. In between, there are no restarts. A token is spent
when the change is granted by all later checks, too. Tokens do not survive a restart of the
controller: a new bucket is empty, as at the beginning. Requests that conflict with a higher one
over the room in a pool are dropped first, so that no token waits for what cannot be.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 7; capacity and period are by default those of its section 9.

Each StreamApp has its own restart budget. The controller's budget limits what they do together,
for example after a change of the load that all of them see: restarting everything at once is an
outage of everything at once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from statistics import fmean

from weir_operator.clock import Clock
from weir_operator.loop.bounds import ScalingDirection, direction_of
from weir_operator.loop.proposals import Proposal
from weir_policies.application_manager.arbitration import count_added
from weir_policies.application_manager.edf import (
    Adaptation,
    AdaptationRequest,
    Token,
    TokenRules,
    Tokens,
    drop_conflicts,
    grant,
    token_for,
)
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.policy import ChangeKind


class SharedRestarts:
    """One bucket of tokens, handed to every Application Manager."""

    def __init__(self, budget: RestartBudget, *, clock: Clock) -> None:
        self._budget = budget
        self._clock = clock
        self._tokens = budget.fill(clock.monotonic())

    def refuse(self, *, urgent: bool) -> str | None:
        """Return why there may be no restart now, a clause; savings leave half for emergencies."""
        now = self._clock.monotonic()
        available = self._tokens.available(self._budget, now)
        kept = 0 if urgent else self._budget.size // 2
        if available > kept:
            return None
        wait = self._tokens.wait(self._budget, now)
        what = (
            "the restart budget for all StreamApps of this controller is empty"
            if available == 0
            else (
                f"the last {available} restarts for all StreamApps of this controller are "
                "reserved for changes that an objective needs"
            )
        )
        return f"{what}; the next token is available in {max(1.0, wait / 60):.0f} min"

    def take(self) -> None:
        """Pay for a restart; one that cannot wait is counted, and made even without a token."""
        now = self._clock.monotonic()
        if self._tokens.available(self._budget, now):
            self._tokens = self._tokens.take(self._budget, now)


TICKS_PER_TOKEN = 2
"""Intervals of the operators' managers from one token to the next, where `every` is not set."""

_KINDS = {
    ScalingDirection.OUT: Adaptation.SCALE_OUT,
    ScalingDirection.IN: Adaptation.SCALE_IN,
    ScalingDirection.ACROSS: Adaptation.MIGRATION,
}


class TokenGate:
    """The bucket of one StreamApp."""

    def __init__(self, rules: TokenRules) -> None:
        """Begin with an empty bucket; `rules` are in seconds of the bounded statistic."""
        self._rules = rules
        self._tokens = Tokens()
        self._seen: list[float] = []

    def note(self, response_time: float, now: float) -> None:
        """Take in the response time of an interval, s; NaN where it was not measured."""
        if not math.isnan(response_time):
            self._seen.append(response_time)
        before = self._tokens.generated_at
        mean = fmean(self._seen) if self._seen else math.nan
        self._tokens = self._tokens.generate(self._rules, response_time=mean, now=now)
        if self._tokens.generated_at != before:
            self._seen.clear()

    def refuse(
        self,
        wishes: Mapping[str, Proposal],
        move: AdaptationRequest | None = None,
        *,
        room: Mapping[str, int] | None = None,
    ) -> dict[str, str]:
        """Return why rescales find no token, by operator; those that find one are left out.

        A refused move is listed under its replica's name. `room` has the replicas that may be
        added, by pool with a limit.
        """
        requests = [
            _request(name, wish) for name, wish in wishes.items() if wish.kind is ChangeKind.RESCALE
        ]
        requests += [] if move is None else [move]
        placeable = drop_conflicts(requests, room or {})
        granted, _ = grant(placeable, self._tokens)
        return {
            each.replica or each.operator: self._describe_denial(each)
            if each in placeable
            else f"Denied: {_name_pools(each, room or {})} has no room beside more urgent proposals"
            for each in requests
            if each not in granted
        }

    def pay(self, granted: Collection[str]) -> None:
        """Spend a token for each of the restarts that are made after all."""
        self._tokens = replace(self._tokens, count=max(0, self._tokens.count - len(granted)))

    def _describe_denial(self, request: AdaptationRequest) -> str:
        needed = token_for(request.kind)
        side, bound = (
            ("above", self._rules.high) if needed is Token.HIGH else ("below", self._rules.low)
        )
        return (
            f"Denied: there is no {needed} token for a {request.kind}; one is "
            f"available when the response time of the last {self._rules.every:.0f} s "
            f"is {side} {bound * 1000:.0f} ms"
        )


def _name_pools(request: AdaptationRequest, room: Mapping[str, int]) -> str:
    return " or ".join(f"pool {pool}" for pool in request.places if pool in room)


def _request(name: str, wish: Proposal) -> AdaptationRequest:
    seen = wish.observation
    direction = direction_of(seen.deployment, wish.decision.target, seen.model.node_types)
    types = seen.model.node_types
    places = count_added(seen.deployment.per_pool(types), wish.decision.target.per_pool(types))
    return AdaptationRequest(
        operator=name,
        kind=_KINDS[direction],
        score=wish.decision.urgency,
        places=places,
    )
