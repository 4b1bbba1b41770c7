"""Keeps the forecast of mode Advise in a file beside what was learned, and tells of it."""

from __future__ import annotations

import json
from pathlib import Path

import structlog

from weir_operator.controller.guards import Guard
from weir_operator.controller.hypothesis import DAY, FIRST_TOLD_AFTER, Bill, Hypothesis, Seen
from weir_operator.controller.notices import Notices
from weir_operator.errors import WeirError
from weir_operator.runtime.files import read_if_present, write_atomically
from weir_policies.errors import StateError

log = structlog.get_logger()

SAVED_EVERY = 300.0
"""Seconds between two writes of the file: what a crash loses is no more than that."""


class Advisor:
    """Follows the advice of one StreamApp in thought."""

    def __init__(
        self, hypothesis: Hypothesis, path: Path, *, policy: str, reset_nonce: int
    ) -> None:
        """Begin with what the file holds, as far as it is of the same policy and nonce.

        Args:
            hypothesis: With nothing seen.
            path: The file.
            policy: Name of the operators' policy; a bill of another one is not gone on with.
            reset_nonce: The manifest's; a bill of before another one is not gone on with either.
        """
        self._hypothesis = hypothesis
        self._path = path
        self._key: dict[str, str | int] = {"policy": policy, "resetNonce": reset_nonce}
        self._saved_at = 0.0
        self._restore()
        self._told = self._count_told(hypothesis.bill)

    def follow(self, seen: Seen, guards: tuple[Guard, ...], notices: Notices) -> Bill:
        """Take a tick of mode Advise, and return the bill so far; a full disk only costs that."""
        bill = self._hypothesis.follow(seen, guards)
        if self._count_told(bill) != self._told:
            self._told = self._count_told(bill)
            notices.tell("SavingsForecast", bill.sentence)
        if not 0 <= seen.now - self._saved_at < SAVED_EVERY:  # also where the clock was set back
            self._saved_at = seen.now
            try:
                self._save()
            except WeirError as error:
                log.warning("forecast not saved", failure=str(error))
        return bill

    def let_go(self) -> None:
        """Leave mode Advise: the next time begins where the job then is."""
        self._hypothesis.let_go()

    def forget(self, reset_nonce: int) -> None:
        """Begin anew altogether.

        Raises:
            TemporaryError: The disk is full; the old file stands.
        """
        self._key["resetNonce"] = reset_nonce
        self._hypothesis.forget()
        self._told = 0
        self._save()

    def _count_told(self, bill: Bill) -> int:
        """Return how often a bill of that length has been told of: early, then once a day."""
        return int(bill.seconds >= FIRST_TOLD_AFTER) + int(bill.seconds // DAY)

    def _save(self) -> None:
        state = {**self._key, **self._hypothesis.state_dict()}
        write_atomically(self._path, json.dumps(state))

    def _restore(self) -> None:
        try:
            text = read_if_present(self._path)
            if text is None:
                return
            state = json.loads(text)
            if {name: state[name] for name in self._key} == self._key:
                self._hypothesis.load_state_dict(state)
        except (OSError, ValueError, KeyError, TypeError, StateError) as error:
            log.warning("forecast cannot be read, it begins anew", failure=str(error))
