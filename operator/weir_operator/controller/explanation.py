"""What a decision record, its change and what was seen next say together. Pure reading."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import TypeAdapter

from weir_operator.controller.records import DecisionRecord, RecordStore
from weir_operator.controller.tuning_store import TuningState, Version
from weir_operator.errors import PermanentError
from weir_operator.rescale.journal import RescaleJournal


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """One decision from what was seen to what came of it."""

    record: DecisionRecord
    change: RescaleJournal | None
    """The change that it was part of, as far as that came."""
    tuning: Version | None = None
    """The tuning that its weights and budget come from; `None` where nothing was tuned."""
    following: DecisionRecord | None
    """The same operator's next decision, whose observation is what happened; `None` as yet."""

    @property
    def surprise(self) -> float:
        """Measured over expected response time; NaN where either is unknown."""
        if self.following is None:
            return math.nan
        expected = self.record.decision.expectation.response_time
        return self.following.observation.response_time / expected if expected else math.nan


def explain_at(
    records: RecordStore,
    *,
    until: float,
    operator: str | None,
    tunings: TuningState | None = None,
) -> tuple[Explanation, ...]:
    """Return the newest decision of each operator up to a Unix time.

    Args:
        records: Of the StreamApp.
        until: Unix seconds.
        operator: The only one, or `None` for all.
        tunings: Of the StreamApp; `None` where nothing was tuned.

    Raises:
        PermanentError: There is none, or the operator is not known.
    """
    found = records.decisions(until=until, operator=operator)
    if not found:
        known = [record.operator for record in records.decisions()]
        what = f"of operator {operator!r} (known: {', '.join(known)})" if operator else ""
        raise PermanentError(
            f"Expected a decision {what} up to that time, found none: choose a later --at"
        )
    return tuple(
        Explanation(
            record=record,
            change=records.change(record.change) if record.change else None,
            tuning=_find_tuning(record, tunings),
            following=records.following(record),
        )
        for record in found
    )


def _find_tuning(record: DecisionRecord, tunings: TuningState | None) -> Version | None:
    """Return the version whose weights the decision was taken with, the last one before it."""
    taken = [
        each
        for each in (tunings.versions if tunings else ())
        if each.since <= record.time and each.tuned.weights == record.observation.weights
    ]
    return taken[-1] if taken else None


_PLAIN = TypeAdapter(Explanation)


def to_plain(explanation: Explanation) -> object:
    """Return the explanation as JSON values; what is unknown is null."""
    return _PLAIN.dump_python(explanation, mode="json")
