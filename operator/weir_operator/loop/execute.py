"""Executes what was granted, and judges it afterwards by its result.

What is granted is carried out in a task of its own, parallel to the ticks: resizes at once,
everything else in one restart. A change whose metrics are worse than expected is remembered as
failed, and the caller is told to roll it back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import structlog

from weir_operator.errors import WeirError, describe_unexpected
from weir_operator.loop.events import Notices
from weir_operator.loop.lifecycle import Lifecycle
from weir_operator.loop.proposals import Proposal, Ruling
from weir_operator.loop.verify import ChangeSoFar, MeasuredInterval, Verdict, judge_change
from weir_operator.rescale.journal import RescaleJournal, Step
from weir_operator.rescale.status import StatusStore, add_failed
from weir_operator.runtime.protocol import Deployments
from weir_policies.application_manager.restart_budget import RestartTokens
from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import ChangeKind, Observation

log = structlog.get_logger()

FAILED_FOR = 1800.0
"""Seconds for which a deployment that did worse is not tried again."""
REFUSED_FOR = 300.0
"""Seconds for which sizes that nodes refused are not asked for again without a restart."""


class ChangeExecutor:
    """Does what one ruling at a time grants, for one StreamApp."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        store: StatusStore,
        *,
        buy: Callable[[RestartTokens, float], RestartTokens | None],
        notices: Notices,
    ) -> None:
        self._lifecycle = lifecycle
        self._store = store
        self._buy = buy
        self._notices = notices
        self._clock = notices.clock
        self._task: asyncio.Task[None] | None = None
        self._judged: tuple[RescaleJournal, ChangeSoFar] | None = None
        """A change that runs and has not yet been judged."""
        self._undone: RescaleJournal | None = None

    @property
    def is_acting(self) -> bool:
        """Whether something is under way."""
        return self._task is not None and not self._task.done()

    def begin(self, ruling: Ruling) -> None:
        """Begin what is granted and return; nothing may be under way."""
        # What it left is gone, so it cannot be judged any more, nor taken back.
        self._judged = self._undone = None
        self._task = asyncio.create_task(self._act(ruling))

    async def finish(self) -> None:
        """Wait for what is under way."""
        if self._task is not None:
            await self._task

    async def judge(self, interval: MeasuredInterval, now: float) -> RescaleJournal | None:
        """Return the last change if the metrics say that it must be taken back.

        It is returned again until something is begun: what holds it back may pass.
        """
        if self._undone is not None and self._undone.target != self._store.load().deployments:
            self._undone = None  # the job is elsewhere by now
        if self._judged is None:
            return self._undone
        journal, change = self._judged
        change = replace(change, since=(*change.since, interval))
        verdict, reason = judge_change(change)
        if verdict is Verdict.WAIT:
            self._judged = journal, change
            return None
        self._judged = None
        if verdict is Verdict.KEEP:
            return None
        self._notices.report("ChangeDidWorse", reason)
        await self._note_failed(journal.target, reason, now)
        self._undone = journal
        return journal

    async def _act(self, ruling: Ruling) -> None:
        """Resize what only needs that, then take all the rest in one restart."""
        try:
            status = self._store.load()
            tokens = ruling.tokens.to_dict()
            await self._store.save(status.model_copy(update={"restart_tokens": tokens}))
            resized = _only_resizes(ruling, status.deployments)
            refused = ""
            if resized != status.deployments:
                refused = await self._lifecycle.resize(resized, _resize_id(ruling.id))
            restart = ruling.restart or (bool(refused) and await self._afford(ruling, resized))
            move = ruling.move
            if restart and (move or ruling.target != self._store.load().deployments):
                reasons = [
                    f"{name}: {ruling.proposals[name].decision.reason}"
                    for name in ruling.granted
                    if name in ruling.proposals
                ]
                if refused:
                    reasons.append(
                        f"restarted, because the nodes refused to resize in place ({refused})"
                    )
                end = await self._lifecycle.change(
                    ruling.target,
                    ruling.reason or "; ".join(reasons),
                    ruling.id,
                    resize_refused=bool(refused),
                    replace=(move.replica,) if move else (),
                    avoid=(move.node,) if move else (),
                    vertices=ruling.vertices,
                )
                if end.disturbed:
                    await self._give_back(status.restart_tokens)
                elif ruling.vertices is not None and end.step is not Step.DONE:
                    reason = end.failure or end.reason
                    await self._note_failed(end.target, reason, self._clock.now())
                if end.step is Step.DONE and ruling.change is not None:
                    self._judged = end, ruling.change
        except WeirError as error:
            self._notices.report("ChangeFailed", str(error))
        except Exception as error:  # the next check goes on with the change, or ends the run by it
            log.exception("unexpected error in a change")
            self._notices.report("ChangeFailed", describe_unexpected(error))

    async def _give_back(self, tokens: dict[str, Any]) -> None:
        """Undo the payment of a restart that did not come about, because the job failed before."""
        status = self._store.load()
        await self._store.save(status.model_copy(update={"restart_tokens": tokens}))

    async def _note_failed(self, target: Deployments, reason: str, now: float) -> None:
        """Record what failed or did worse, so that Weir does not try it again for a while."""
        status = self._store.load()
        failed = add_failed(status.failed, target, first=FAILED_FOR, reason=reason, now=now)
        await self._store.save(status.model_copy(update={"failed": failed}))

    async def _afford(self, ruling: Ruling, resized: Deployments) -> bool:
        """Pay for the restart that a refused resize becomes; what cannot be paid waits a while."""
        now, status = self._clock.now(), self._store.load()
        tokens = self._buy(ruling.tokens, now)
        if tokens is not None:
            kept: dict[str, object] = {"restart_tokens": tokens.to_dict()}
        else:
            reason = "the nodes refused to resize in place, and the restart budget is empty"
            self._notices.report("ResizeWaits", reason[:1].upper() + reason[1:])
            wait = REFUSED_FOR
            known = add_failed(
                status.failed, resized, first=wait, reason=reason, now=now, longest=wait
            )
            kept = {"failed": known}
        await self._store.save(status.model_copy(update=kept))
        return tokens is not None


def change_of(ruling_id: str, proposal: Proposal) -> str:
    """Return the id of the change that a granted proposal becomes part of."""
    return _resize_id(ruling_id) if proposal.kind is ChangeKind.RESIZE else ruling_id


def _resize_id(ruling_id: str) -> str:
    return f"{ruling_id}r"


def expect_response(
    granted: Collection[str],
    proposals: Mapping[str, Proposal],
    flow: Dataflow,
    observations: Mapping[str, Observation],
) -> float:
    """Return the response time of the longest path that the granted change should give, seconds.

    Operators that do not change are expected to go on as they were measured.
    """
    times = {}
    for name in flow.operators:
        if name in granted and name in proposals:
            times[name] = proposals[name].decision.expectation.response_time
        else:
            known = observations[name].response_time
            times[name] = 0.0 if math.isnan(known) else known  # a source has none
    return flow.response_time(times)


def _only_resizes(ruling: Ruling, current: Deployments) -> Deployments:
    return {
        name: ruling.target[name]
        if name in ruling.proposals and ruling.proposals[name].kind is ChangeKind.RESIZE
        else counts
        for name, counts in current.items()
    }
