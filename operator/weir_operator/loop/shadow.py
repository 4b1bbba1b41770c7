"""Forecasts cost and violations of a job that follows the advice of mode Advise.

A shadow deployment starts as the real one and follows its own decisions: at each tick, the model
predicts how it serves the measured load, the policy decides on that, and the Application Manager
rules with a separate restart budget. The results are added up by day, and stored in a file beside
what was learned. Policies learn from the real job.

The model's forecast does not include the gap of a restart, or a backlog. Both costs are of the
whole job, JobManager included. Traffic varies over the day, so there is no figure per day before a
whole day was simulated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import structlog

from weir_operator.errors import WeirError
from weir_operator.loop.arbitrate import ApplicationManager
from weir_operator.loop.decide import Managers
from weir_operator.loop.events import Notices
from weir_operator.loop.proposals import Proposal, cut_all
from weir_operator.loop.tick import DAY, FIRST_TOLD_AFTER, HOUR, Bill, Tick
from weir_operator.runtime.files import read_if_present, write_atomically
from weir_operator.runtime.protocol import Deployments
from weir_policies.application_manager.restart_budget import RestartTokens
from weir_policies.errors import StateError
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict
from weir_policies.policy import Observation

log = structlog.get_logger()

VERSION = 2
DAYS_KEPT = 14
SAVED_EVERY = 300.0
"""Seconds between two writes of the file: what a crash loses is no more than that."""


class Advisor:
    """Follows the advice of one StreamApp in thought, by a shadow deployment."""

    def __init__(
        self,
        managers: Managers,
        am: ApplicationManager,
        path: Path,
        *,
        policy: str,
        reset_nonce: int,
        cost: Callable[[Deployments], float],
        paid: Callable[[], float] | None = None,
    ) -> None:
        """Begin with what the file holds, as far as it is of the same policy and nonce.

        Args:
            managers: Of all operators. They have decided for the real job, and are only asked where
                the shadow differs.
            am: Rules on the hypothetical proposals, and knows the objective.
            path: The file.
            policy: Name of the operators' policy; a bill of another policy is not continued.
            reset_nonce: The manifest's; a bill from before a change of it is not continued either.
            cost: Returns what the job costs under Weir in these deployments, currency per hour,
                its JobManager included.
            paid: Returns what is paid for the real one, by the same rule; `None` for one that runs
                under Weir.
        """
        self._managers = managers
        self._am = am
        self._path = path
        self._key: dict[str, str | int] = {"policy": policy, "resetNonce": reset_nonce}
        self._cost = cost
        self._paid = paid
        self._days: dict[int, Bill] = {}
        self._deployments: Deployments | None = None
        self._tokens: RestartTokens | None = None
        self._saved_at = 0.0
        self._restore()
        self._told = self._count_told(self.bill)

    @property
    def bill(self) -> Bill:
        """The totals of the last days."""
        return sum(self._days.values(), Bill())

    def follow(self, tick: Tick, flow: Dataflow, notices: Notices) -> Bill:
        """Take a tick of mode Advise, and return the bill so far; a full disk only costs that."""
        snapshot, real = tick.snapshot, tick.deployments
        current, now = self._fit(real), snapshot.now
        imagined = {
            name: self._imagine(each, current[name]) for name, each in tick.observations.items()
        }
        late = tick.violated
        if current != real:
            late = self._is_late(imagined, flow)
        ruling = self._am.rule(
            self._decide(imagined, tick, flow),
            dataflow=flow,
            current=current,
            failed=(),
            tokens=self._tokens or self._am.restarts.fill(now),
            now=now,
            guards=tick.asked_guards,
            observations=imagined,
        )
        seconds = now - snapshot.start
        hours = seconds / HOUR
        paid = self._paid() if self._paid else self._cost(real)
        # Before anything of the advice was followed it is the real job that is paid for.
        advised = paid if current == real else self._cost(current)
        self._tokens = ruling.tokens
        self._deployments = ruling.target
        interval = Bill(
            seconds=seconds,
            paid=paid * hours,
            advised=advised * hours,
            restarts=int(ruling.restart),
            judged=int(late is not None),
            violations=int(late is True),
        )
        self._add(now, interval)
        bill = self.bill
        if self._count_told(bill) != self._told:
            self._told = self._count_told(bill)
            notices.report("SavingsForecast", bill.sentence)
        if not 0 <= now - self._saved_at < SAVED_EVERY:  # also where the clock was set back
            self._saved_at = now
            try:
                self._save()
            except WeirError as error:
                log.warning("forecast not saved", failure=str(error))
        return bill

    def release_replicas(self) -> None:
        """Leave mode Advise: the next time begins where the job then is; the bill stays."""
        self._deployments = self._tokens = None

    def forget(self, reset_nonce: int) -> None:
        """Start over completely.

        Raises:
            TemporaryError: The disk is full; the old file stands.
        """
        self._key["resetNonce"] = reset_nonce
        self.release_replicas()
        self._days, self._told = {}, 0
        self._save()

    def _fit(self, deployments: Deployments) -> Deployments:
        kept = self._deployments or {}
        fitted: dict[str, Mapping[str, int]] = {}
        for name, counts in deployments.items():
            types = {each.name for each in self._managers[name].model.node_types}
            mine = kept.get(name)
            scaled = self._managers[name].fixed is None
            fitted[name] = mine if mine and scaled and set(mine) <= types else dict(counts)
        return fitted

    def _imagine(self, real: Observation, counts: Mapping[str, int]) -> Observation:
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
        self, imagined: Mapping[str, Observation], tick: Tick, flow: Dataflow
    ) -> dict[str, Proposal]:
        """Return the proposals for the hypothetical job: real ones where nothing differs."""
        differing = [
            name for name in tick.proposals if imagined[name] is not tick.observations[name]
        ]
        again = cut_all(
            self._managers.imagine(imagined, flow, differing=differing),
            imagined,
            tick.splits,
        )
        return {name: again.get(name, real) for name, real in tick.proposals.items()}

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

    def _count_told(self, bill: Bill) -> int:
        """Return how often a forecast of that length has been reported: early, then once a day."""
        return int(bill.seconds >= FIRST_TOLD_AFTER) + int(bill.seconds // DAY)

    def _save(self) -> None:
        state = {
            **self._key,
            "version": VERSION,
            "deployments": self._deployments,
            "tokens": None if self._tokens is None else self._tokens.to_dict(),
            "days": {str(day): astuple(bill) for day, bill in self._days.items()},
        }
        write_atomically(self._path, json.dumps(state))

    def _restore(self) -> None:
        try:
            text = read_if_present(self._path)
            if text is None:
                return
            state = json.loads(text)
            is_other = {name: state[name] for name in self._key} != self._key
            if is_other or state.get("version") != VERSION:
                return
            tokens = None if state["tokens"] is None else RestartTokens.from_dict(state["tokens"])
            days = {int(day): Bill.from_figures(figures) for day, figures in state["days"].items()}
            self._deployments, self._tokens, self._days = state["deployments"], tokens, days
        except (
            OSError,
            RecursionError,
            ValueError,
            KeyError,
            TypeError,
            StateError,
        ) as error:
            log.warning("forecast cannot be read, it starts over", failure=str(error))
