"""Says of an objective that stays missed what is done about it, or why nothing helps. Pure.

One interval over the bound is part of any load. Three in a row, none of them disturbed by a change,
are something that people should hear of, also where Weir does nothing.
"""

from __future__ import annotations

import math

from weir_operator.loop.proposals import Proposal
from weir_operator.loop.tick import Tick
from weir_operator.metrics.quality import ProblemKind
from weir_operator.metrics.values import OperatorMeasurement
from weir_policies.kernels.wording import format_share, format_time
from weir_policies.model.estimation import WRONG
from weir_policies.policy import ChangeKind

MISSED = 3
"""Intervals in a row over the bound that are reported."""
UNEVEN = 0.3
"""Busy share by which replicas differ where their records are not spread evenly."""


class MissedObjective:
    """Counts the intervals that were over the bound."""

    def __init__(self) -> None:
        self._missed = 0
        self._sentences = ""

    def note(self, tick: Tick, bound: float) -> str:
        """Return what to say after a tick; empty where the objective is not missed for long.

        An interval in which nothing was decided changes nothing.

        Args:
            tick: What was measured and decided.
            bound: Of the response time, s.
        """
        if tick.violated is False:
            self._missed, self._sentences = 0, ""
        elif tick.violated and not tick.held:
            self._missed += 1
            if self._missed >= MISSED:
                self._sentences = describe_missed(tick, bound, self._missed)
        return self._sentences


def describe_missed(tick: Tick, bound: float, missed: int) -> str:
    """Return why the objective is missed and what is done about it, some sentences.

    Args:
        tick: The last one, in which the objective was missed and something was decided.
        bound: Of the response time, s.
        missed: How many intervals in a row were over it.
    """
    measured = tick.snapshot.end_to_end.mean
    seen = "nothing comes out" if math.isnan(measured) else f"{format_time(measured)} on average"
    said = [f"{missed} intervals in a row missed the bound of {format_time(bound)}: {seen}"]
    app = tick.snapshot.app
    if app is None or not tick.proposals:
        return said[0]
    # Of an operator that is to change, people hear first.
    changing = {
        name: each for name, each in tick.proposals.items() if each.kind is not ChangeKind.NOTHING
    }
    name = max(
        changing or tick.proposals,
        key=lambda each: _pressure(app.operators[each], tick.budgets.get(each)),
    )
    slow = {
        each.operator: each.sentence.removesuffix(".")
        for each in tick.snapshot.problems
        if each.kind is ProblemKind.SOURCE_BUSY_TIME
        and each.operator is not None
        and each.operator in tick.proposals
    }
    # Blame the slow source, not the operator behind it.
    name = next(iter(slow), name)
    operator, proposal = app.operators[name], tick.proposals[name]
    said.append(_describe_operator(operator, tick.budgets.get(name, math.nan)))
    busy = _known_shares(operator)
    if len(busy) > 1 and max(busy) - min(busy) > UNEVEN:
        said.append(
            f"Its records are not spread evenly: another replica is {format_share(min(busy))} "
            "busy. If many records share a key, more replicas do not help"
        )
    stays = proposal.kind is ChangeKind.NOTHING
    expected = proposal.decision.expectation.response_time
    if max(each.source_wait for each in app.operators.values()) > bound:
        said += [f"{app.backlog:,.0f} records wait at the sources", *slow.values()]
    elif stays and operator.response_time > WRONG * expected:
        said.append(f"The model expects {format_time(expected)}, so it is wrong here")
    said.append(_describe_action(proposal, tick.verdicts.get(name, "")))
    return ". ".join(said)


def _pressure(operator: OperatorMeasurement, budget: float | None) -> tuple[float, float]:
    """What an operator takes of its budget, then how busy it is; 0 where that is not known."""
    used = operator.response_time / budget if budget else math.nan
    return (0.0 if math.isnan(used) else used, max(_known_shares(operator), default=0.0))


def _known_shares(operator: OperatorMeasurement) -> list[float]:
    """Busy shares of the replicas that report one."""
    return [share for share in operator.utilisation if not math.isnan(share)]


def _describe_operator(operator: OperatorMeasurement, budget: float) -> str:
    if math.isnan(operator.response_time):
        takes = "has no measured response time"
    else:
        of = "" if math.isnan(budget) else f" of a budget of {format_time(budget)}"
        takes = f"takes {format_time(operator.response_time)}{of}"
    shares = _known_shares(operator)
    busy = f", and a replica is {format_share(max(shares))} busy" if shares else ""
    return f"{operator.name} {takes}{busy}"


def _describe_action(proposal: Proposal, verdict: str) -> str:
    if verdict.startswith("Granted"):
        return f"Weir changes it: {proposal.decision.reason}"
    if proposal.kind is not ChangeKind.NOTHING:
        return f"A change waits: {proposal.decision.reason}. {verdict}"
    return f"Weir changes nothing: {proposal.decision.reason}"
