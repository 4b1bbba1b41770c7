"""How long changes waited for TaskManagers, and what an earlier start could have saved. Pure.

A change that starts TaskManagers waits until they are registered, while the old job runs on. An
interval of that wait may have exceeded the bound in any case, so what is counted is what an earlier
start could have saved at most.
"""

from __future__ import annotations

from collections.abc import Iterable

from weir_operator.loop.record import JobTick
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_simulator.reports import wording


def describe_waits(changes: Iterable[RescaleJournal], ticks: Iterable[JobTick]) -> str:
    """Return how long changes waited, for people; empty where none started TaskManagers."""
    waits = [
        (change.times[Step.START], change.times[Step.STOP])
        for change in changes
        if change.kind is Kind.RESCALE and change.started and Step.STOP in change.times
    ]
    if not waits:
        return ""
    late = sum(
        tick.violated is True
        and any(begin < tick.time and tick.time - tick.seconds < end for begin, end in waits)
        for tick in ticks
    )
    waited = (
        f"{wording.counted(len(waits), 'change')} waited"
        f" {wording.seconds(sum(end - begin for begin, end in waits))} for new TaskManagers"
    )
    if not late:
        return f"{waited}, and no interval exceeded the bound meanwhile."
    over = f"{wording.counted(late, 'interval')} over the bound"
    return f"{waited}. An earlier start would have saved at most {over}."
