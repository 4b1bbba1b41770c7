"""Facts that last are told when they begin and when they end, not at every tick."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weir_operator.clock import Clock
from weir_operator.controller.events import Event
from weir_operator.controller.guards import Cause, Guard

_BEGIN = {
    Cause.PAUSE: "ScalingPaused",
    Cause.WINDOW: "WindowOpened",
    Cause.REFUSED: "ScalingRefused",
}
_END = {
    Cause.PAUSE: "ScalingResumed",
    Cause.WINDOW: "WindowClosed",
    Cause.REFUSED: "ScalingResumed",
}


class Notices:
    """Tells the events of one StreamApp's loops."""

    def __init__(self, on_event: Callable[[Event], None], clock: Clock) -> None:
        self._on_event = on_event
        self._clock = clock
        self._guards: dict[tuple[Cause, str], str] = {}
        self._lasting: set[str] = set()

    def tell(self, reason: str, message: str) -> None:
        """Tell a fact."""
        self._on_event(Event(time=self._clock.now(), reason=reason, message=message))

    def tell_while(self, reason: str, message: str) -> None:
        """Tell a lasting fact once; an empty message ends it. Figures in it may move."""
        if not message:
            self._lasting.discard(reason)
        elif reason not in self._lasting:
            self._lasting.add(reason)
            self.tell(reason, message)

    def see_guards(self, guards: Sequence[Guard]) -> None:
        """Tell which guards are new, which are over, and which now say something else."""
        present = {(guard.cause, guard.name): guard.reason for guard in guards}
        for (cause, name), reason in present.items():
            if self._guards.get((cause, name)) != reason:
                self.tell(_BEGIN[cause], reason[:1].upper() + reason[1:])
        for cause, name in self._guards.keys() - present.keys():
            self.tell(_END[cause], f"{name} holds no more")
        self._guards = present
