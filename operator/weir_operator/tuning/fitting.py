"""Fits a simulator to the records of the loops, and watches whether it still fits.

Each good fit is also written as an experiment file, for `weir tune` and `weir frontier`. The slow
loop does not read it: it fits again each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from weir_operator.errors import TemporaryError
from weir_operator.loop.decide import ObservedOperator
from weir_operator.loop.tick import ModelState
from weir_operator.runtime.files import storing
from weir_operator.tuning.history import Past, PastFit, fit_with_past
from weir_operator.tuning.samples import most_intervals, read_samples
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.season import Season
from weir_policies.model.sharing import fullest_of
from weir_simulator.errors import FitError
from weir_simulator.experiment import TraceSource
from weir_simulator.experiment_files import write_experiment
from weir_simulator.fitting.drift import Drift, DriftDetector
from weir_simulator.fitting.fit import Fit, TooFewSamplesError
from weir_simulator.fitting.history import History
from weir_simulator.fitting.samples import IntervalSample
from weir_simulator.fitting.structure import Structure
from weir_simulator.traces import as_trace, write_trace
from weir_simulator.tuning.order import TuningRequest, apply_tuning

FOLDER = "fitted"


def find_fitted(folder: Path) -> Path:
    """Return where the experiment of the StreamApp with this folder is written."""
    return folder / FOLDER / "experiment.yaml"


def write_fitted(folder: Path, request: TuningRequest) -> None:
    """Write the experiment of a request with the current settings, and its trace.

    Raises:
        TemporaryError: The disk is full.
        SimulatorError: The files cannot be written for another reason.
    """
    path = find_fitted(folder)
    trace = path.with_name("trace.txt")
    experiment, incumbent = request.experiment, request.incumbent
    if incumbent is not None:
        experiment = apply_tuning(experiment, incumbent)
    with storing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_trace(trace, as_trace(request.rates))
    write_experiment(
        experiment.model_copy(update={"trace": TraceSource(file=trace)}),
        path,
        remarks=("Fitted to the job's measurements; overwritten by every fit.",),
    )


UNKNOWN = ModelState(
    fitted=None,
    reason="Fitting",
    sentence="There is no fit yet; until then, budgets are divided without tuning",
)

_FITS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fit")
"""One fit at a time in a process: each takes tens of MiB and a whole core, and none is in a hurry.
A thread of its own rather than a lock: who waits holds up no thread that others need."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """What came of a fit."""

    state: ModelState
    fit: Fit | None
    """`None` where nothing can be tuned with it."""
    most_intervals: int = 0
    """Intervals that such a job is ever fitted to; 0 where nothing can be tuned."""
    seasons: Mapping[str, Season] = field(default_factory=dict)
    """What usually arrives, by operator; as far as history shows it."""
    past_unused: str = ""
    """Why the job's history was not used, one sentence; empty where it was, or where none is."""


class Fitter:
    """Fits the job of one StreamApp."""

    def __init__(
        self,
        records: Path,
        managers: Mapping[str, ObservedOperator],
        *,
        slot: float,
        past: Past | None = None,
    ) -> None:
        """Create it for a StreamApp.

        Args:
            records: The file of its decision records.
            managers: Of all operators.
            slot: Seconds between two decisions.
            past: Where more history of the job is; `None` if none is configured.
        """
        self._records = records
        self._managers = managers
        self._slot = slot
        self._past = past
        self._detector: DriftDetector | None = None

    async def fit(self, flow: Dataflow, *, since: float) -> Fitted:
        """Fit to what was measured after a Unix time; neither reading nor fitting blocks the loop.

        Raises:
            PermanentError: The records cannot be read.
        """
        found, maximum = await self._fit(self._structure(flow), since)
        if isinstance(found.fit, TooFewSamplesError):
            return _refuse(found, fitted=None, reason="TooFewSamples", sentence=str(found.fit))
        if isinstance(found.fit, FitError):
            return _refuse(found, fitted=False, reason="CannotFit", sentence=str(found.fit))
        quality = found.fit.quality
        if not quality.good:
            return _refuse(found, fitted=False, reason="BadFit", sentence=quality.sentence)
        self._detector = DriftDetector(found.fit.calibration)
        used = "; ".join(filter(None, (quality.sentence, found.said)))
        unused = found.unused and f"Fitted without history: {found.unused}"
        sentence = ". ".join(filter(None, (used, unused)))
        return Fitted(
            state=ModelState(fitted=True, reason="Fitted", sentence=sentence),
            fit=found.fit,
            seasons=found.seasons,
            past_unused=unused,
            most_intervals=maximum,
        )

    def watch(self, sample: IntervalSample) -> Drift | None:
        """Return how the job has drifted from the last good fit, as of this interval."""
        drifts = () if self._detector is None else self._detector.note(sample)
        if not drifts:
            return None
        self._detector = None  # reported once; the next fit uses only what came since
        return drifts[0]

    def forget(self) -> None:
        """Start over."""
        self._detector = None

    async def _fit(self, structure: Structure, since: float) -> tuple[PastFit, int]:
        """Return the fit, and the maximum number of its own intervals.

        History is read before the fit has its turn: a volume that hangs holds up no other fit.
        """
        history, unread = None, ""
        async with AsyncExitStack() as stack:
            try:
                if self._past is not None:
                    history = await stack.enter_async_context(
                        self._past.opened(structure, since=since)
                    )
            except TemporaryError as error:
                unread = str(error)
            found, maximum = await asyncio.get_running_loop().run_in_executor(
                _FITS, self._fit_now, structure, since, history
            )
        return replace(found, unused=found.unused or unread), maximum

    def _fit_now(
        self, structure: Structure, since: float, history: History | None
    ) -> tuple[PastFit, int]:
        own = read_samples(self._records, since=since)
        found = fit_with_past(own, structure, history, slot=self._slot)
        return found, most_intervals(own, interval=self._slot)

    def _structure(self, flow: Dataflow) -> Structure:
        """Return the job as its manifest and its plan have it, with what is known of its keys."""
        managers = {name: self._managers[name] for name in flow.operators}
        return Structure(
            operators=tuple(
                replace(manager.specified, fullest=fullest_of(manager.model))
                if manager.model.is_skewed
                else manager.specified
                for manager in managers.values()
            ),
            edges=tuple((edge.source, edge.target) for edge in flow.edges),
            given=frozenset().union(*(manager.given for manager in managers.values())),
            fixed=frozenset(
                name for name, manager in managers.items() if manager.fixed is not None
            ),
        )


def _refuse(found: PastFit, *, fitted: bool | None, reason: str, sentence: str) -> Fitted:
    """Return what nothing can be tuned with, and why history does not mend that."""
    unused = found.unused and f"The history does not help: {found.unused}"
    told = ". ".join(filter(None, (sentence, unused)))
    state = ModelState(fitted=fitted, reason=reason, sentence=told)
    return Fitted(state=state, fit=None, past_unused=unused)
