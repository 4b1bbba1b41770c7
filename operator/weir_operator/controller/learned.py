"""What the managers have learned, kept in a file that outlives the controller.

A file that cannot be read is no reason not to run: what was learned is learned again, and the file
is kept beside the new one, because nothing that was learned is thrown away unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from weir_operator.controller.operator_manager import OperatorManager
from weir_operator.runtime.files import read_if_present, write_atomically
from weir_policies.errors import StateError

log = structlog.get_logger()

VERSION = 1


class LearnedStore:
    """The learned state of all operators of a StreamApp, one JSON file.

    State of another policy than the one in use, of other settings, or of before `resetNonce`
    changed, is not loaded: with a policy's tables it would bring back the settings they were
    learned under.
    """

    def __init__(
        self, path: Path, *, policy: str, settings: Mapping[str, Any], reset_nonce: int
    ) -> None:
        self._path = path
        self._key: dict[str, Any] = {
            "version": VERSION,
            "policy": policy,
            "settings": dict(settings),
            "resetNonce": reset_nonce,
        }

    def begin_anew(self, reset_nonce: int) -> None:
        """Take what was learned before for another's, from now on."""
        self._key["resetNonce"] = reset_nonce

    def is_of_before_reset(self) -> bool:
        """Return whether the file was written under another `resetNonce`."""
        try:
            text = read_if_present(self._path)
            if text is None:
                return False
            return bool(json.loads(text)["resetNonce"] != self._key["resetNonce"])
        except (OSError, ValueError, KeyError, TypeError):
            return False  # `load` tells what is wrong with it

    def save(self, managers: Mapping[str, OperatorManager]) -> None:
        """Replace the file in one step.

        Raises:
            TemporaryError: The disk is full; the old file stands.
        """
        states = {name: manager.state_dict() for name, manager in managers.items()}
        write_atomically(self._path, json.dumps({**self._key, "operators": states}))

    def restore(self, managers: Mapping[str, OperatorManager]) -> None:
        """Give every manager what it had learned; one whose state does not fit begins anew.

        Raises:
            TemporaryError: There is no room for the tables of one.
        """
        for name, state in self.load().items():
            if name not in managers:
                continue
            before = managers[name].state_dict()
            try:
                managers[name].load_state_dict(state)
            except (StateError, KeyError, TypeError, ValueError) as error:
                managers[name].load_state_dict(before)
                aside = self._put_aside()
                log.warning(
                    "learned state does not fit", operator=name, kept=aside, cause=str(error)
                )

    def load(self) -> dict[str, dict[str, Any]]:
        """Return the state per operator; empty where there is none that fits."""
        try:
            text = read_if_present(self._path)
            if text is None:
                return {}
            kept = json.loads(text)
            if {name: kept[name] for name in self._key} != self._key:
                return {}
            states: dict[str, dict[str, Any]] = kept["operators"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("learned state cannot be read", kept=self._put_aside(), failure=str(error))
            return {}
        return states

    def _put_aside(self) -> str:
        """Give the file another name, because the next tick writes it anew; return its path."""
        aside = self._path.with_suffix(".unreadable")
        if self._path.exists():  # a second operator's state that does not fit is in the same file
            self._path.replace(aside)
        return str(aside)
