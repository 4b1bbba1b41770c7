"""The tunings of a StreamApp, version by version, in a file that survives the controller.

A tuning for another objective, other operators, pools or another policy is not used. A search may
start with the tunings of similar StreamApps (`find_similar`): those that the same policy scales
with the same parameters, because weights mean something else to another policy. The search takes
care of other differences, such as traffic, bound and operators.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict, JsonValue

from weir_operator.loop.arbitrate import UNTUNED
from weir_operator.runtime.files import read_if_present, storing, write_atomically
from weir_operator.tuning.trial import TuningTrial
from weir_policies.policy import Tuning
from weir_simulator.tuning.order import Forecast, Prediction

log = structlog.get_logger()

TUNINGS = "tuning.json"
"""The file, in the folder of each StreamApp's state."""
FORMAT = 1
VERSIONS_KEPT = 50


class Standing(StrEnum):
    """What became of a version."""

    ON_TRIAL = "onTrial"
    KEPT = "kept"
    ROLLED_BACK = "takenBack"
    REPLACED = "replaced"
    OVERGROWN = "overgrown"
    """In force without a verdict: the traffic is not that which it was made for any more."""


class Version(BaseModel):
    """One tuning that was taken."""

    model_config = ConfigDict(frozen=True)

    number: int
    since: float
    """Unix time at which it was taken."""
    former: int
    """Version that it replaced; 0 for sharing without tuning."""
    point: Tuning
    """As the simulator knows it."""
    budgets: dict[str, float]
    """Seconds by operator, as the managers know them."""
    prediction: Prediction
    former_prediction: Prediction
    """Of what it replaced, on the same traffic."""
    certainty: float | None
    """Probability that it costs less than what it replaced; `None` where that cannot be said, and
    it was taken for missing the objective surely less."""
    forecast: Forecast
    most_rate: float
    """Records/s, the most that the tuning has seen."""
    resampled: bool = False
    """Whether it was compared on made-up traffic, because the measured one was too short."""
    standing: Standing = Standing.ON_TRIAL
    reason: str = ""
    """Why it stands so, one sentence."""
    trial: TuningTrial = TuningTrial()

    @property
    def sentence(self) -> str:
        """What is expected of it and of what it replaced, for people: why it was taken."""
        expected, before = self.prediction, self.former_prediction
        return (
            f"Forecast for the scaled operators: cost of {expected.money.mean:.4g} per hour "
            f"instead of {before.money.mean:.4g}, violations in {expected.violations.mean:.2%} "
            f"of intervals instead of {before.violations.mean:.2%}, and restarts in "
            f"{expected.reconfigurations.mean:.2%} instead of "
            f"{before.reconfigurations.mean:.2%}"
            + (", on traffic made up from the measured changes" if self.resampled else "")
        )


class TuningState(BaseModel):
    """Everything that is remembered of tunings."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    key: dict[str, JsonValue]
    current: int = 0
    """Version in force; 0 where the objective is shared without tuning."""
    versions: tuple[Version, ...] = ()
    """Oldest first."""
    fit_since: float = 0.0
    """Unix time; what was measured before is of a job that has changed since."""
    not_taken: Tuning | None = None
    """What the last tuning found, where that was not surely better: with more traffic seen, it may
    be."""

    def version(self, number: int) -> Version | None:
        """Return a version, `None` if it is unknown."""
        return next((each for each in self.versions if each.number == number), None)

    @property
    def present(self) -> Version | None:
        """The current version, or `None`."""
        return self.version(self.current)

    @property
    def tuned(self) -> Tuning:
        """What is in force, as the managers know it."""
        present = self.present
        if present is None:
            return UNTUNED
        return Tuning(weights=present.point.weights, budgets=present.budgets)

    @property
    def rolled_back(self) -> list[Version]:
        """Versions that reality refuted, oldest first."""
        return [each for each in self.versions if each.standing is Standing.ROLLED_BACK]

    @property
    def worth_a_try(self) -> list[Tuning]:
        """Points that the next tuning may begin with, oldest first: none that reality refuted."""
        kept = (Standing.KEPT, Standing.REPLACED, Standing.OVERGROWN)
        points = [each.point for each in self.versions if each.standing in kept]
        return points if self.not_taken is None else [*points, self.not_taken]

    def latest(self, most: int, *, until: float) -> tuple[Version, ...]:
        """Return the last versions that were taken up to a Unix time, the newest first."""
        return tuple(each for each in reversed(self.versions) if each.since <= until)[:most]

    def with_version(self, changed: Version) -> TuningState:
        """Return the state with a version as it is now, a new one being the last."""
        others = tuple(each for each in self.versions if each.number != changed.number)
        versions = sorted((*others, changed), key=lambda each: each.number)
        return self.model_copy(update={"versions": tuple(versions[-VERSIONS_KEPT:])})


class TuningStore:
    """The state of one StreamApp's tunings in a JSON file."""

    def __init__(self, path: Path, *, key: Mapping[str, JsonValue]) -> None:
        self._path = path
        self._key = dict(key)

    @property
    def folder(self) -> Path:
        """The StreamApp's own state; the others' lie beside it."""
        return self._path.parent

    def find_similar(self) -> list[Tuning]:
        """Return similar StreamApps' current tunings that measurements confirmed, newest first."""
        found: list[Version] = []
        for path in self.folder.parent.glob(f"*/{TUNINGS}"):
            state = None if path == self._path else read_tunings(path)
            if (
                state is None
                or state.present is None
                or state.present.standing is not Standing.KEPT
            ):
                continue
            if all(state.key.get(name) == self._key.get(name) for name in ("policy", "parameters")):
                found.append(state.present)
        return [each.point for each in sorted(found, key=lambda each: each.since, reverse=True)]

    def begin_anew(self, reset_nonce: int) -> None:
        """Take what was tuned before for another's, from now on."""
        self._key["resetNonce"] = reset_nonce

    def load(self) -> TuningState:
        """Return what was saved last for the same key, or a fresh state."""
        state = read_tunings(self._path)
        if state is None and self._path.exists():  # the next tuning writes it again
            aside = self._path.with_suffix(".unreadable")
            self._path.replace(aside)
            log.warning(
                "tunings are of another version of Weir, or cannot be read, so tuning starts over: "
                "install that version to use them",
                kept=str(aside),
            )
        if state is None or _without_nulls(state.key) != _without_nulls(self._key):
            return self.fresh()
        return state

    def fresh(self) -> TuningState:
        """Return a state without tunings."""
        return TuningState(key=self._key)

    def save(self, state: TuningState) -> None:
        """Replace the file in one step.

        Raises:
            TemporaryError: The disk is full; the old file stands.
            PermanentError: The folder cannot be written.
        """
        with storing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, state.model_dump_json(by_alias=True, indent=1))


def read_tunings(path: Path) -> TuningState | None:
    """Return the tunings that a file holds; `None` where it holds none that can be read."""
    try:
        text = read_if_present(path)
        if text is None:
            return None
        if json.loads(text)["format"] != FORMAT:
            return None
        return TuningState.model_validate_json(text)
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        log.warning("tunings cannot be read, they start over", failure=str(error)[:200])
        return None


def _without_nulls(value: JsonValue) -> JsonValue:
    """Return a value without the fields that are null; an older Weir did not know all of them."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
