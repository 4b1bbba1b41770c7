"""Forecasts cost and violations of a job that follows the advice of mode Advise.

A shadow deployment starts as the real one and follows its own decisions: at each tick, the model
predicts how it serves the measured load, the policy decides on that, and the Application Manager
rules with a separate restart budget. The results are added up by day, and stored in a file beside
what was learned (`Advisor`). Policies learn from the real job.

The model's forecast does not include the gap of a restart, or a backlog. Both costs are of the
whole job, JobManager included. Traffic varies over the day, so there is no figure per day before a
whole day was simulated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from weir_operator.errors import WeirError
from weir_operator.loop.arbitrate import ApplicationManager
from weir_operator.loop.decide import Managers
from weir_operator.loop.events import Notices
from weir_operator.loop.guards import Guard
from weir_operator.loop.proposals import Proposal, cut_all
from weir_operator.runtime.files import read_if_present, write_atomically
from weir_operator.runtime.protocol import Deployments
from weir_policies.application_manager.restart_budget import RestartTokens
from weir_policies.errors import StateError
from weir_policies.kernels.wording import format_money
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict
from weir_policies.policy import Observation

VERSION = 2
DAY = 86_400.0
DAYS_KEPT = 14
HOUR = 3600.0
FIRST_TOLD_AFTER = 900.0
"""Seconds of advice before which nothing is said of what it comes to: one restart in ten seconds is
no 8,640 a day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """What was paid and what would have been paid over some time."""

    seconds: float = 0.0
    """Time over which there was something to decide on."""
    paid: float = 0.0
    """Currency, for the job that ran."""
    advised: float = 0.0
    """Currency, for the one that was advised."""
    restarts: int = 0
    """That following the advice would have taken."""
    judged: int = 0
    """Intervals whose response time could be predicted."""
    violations: int = 0
    """Of those, the ones predicted above the bound."""

    def __add__(self, other: Bill) -> Bill:
        """Return both together."""
        return Bill(
            seconds=self.seconds + other.seconds,
            paid=self.paid + other.paid,
            advised=self.advised + other.advised,
            restarts=self.restarts + other.restarts,
            judged=self.judged + other.judged,
            violations=self.violations + other.violations,
        )

    @property
    def saved_a_day(self) -> float:
        """Currency per day; negative where the advice is dearer, NaN before a day was followed."""
        return (self.paid - self.advised) / self.seconds * DAY if self.seconds >= DAY else math.nan

    @property
    def sentence(self) -> str:
        """The forecast for people, or when there is one; empty before anything was seen."""
        if not self.seconds:
            return ""
        seen = _format_span(self.seconds)
        if self.seconds < FIRST_TOLD_AFTER:
            return (
                f"No forecast yet: Weir has simulated the advice for {seen}; it states "
                f"the cost after {_format_span(FIRST_TOLD_AFTER)}, and the cost per day "
                "after a day"
            )
        late = f"{self.violations / self.judged:.1%}" if self.judged else "an unknown share"
        if self.seconds < DAY:
            return (
                f"In the {seen} since the first advice, following it would have cost "
                f"{format_money(self.advised)} instead of {format_money(self.paid)}, with "
                f"{_format_restarts(self.restarts)} and {late} of intervals over the bound; "
                "Weir states the cost per day after a day"
            )
        daily = self.saved_a_day
        money = format_money(abs(daily))
        change = f"have saved {money}" if daily >= 0 else f"have cost {money} more"
        restarts = _format_restarts(self.restarts / self.seconds * DAY)
        return (
            f"Following the advice would {change} a day with {restarts} a day and {late} of "
            f"intervals over the bound (seen for {seen})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RealInterval:
    """What one tick of the real job brings."""

    now: float
    """Unix seconds."""
    length: float
    """Seconds since the tick before."""
    flow: Dataflow
    deployments: Deployments
    observations: Mapping[str, Observation]
    """Of all operators."""
    proposals: Mapping[str, Proposal]
    """Of those that may change."""
    violated: bool | None
    splits: Mapping[str, float] = field(default_factory=dict)
    """Partitions of the operators that are sources, NaN where unknown."""


class ShadowDeployment:
    """The job that follows the advice."""

    def __init__(
        self,
        managers: Managers,
        am: ApplicationManager,
        *,
        cost: Callable[[Deployments], float],
        paid: Callable[[], float] | None = None,
    ) -> None:
        """Begin with nothing seen.

        Args:
            managers: Of all operators. They have decided for the real job, and are only asked where
                the shadow differs.
            am: Rules on the hypothetical proposals, and knows the objective.
            cost: Returns what the job costs under Weir in these deployments, currency per hour,
                its JobManager included.
            paid: Returns what is paid for the real one, by the same rule; `None` for one that runs
                under Weir.
        """
        self._managers = managers
        self._am = am
        self._cost = cost
        self._paid = paid
        self._days: dict[int, Bill] = {}
        self._deployments: Deployments | None = None
        self._tokens: RestartTokens | None = None

    @property
    def bill(self) -> Bill:
        """The totals of the last days."""
        return sum(self._days.values(), Bill())

    def follow(self, seen: RealInterval, guards: tuple[Guard, ...]) -> Bill:
        """Take a tick and return the bill so far."""
        current = self._fit(seen.deployments)
        imagined = {
            name: self._imagine(each, current[name]) for name, each in seen.observations.items()
        }
        late = seen.violated
        if current != seen.deployments:
            late = self._is_late(imagined, seen.flow)
        tokens = self._tokens or self._am.restarts.fill(seen.now)
        ruling = self._am.rule(
            self._decide(imagined, seen),
            dataflow=seen.flow,
            current=current,
            failed=(),
            tokens=tokens,
            now=seen.now,
            guards=guards,
            observations=imagined,
        )
        hours = seen.length / HOUR
        paid = self._paid() if self._paid else self._cost(seen.deployments)
        # Before anything of the advice was followed it is the real job that is paid for.
        advised = paid if current == seen.deployments else self._cost(current)
        self._tokens = ruling.tokens
        self._deployments = ruling.target
        interval = Bill(
            seconds=seen.length,
            paid=paid * hours,
            advised=advised * hours,
            restarts=int(ruling.restart),
            judged=int(late is not None),
            violations=int(late is True),
        )
        self._add(seen.now, interval)
        return self.bill

    def release_replicas(self) -> None:
        """Begin at the real deployment again, next time; the bill stays."""
        self._deployments = self._tokens = None

    def forget(self) -> None:
        """Start over completely."""
        self.release_replicas()
        self._days = {}

    def state_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "version": VERSION,
            "deployments": self._deployments,
            "tokens": None if self._tokens is None else self._tokens.to_dict(),
            "days": {
                str(day): [b.seconds, b.paid, b.advised, b.restarts, b.judged, b.violations]
                for day, b in self._days.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; another version starts over."""
        if state.get("version") != VERSION:
            return
        self._deployments = state["deployments"]
        tokens = state["tokens"]
        self._tokens = None if tokens is None else RestartTokens.from_dict(tokens)
        self._days = {
            int(day): Bill(
                seconds=seconds,
                paid=paid,
                advised=advised,
                restarts=restarts,
                judged=judged,
                violations=violations,
            )
            for day, (seconds, paid, advised, restarts, judged, violations) in state["days"].items()
        }

    def _fit(self, deployments: Deployments) -> Deployments:
        """Return the shadow deployment for the operators and node types of the real one."""
        kept = self._deployments or {}
        fitted: dict[str, Mapping[str, int]] = {}
        for name, counts in deployments.items():
            types = {each.name for each in self._managers[name].model.node_types}
            mine = kept.get(name)
            scaled = self._managers[name].fixed is None
            fitted[name] = mine if mine and scaled and set(mine) <= types else dict(counts)
        return fitted

    def _imagine(self, real: Observation, counts: Mapping[str, int]) -> Observation:
        """Return the observation as the model has it in the hypothetical deployment."""
        types = real.model.node_types
        deployment = Deployment.from_named(counts, types)
        if deployment == real.deployment:
            return real
        prediction = predict(real.model, np.array([deployment.counts]), real.rate)
        busy = min(1.0, float(prediction.utilisation[0]))
        return replace(
            real,
            deployment=deployment,
            processed=real.rate,
            response_time=float(prediction.response_time[0]),
            utilisation=(busy,) * deployment.size,
            backlog=0.0,
            replica_ages=(max(real.replica_ages, default=0.0),) * deployment.size,
        )

    def _decide(
        self, imagined: Mapping[str, Observation], seen: RealInterval
    ) -> dict[str, Proposal]:
        """Return the proposals for the hypothetical job: real ones where nothing differs."""
        differing = [
            name for name in seen.proposals if imagined[name] is not seen.observations[name]
        ]
        again = cut_all(
            self._managers.imagine(imagined, seen.flow, differing=differing), imagined, seen.splits
        )
        return {name: again.get(name, real) for name, real in seen.proposals.items()}

    def _is_late(self, imagined: Mapping[str, Observation], flow: Dataflow) -> bool | None:
        """Return whether a path is predicted above its bound; `None` where it is not known."""
        times = {
            name: 0.0 if name in flow.sources and math.isnan(each.response_time)
            else each.response_time
            for name, each in imagined.items()
        }  # fmt: skip
        return self._am.sharing.exceeds(flow, times)

    def _add(self, now: float, bill: Bill) -> None:
        day = math.floor(now / DAY)
        self._days[day] = self._days.get(day, Bill()) + bill
        for old in sorted(self._days)[:-DAYS_KEPT]:
            del self._days[old]


def _format_restarts(number: float) -> str:
    figure = f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"
    return f"{figure} restart{'' if figure == '1' else 's'}"


def _format_span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"


log = structlog.get_logger()

SAVED_EVERY = 300.0
"""Seconds between two writes of the file: what a crash loses is no more than that."""


class Advisor:
    """Follows the advice of one StreamApp in thought."""

    def __init__(
        self, shadow: ShadowDeployment, path: Path, *, policy: str, reset_nonce: int
    ) -> None:
        """Begin with what the file holds, as far as it is of the same policy and nonce.

        Args:
            shadow: With nothing seen.
            path: The file.
            policy: Name of the operators' policy; a bill of another policy is not continued.
            reset_nonce: The manifest's; a bill from before a change of it is not continued either.
        """
        self._shadow = shadow
        self._path = path
        self._key: dict[str, str | int] = {"policy": policy, "resetNonce": reset_nonce}
        self._saved_at = 0.0
        self._restore()
        self._told = self._count_told(shadow.bill)

    def follow(self, seen: RealInterval, guards: tuple[Guard, ...], notices: Notices) -> Bill:
        """Take a tick of mode Advise, and return the bill so far; a full disk only costs that."""
        bill = self._shadow.follow(seen, guards)
        if self._count_told(bill) != self._told:
            self._told = self._count_told(bill)
            notices.report("SavingsForecast", bill.sentence)
        if not 0 <= seen.now - self._saved_at < SAVED_EVERY:  # also where the clock was set back
            self._saved_at = seen.now
            try:
                self._save()
            except WeirError as error:
                log.warning("forecast not saved", failure=str(error))
        return bill

    def release_replicas(self) -> None:
        """Leave mode Advise: the next time begins where the job then is."""
        self._shadow.release_replicas()

    def forget(self, reset_nonce: int) -> None:
        """Start over completely.

        Raises:
            TemporaryError: The disk is full; the old file stands.
        """
        self._key["resetNonce"] = reset_nonce
        self._shadow.forget()
        self._told = 0
        self._save()

    def _count_told(self, bill: Bill) -> int:
        """Return how often a forecast of that length has been reported: early, then once a day."""
        return int(bill.seconds >= FIRST_TOLD_AFTER) + int(bill.seconds // DAY)

    def _save(self) -> None:
        state = {**self._key, **self._shadow.state_dict()}
        write_atomically(self._path, json.dumps(state))

    def _restore(self) -> None:
        try:
            text = read_if_present(self._path)
            if text is None:
                return
            state = json.loads(text)
            if {name: state[name] for name in self._key} == self._key:
                self._shadow.load_state_dict(state)
        except (
            OSError,
            RecursionError,
            ValueError,
            KeyError,
            TypeError,
            StateError,
        ) as error:
            log.warning("forecast cannot be read, it starts over", failure=str(error))
