"""What was kept of a job before the controller, or beside it, and what is made of it.

Whoever starts the controller knows where history lies and how it is read; here it is a value. It
is an aid: where there is none, or it cannot be read, the loops go on with what they measure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from weir_operator.controller.history_reader import HistoryReader
from weir_operator.errors import TemporaryError
from weir_policies.model.season import Season
from weir_simulator.errors import FitError
from weir_simulator.fitting.fit import Fit, TooFewSamplesError, fit
from weir_simulator.fitting.history import (
    History,
    add_traffic,
    fit_history,
    is_traffic_alone,
)
from weir_simulator.fitting.samples import Samples
from weir_simulator.fitting.structure import Structure


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What is kept of one job."""

    reader: HistoryReader
    app: str
    """`namespace/name` of the StreamApp."""

    @asynccontextmanager
    async def opened(self, structure: Structure, *, since: float) -> AsyncIterator[History]:
        """Yield what is kept of it after a Unix time.

        Raises:
            TemporaryError: Nothing is, or it cannot be read.
        """
        async with self.reader.opened(
            self.app,
            operators=[each for each in structure.models if each not in structure.fixed],
            node_types=[each.name for each in structure.node_types],
        ) as whole:
            history = whole.since(since).within(structure)
            if history.end == history.begin:
                raise TemporaryError("it ends before the job became what it is now")
            yield history

    async def seasons(self) -> Mapping[str, Season]:
        """Return what usually arrives at its operators.

        Raises:
            TemporaryError: It cannot be read.
        """
        return await self.reader.seasons(self.app)


@dataclass(frozen=True, kw_only=True, slots=True)
class PastFit:
    """A fit, and what the history had to do with it."""

    fit: Fit | FitError
    """Why there is none, where the simulator cannot be fitted to what was measured."""
    seasons: Mapping[str, Season] = field(default_factory=dict)
    """What usually arrives, by operator; as far as history tells."""
    said: str = ""
    """What of it was used, for people; empty where there is none."""
    unused: str = ""
    """Why it was not used; empty where it was, or where there is none."""


def fit_with_past(
    own: Samples, structure: Structure, history: History | None, *, slot: float
) -> PastFit:
    """Fit a job to its history and to what was measured since; to the latter alone if need be.

    Where history tells of some operators only, a fit to it may not be there, or too little was held
    out to judge it by. Then it gives the traffic, as it does where it tells of none.

    Args:
        own: What the controller has measured since the job is what it is now.
        structure: The job as specified.
        history: What is kept of it since then; `None` where nothing can be read.
        slot: Seconds between two decisions.
    """
    if history is None:
        return PastFit(fit=_fit_alone(own, structure, slot=slot))
    fitted: Fit | None = None
    why = ""
    try:
        fitted = fit_history(history, structure, slot=slot, recent=own)
        why = fitted.quality.sentence
    except TooFewSamplesError as error:
        if not history.partial:  # even with it
            return PastFit(fit=error)
    except FitError as error:
        why = str(error)
    if fitted is not None and fitted.quality.good:
        return PastFit(fit=fitted, seasons=history.seasons, said=_say_used(history, fitted))
    traffic_alone = is_traffic_alone(history, fitted)
    unused = (
        history.only_traffic if traffic_alone else f"it does not fit what is measured now: {why}"
    )
    alone = _fit_alone(own, structure, slot=slot)
    if traffic_alone and not isinstance(alone, FitError):
        with_rates = add_traffic(alone, history, own)
        said = _say_used(history, with_rates, what="the traffic of ")
        return PastFit(fit=with_rates, seasons=history.seasons, said=said)
    return PastFit(fit=alone, seasons=history.seasons, unused=unused)


def _fit_alone(own: Samples, structure: Structure, *, slot: float) -> Fit | FitError:
    """Return a fit to what the controller has measured, or why there is none."""
    try:
        return fit(own, structure, slot=slot)
    except FitError as error:
        return error


def _say_used(history: History, fitted: Fit, *, what: str = "") -> str:
    """Return which days count, and from when on traffic does, which long holes have cut."""
    begin = datetime.fromtimestamp(fitted.begin, UTC)
    said = (
        f"fitted to {what}{len(history.used)} days of history, {history.used[0]} to "
        f"{history.used[-1]} ({len(history.left_out)} left out), and what was measured since; its "
        f"traffic begins on {begin:%Y-%m-%d at %H:%M} UTC"
    )
    return "; ".join(filter(None, (said, history.only_traffic)))
