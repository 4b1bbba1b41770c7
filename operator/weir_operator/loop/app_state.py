"""State of the loops from tick to tick, and beyond their end.

What the managers have learned is stored in a file that survives the controller (`LearnedStore`). If
the file cannot be read, the loops still run: they learn from scratch, and the file is moved aside
and reported.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from pydantic_core import from_json, to_json

from weir_operator.errors import WeirError
from weir_operator.loop.arbitrate import BudgetSharing
from weir_operator.loop.decide import Managers, State
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.execute import change_of
from weir_operator.loop.proposals import Proposal, Ruling
from weir_operator.loop.record import DecisionRecord, LoopStart, TolerantRecords
from weir_operator.loop.shadow import Advisor
from weir_operator.rescale.status import StatusStore
from weir_operator.runtime.files import read_bytes_if_present, write_atomically
from weir_policies.application_manager.restart_budget import RestartBudget, RestartTokens
from weir_policies.errors import StateError

log = structlog.get_logger()

VERSION = 1
SAVED_EVERY = 10
"""Intervals between two writes of what was learned, which a crash loses; the end of the loops
writes it, too."""


class LearnedStore:
    """The learned state of all operators of a StreamApp, one JSON file.

    What a policy has learned that decides for all of them at once is kept once, beside them, and so
    is the measured tail of the response time: budgets must not change with a restart.

    State is kept with the vertices that an operator is made of, and goes to the operator that has
    these now.

    State of another policy than the one in use, of other settings, or of before `resetNonce`
    changed, is not loaded: with a policy's tables it would bring back the settings they were
    learned under.
    """

    def __init__(
        self,
        path: Path,
        *,
        policy: str,
        settings: Mapping[str, Any],
        reset_nonce: int,
        sharing: BudgetSharing,
        vertices: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._path = path
        self._sharing = sharing
        self._vertices = {name: list(parts) for name, parts in (vertices or {}).items()}
        self._lock = threading.Lock()  # held while the file is written
        self._saves = 0
        self._written = 0  # which of the saves the file is of
        self._key: dict[str, Any] = {
            "version": VERSION,
            "policy": policy,
            "settings": dict(settings),
            "resetNonce": reset_nonce,
        }

    def begin_anew(self, reset_nonce: int) -> None:
        """Take what was learned before for another's, from now on."""
        self._key["resetNonce"] = reset_nonce
        self._sharing.forget()

    def is_of_before_reset(self) -> bool:
        """Return whether the file was written under another `resetNonce`."""
        try:
            content = read_bytes_if_present(self._path)
            if content is None:
                return False
            return bool(from_json(content)["resetNonce"] != self._key["resetNonce"])
        except (OSError, ValueError, KeyError, TypeError):
            return False  # `load` reports what is wrong with it

    def save(self, managers: Managers) -> None:
        """Replace the file in one step.

        Raises:
            TemporaryError: The disk is full; the old file stands.
        """
        self.prepare_save(managers)()

    def prepare_save(self, managers: Managers) -> Callable[[], None]:
        """Return the part of `save` that waits for the disk, for a thread to do.

        It writes what the managers know now, unless something newer was saved in the meantime.
        """
        self._saves += 1
        states = {name: manager.state_dict() for name, manager in managers.items()}
        learned: dict[str, Any] = {
            **self._key,
            "operators": states,
            "vertices": self._vertices,
            "sharing": self._sharing.state_dict(),
        }
        application = managers.application_state()
        if application is not None:
            learned["application"] = application
        return partial(self._write, self._saves, to_json(learned))

    def _write(self, number: int, content: bytes) -> None:
        with self._lock:
            if number < self._written:
                return  # the thread was late
            write_atomically(self._path, content)
            self._written = number

    def restore(self, managers: Managers) -> None:
        """Give every manager what it had learned; one whose state does not fit starts over."""
        kept = self._read()
        for former, state in kept.get("operators", {}).items():
            name = self._find_successor(former, kept.get("vertices", {}).get(former))
            if name in managers:
                own = managers[name]
                self._try_to_load(name, own.state_dict(), state, own.load_state_dict)
        before = managers.application_state()
        if before is not None and "application" in kept:
            load = managers.load_application_state
            self._try_to_load("all of them", before, kept["application"], load)
        if "sharing" in kept:
            shared = self._sharing
            self._try_to_load(
                "budgets", shared.state_dict(), kept["sharing"], shared.load_state_dict
            )

    def _find_successor(self, former: str, vertices: list[str] | None) -> str:
        if not vertices or not self._vertices:
            return former  # the manifest alone says what an operator is
        return next((name for name, own in self._vertices.items() if own == vertices), "")

    def _try_to_load(
        self, whose: str, before: State, state: State, load: Callable[[State], None]
    ) -> None:
        try:
            load(state)
        except (StateError, KeyError, TypeError, ValueError) as error:
            load(before)
            aside = self._put_aside()
            log.warning("learned state does not fit", operator=whose, kept=aside, cause=str(error))

    def _read(self) -> dict[str, Any]:
        try:
            content = read_bytes_if_present(self._path)
            if content is None:
                return {}
            kept = from_json(content)
            if kept["version"] != VERSION:
                log.warning(
                    "learned state is of another version of Weir, so policies learn again: install "
                    "that version to use it",
                    kept=self._put_aside(),
                )
                return {}
            if {name: kept[name] for name in self._key} != self._key:
                return {}
            found: dict[str, Any] = {
                "operators": kept["operators"],
                "vertices": kept.get("vertices", {}),
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("learned state cannot be read", kept=self._put_aside(), failure=str(error))
            return {}
        return found | {name: kept[name] for name in ("application", "sharing") if name in kept}

    def _put_aside(self) -> str:
        """Give the file another name, because the next tick writes it again; return its path."""
        aside = self._path.with_suffix(".unreadable")
        try:
            if self._path.exists():  # another operator's state that does not fit may be in it, too
                self._path.replace(aside)
        except OSError as error:
            log.warning("learned state cannot be put aside", path=str(aside), failure=str(error))
            return str(self._path)
        return str(aside)


FALLBACK_POLICY = "queueing"
"""Policy that decides for operators whose own has not been trained yet: it needs no learning."""


class AppState:
    """Decision records, what was learned, restart tokens, and the forecast of mode Advise."""

    def __init__(
        self,
        *,
        managers: Managers,
        restarts: RestartBudget,
        store: StatusStore,
        records: TolerantRecords,
        learned: LearnedStore,
        advisor: Advisor,
        settings: LoopSettings,
        start: LoopStart,
    ) -> None:
        """Create it for one StreamApp; the time of `start` is that of `restore`.

        What was learned is not written at every tick: packing the tables of one planner takes
        milliseconds. A crash loses as much. By the `phase` of the settings, StreamApps that start
        together write at different times; without one, the first tick writes.
        """
        self._managers = managers
        self._restarts = restarts
        self._store = store
        self.records = records
        """Of decisions."""
        self._learned = learned
        self.advisor = advisor
        self._save_every = SAVED_EVERY * settings.interval
        self._phase = settings.phase
        self._start = start
        self._saved_at = -math.inf
        self._unsaved = ""

    def restore(self, now: float) -> None:
        """Give the managers what they had learned; carry out a reset that came in the meantime."""
        if self._learned.is_of_before_reset():
            self.records.forget_intervals()
        self._learned.restore(self._managers)
        if self._phase is not None:
            self._saved_at = now - (1 - self._phase) * self._save_every
        self.records.write([replace(self._start, time=now)])

    def save(self, now: float) -> str:
        """Keep what was learned up to now, Unix seconds; return why not, empty where it was."""
        self._saved_at = now
        self._unsaved = self._try(lambda: self._learned.save(self._managers))
        return self._unsaved

    async def save_if_due(self, now: float) -> str:
        """Keep what was learned if that was long ago; nobody decides meanwhile.

        Returns:
            Why it could not be kept the last time; empty where it was.
        """
        if not 0 <= now - self._saved_at < self._save_every:  # also where the clock was set back
            self._saved_at = now
            self._unsaved = await asyncio.to_thread(
                self._try, self._learned.prepare_save(self._managers)
            )
        return self._unsaved

    async def forget(self, nonce: int) -> None:
        """Start over: nothing learned or measured, no failed deployment, no full pool, no bill."""
        self._managers.forget()
        self._learned.begin_anew(nonce)
        # A file that cannot be replaced stands under the nonce before, and is not read again.
        self._unsaved = self._try(lambda: self._learned.save(self._managers))
        self.records.forget_intervals()
        self._try(lambda: self.advisor.forget(nonce))
        kept = self._store.load()
        await self._store.save(kept.model_copy(update={"failed": (), "full": ()}))

    def tokens(self, now: float) -> RestartTokens:
        """Return what is left of the restart budget."""
        kept = self._store.load().restart_tokens
        return RestartTokens.from_dict(kept) if kept else self._restarts.fill(now)

    def decisions(
        self, now: float, proposals: Mapping[str, Proposal], ruling: Ruling
    ) -> tuple[DecisionRecord, ...]:
        """Return what a tick decided, as it is stored."""
        return tuple(
            DecisionRecord(
                id=f"{ruling.id}-{name}",
                time=now,
                operator=name,
                policy=FALLBACK_POLICY
                if self._managers.uses_fallback_policy(name)
                else self._start.policy,
                observation=proposal.observation,
                decision=proposal.decision,
                verdict=ruling.verdicts.get(name, ""),
                change=change_of(ruling.id, proposal) if name in ruling.granted else None,
            )
            for name, proposal in proposals.items()
        )

    @staticmethod
    def _try(store: Callable[[], None]) -> str:
        """Store something; return why that failed, empty where it did not."""
        try:
            store()
        except WeirError as error:  # a disk that is full, or that nobody may write to
            return str(error)
        return ""
