"""What the loops of one StreamApp need of its manifest, as plain values.

`LoopSettings` do not change while the loops run. Directives (mode, state, pauses, blocked periods,
a reset) are read at every tick through a callable, so that an annotation takes effect without a
restart. Pure: the code that watches the manifest translates it here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from weir_operator.runtime.revision import Revision
from weir_operator.streamapp.managers import Allowed, Fallback, Window
from weir_operator.streamapp.models import Mode, Spec, State, StreamApp
from weir_operator.streamapp.operators import Operator
from weir_simulator.experiment import Objective


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopSettings:
    """How the loops of one StreamApp run."""

    app: str
    """Name for people and records."""
    mode: Mode
    interval: float
    """Seconds between two ticks."""
    objective: Objective
    """What is bounded of the response time, from source to sink and at single sinks."""
    max_violations: float
    """Share of control intervals that may exceed the bound, in [0, 1]; only reported,
    never decided on."""
    policy: str
    """Name under which the policy of the operators is registered."""
    job_manager_price: float
    """Currency per hour."""
    max_cost: float | None = None
    """Currency per hour that everything may cost; `None` is no limit."""
    max_parallelism: int
    stale_after: float = 10.0
    """Seconds without a sample after which metrics count as stale: at least two scrape periods; the
    default suits a scrape every second to every five."""
    change_takes: float = 0.0
    """Seconds that a change may take, until all replicas run: so early a floor is decided."""
    python: bool = False
    """The job is a PyFlink program: what happens in Python processes is not measured."""
    phase: float | None = None
    """Where in the interval the ticks lie, as a share of it, so that a thousand StreamApps do not
    all tick in the same moment; `None` counts from the start of the loops."""


PAUSES = {
    "weir.dev/paused": Allowed.NOTHING,
    "weir.dev/paused-scale-in": Allowed.SCALE_OUT,
    "weir.dev/paused-scale-out": Allowed.SCALE_IN,
}
"""What each annotation leaves allowed."""

_CARRIED = ("mode", "state", "windows", "fallback", "reset_nonce", "deletion_policy")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """A user's request to stop scaling, completely or in one direction."""

    source: str
    """The annotation, or another source."""
    allows: Allowed
    until: float | None
    """Unix time at which it ends by itself; `None` stays until it is taken away."""
    remark: str = ""
    """What else is to be said of it, a clause; usually nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Directives:
    """What holds at one tick."""

    mode: Mode = Mode.AUTO
    state: State = State.RUNNING
    pauses: tuple[Pause, ...] = ()
    """Also those whose time is over: the tick's clock judges."""
    windows: tuple[Window, ...] = ()
    operators: tuple[Operator, ...] = ()
    """As the manifest lists them."""
    fallback: Fallback = field(default_factory=Fallback)
    reset_nonce: int = 0
    """A value other than the one before forgets what was learned."""
    refused: str = ""
    """Why nothing may be scaled whatever the mode (somebody else scales the job), one sentence."""
    revision: Revision | None = None
    """What the job is to be made of; `None` leaves it as it is."""
    edition: str = ""
    """Names the spec, but for what only asks Weir to stand still; empty where there is none."""

    @property
    def suspended(self) -> bool:
        """Whether the job should be suspended."""
        return self.state is State.SUSPENDED


def directives_of(
    app: StreamApp, *, revision: Revision | None = None, refused: str = ""
) -> Directives:
    """Return what the manifest, annotations included, asks.

    Why nothing may be scaled (`refused`) is known to the surroundings, and so is the revision.
    """
    return Directives(
        mode=app.spec.mode,
        state=app.spec.state,
        pauses=parse_pauses(app.metadata.annotations),
        windows=app.spec.windows,
        operators=app.spec.operators,
        fallback=app.spec.fallback,
        reset_nonce=app.spec.reset_nonce,
        refused=refused,
        revision=revision,
        edition=_name_edition(app.spec),
    )


def parse_pauses(annotations: Mapping[str, str]) -> tuple[Pause, ...]:
    """Return the pauses that annotations ask for: `true`, or a time until (RFC 3339).

    `false` and an empty text are none. What cannot be read pauses: the author wanted a
    standstill, and the remark says what to correct.
    """
    pauses = []
    for name, allows in PAUSES.items():
        text = annotations.get(name, "").strip()
        if text.lower() in ("", "false"):
            continue
        until, remark = None, ""
        if text.lower() != "true":
            until = _parse_time(text)
            remark = (
                (
                    f"its value {text[:40]!r} is neither true nor a time such as "
                    "2026-01-31T08:00:00Z; correct it or remove the annotation"
                )
                if until is None
                else ""
            )
        pauses.append(Pause(source=name, allows=allows, until=until, remark=remark))
    return tuple(pauses)


def carried_by_directives(before: Spec, after: Spec) -> bool:
    """Return whether directives carry every difference, so that the loops can continue.

    The mode of an external job is none: advice describes the job under Weir, scaling the job as it
    runs, so their loops have other operators.
    """
    if after.flink.ref is not None and after.mode is not before.mode:
        return False
    carried = {name: getattr(after, name) for name in _CARRIED}
    return before.model_copy(update=carried) == after


def _name_edition(spec: Spec) -> str:
    written = spec.model_dump_json(exclude={*_CARRIED} - {"reset_nonce"})
    return hashlib.sha256(written.encode()).hexdigest()[:16]


def _parse_time(text: str) -> float | None:
    """Return Unix seconds; a time without a zone is UTC; `None` of what no calendar has in UTC."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None
