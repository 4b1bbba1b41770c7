"""What was kept of a job before the controller, or beside it: a seam, and what is made of it.

Whoever starts the controller knows where history lies and how it is read; here it is a value. It
is an aid: where there is none, or it cannot be read, the loops go on with what they measure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from weir_operator.errors import TemporaryError
from weir_operator.metrics.names import mangle
from weir_policies.model.season import Season
from weir_simulator.errors import FitError
from weir_simulator.fitting.fit import Fit, fit
from weir_simulator.fitting.history import History, fit_history
from weir_simulator.fitting.samples import Samples
from weir_simulator.fitting.structure import Structure


class HistorySource(Protocol):
    """Where the history of all jobs lies. Its calls block: threads make them."""

    def read(self, app: str, *, operators: Collection[str], node_types: Collection[str]) -> History:
        """Return what is kept of an application, as its label `weir_app` has it.

        Raises:
            TemporaryError: Nothing is kept of it, or it cannot be read; says why.
        """
        ...

    def seasons(self, app: str) -> Mapping[str, Season]:
        """Return what usually arrives at its operators; empty where that is not known.

        Raises:
            TemporaryError: It cannot be read.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What is kept of one job."""

    source: HistorySource
    app: str
    """`namespace/name` of the StreamApp."""

    def read(self, structure: Structure, *, since: float) -> History:
        """Return what is kept of it after a Unix time.

        Raises:
            TemporaryError: Nothing is.
        """
        history = self.source.read(
            mangle(self.app),
            operators=[each for each in structure.models if each not in structure.fixed],
            node_types=[each.name for each in structure.node_types],
        ).since(since)
        if not history.samples.intervals:
            raise TemporaryError("The history ends before the job became what it is now")
        return history

    async def seasons(self) -> Mapping[str, Season]:
        """Return what usually arrives at its operators, read beside the event loop.

        Raises:
            TemporaryError: It cannot be read.
        """
        return await asyncio.to_thread(self.source.seasons, mangle(self.app))


@dataclass(frozen=True, kw_only=True, slots=True)
class PastFit:
    """A fit, and what the history had to do with it."""

    fit: Fit
    seasons: Mapping[str, Season] = field(default_factory=dict)
    """What usually arrives, by operator; as far as history tells."""
    said: str = ""
    """What of it was used, for people; empty where there is none."""
    unused: str = ""
    """Why it was not used, one sentence; empty where it was, or where there is none."""


def fit_with_past(
    own: Samples, structure: Structure, past: Past | None, *, slot: float, since: float
) -> PastFit:
    """Fit a job to its history and to what was measured since; to the latter alone if need be.

    Args:
        own: What the controller has measured after `since`.
        structure: The job as specified.
        past: Where its history is; `None` where nobody named one.
        slot: Seconds between two decisions.
        since: Unix time from which on the job is what it is now.

    Raises:
        FitError: The simulator cannot be fitted to what was measured either.
    """
    if past is None:
        return PastFit(fit=fit(own, structure, slot=slot))
    try:
        history = past.read(structure, since=since)
    except TemporaryError as error:
        return PastFit(fit=fit(own, structure, slot=slot), unused=str(error))
    fitted: Fit | None = None
    try:
        fitted = fit_history(history, structure, slot=slot, recent=own)
        why = fitted.quality.sentence
    except FitError as error:
        why = str(error)
    if fitted is None or not fitted.quality.good:
        return PastFit(
            fit=fit(own, structure, slot=slot),
            seasons=history.seasons,
            unused=f"The history does not fit what is measured now: {why}",
        )
    return PastFit(
        fit=fitted,
        seasons=history.seasons,
        said=_say_used(history, fitted),
    )


def _say_used(history: History, fitted: Fit) -> str:
    """Return which days count, and from when on traffic does, which long holes have cut."""
    begin = datetime.fromtimestamp(fitted.begin, UTC)
    return (
        f"fitted to {len(history.used)} days of history, {history.used[0]} to {history.used[-1]} "
        f"({len(history.left_out)} left out), and what was measured since; its traffic begins on "
        f"{begin:%Y-%m-%d at %H:%M} UTC"
    )
