"""What the loops keep from tick to tick and over their own end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from weir_operator.controller.acting import change_of
from weir_operator.controller.advising import Advisor
from weir_operator.controller.learned import LearnedStore
from weir_operator.controller.operator_manager import OperatorManager
from weir_operator.controller.proposals import Proposal, Ruling
from weir_operator.controller.records import DecisionRecord, Records
from weir_operator.errors import TemporaryError, WeirError
from weir_operator.status import StatusStore
from weir_policies.application_manager.restart_budget import RestartBudget, RestartTokens
from weir_simulator.fitting.samples import IntervalSample

STAND_IN = "queueing"
"""Policy that decides for operators whose own has not been trained yet: it needs no learning."""


class Memory:
    """Decision records, what was learned, restart tokens, and the forecast of mode Advise."""

    def __init__(
        self,
        *,
        policy: str,
        managers: Mapping[str, OperatorManager],
        restarts: RestartBudget,
        store: StatusStore,
        records: Records,
        learned: LearnedStore,
        advisor: Advisor,
        save_every: float,
    ) -> None:
        """Take over where things are kept.

        Args:
            policy: Name of the operators' policy, for the records.
            managers: What learns.
            restarts: How tokens refill.
            store: The status.
            records: Of decisions.
            learned: Of what was learned.
            advisor: Keeps the forecast.
            save_every: Seconds between two writes of what was learned: packing the tables of one
                planner takes some 10 ms, too much for every tick of a thousand StreamApps. A crash
                loses as much.
        """
        self._policy = policy
        self._managers = managers
        self._restarts = restarts
        self._store = store
        self._records = records
        self._learned = learned
        self.advisor = advisor
        self._save_every = save_every
        self._saved_at = -math.inf
        self._unrestored = ""  # why the file holds more than the managers know
        self._unsaved = ""

    def restore(self) -> None:
        """Give the managers what they had learned; a reset that came meanwhile is carried out.

        Where there is no room for it, they begin without, and the file is left for another time.
        """
        if self._learned.is_of_before_reset():
            self._records.forget_intervals()
        try:
            self._learned.restore(self._managers)
        except TemporaryError as error:
            self._unrestored = f"What was learned before is not in use: {error}"

    def save(self, now: float) -> str:
        """Keep what was learned up to now, Unix seconds; return why not, empty where it was."""
        self._saved_at = now
        self._unsaved = self._unrestored or self._try(lambda: self._learned.save(self._managers))
        return self._unsaved

    async def forget(self, nonce: int) -> None:
        """Begin anew: nothing learned or measured, no failed deployment, no full pool, no bill."""
        for manager in self._managers.values():
            manager.forget()
        self._unrestored = ""
        self._learned.begin_anew(nonce)
        # A file that cannot be replaced stands under the nonce before, and is not read again.
        self._unsaved = self._try(lambda: self._learned.save(self._managers))
        self._records.forget_intervals()
        self._try(lambda: self.advisor.forget(nonce))
        kept = self._store.load()
        await self._store.save(kept.model_copy(update={"failed": (), "full": ()}))

    def note_interval(self, sample: IntervalSample | None) -> None:
        """Keep what was measured, for whoever fits a model to it; `None` is nothing."""
        if sample is not None:
            self._records.note_interval(sample)

    def tokens(self, now: float) -> RestartTokens:
        """Return what is left of the restart budget."""
        kept = self._store.load().restart_tokens
        return RestartTokens.from_dict(kept) if kept else self._restarts.fill(now)

    def keep(self, tick: str, now: float, proposals: Mapping[str, Proposal], ruling: Ruling) -> str:
        """Keep what a tick decided, and now and then what was learned.

        Returns:
            Why what was learned could not be kept the last time; empty where it was.
        """
        if not 0 <= now - self._saved_at < self._save_every:  # also where the clock was set back
            self.save(now)
        self._records.write(
            DecisionRecord(
                id=f"{tick}-{name}",
                time=now,
                operator=name,
                policy=STAND_IN if self._managers[name].stood_in else self._policy,
                observation=proposal.observation,
                decision=proposal.decision,
                verdict=ruling.verdicts.get(name, ""),
                change=change_of(tick, proposal) if name in ruling.granted else None,
            )
            for name, proposal in proposals.items()
        )
        return self._unsaved

    @staticmethod
    def _try(store: Callable[[], None]) -> str:
        """Store something; return why that failed, empty where it did not."""
        try:
            store()
        except WeirError as error:  # a disk that is full, or that nobody may write to
            return str(error)
        return ""
