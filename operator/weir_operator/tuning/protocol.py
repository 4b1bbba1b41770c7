"""Where tunings are made: in a process of their own, or in a Kubernetes Job."""

from __future__ import annotations

from typing import Protocol

from weir_operator.tuning.work import TuningAnswer, TuningWork


class Tuner(Protocol):
    """Makes one tuning at a time for one StreamApp, and never in the caller's thread.

    A call that is cancelled ends the work. Nothing of it can be wrong after a crash: whoever calls
    again with equal work under the same name goes on with what was left, or starts over.
    """

    @property
    def deadline(self) -> float:
        """Seconds after which a tuning without an answer is ended, its wait for a node included."""
        ...

    async def tune(self, work: TuningWork, *, name: str) -> TuningAnswer:
        """Return what came of the work.

        Args:
            work: What to do.
            name: Of the tuning, the same when it is repeated and no other's of the StreamApp:
                lower-case letters, digits and dashes.

        Raises:
            TuningLostError: It came to no answer; doing it again may help.
            TuningRefusedError: It cannot be done.
            TemporaryError: It could not be begun or followed.
        """
        ...
