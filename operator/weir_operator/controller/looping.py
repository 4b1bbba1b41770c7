"""The two endless loops of a StreamApp: looks at its job, and control intervals.

Neither ends because one pass of it failed. What fails is trouble, which lasts until a later pass
succeeds: a job that is lost must be brought back although nothing can be decided, and decisions go
on although one look was in vain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

import structlog

from weir_operator.controller.lifecycle import Health
from weir_operator.errors import TemporaryError, WeirError, describe_unexpected
from weir_policies.errors import WeirPolicyError

log = structlog.get_logger()

PATIENCE = 2
"""Looks in a row that may find no running job, or fail, before that is trouble: Flink's own
failover often needs less."""


class Loop(StrEnum):
    """Which loop has trouble."""

    LOOK = "look"
    TICK = "tick"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a loop."""

    loop: Loop
    sentence: str
    """Empty where it is over."""
    unexpected: bool = False
    """Whether it is a defect of Weir."""


OnTrouble = Callable[[Trouble], None]


async def look_for_ever(
    heal: Callable[[], Awaitable[Health]],
    rest: Callable[[], Awaitable[None]],
    on_trouble: OnTrouble,
) -> None:
    """Look after the job until it has come to its own end.

    Args:
        heal: Looks once and moves the job towards what is asked of it.
        rest: Waits until the next look.
        on_trouble: Told when no job runs for some looks, and when one runs again.

    Raises:
        WeirError: The job cannot be kept running.
    """
    failed = 0
    while True:
        try:
            health = await heal()
            down = "The job restarts: not all of its tasks run yet"
        except TemporaryError as error:
            log.warning("look failed", failure=str(error))
            health, down = Health.RESTARTING, f"Nothing is known of the job: {error}"
        if health is Health.FINISHED:
            return
        if health is Health.RESTARTING:
            failed += 1
            if failed >= PATIENCE:
                on_trouble(Trouble(Loop.LOOK, down))
        elif health is not Health.CHANGING:  # which says nothing of the job
            failed = 0
            on_trouble(Trouble(Loop.LOOK, ""))
        await rest()


async def try_tick(tick: Callable[[], Awaitable[object]], on_trouble: OnTrouble) -> None:
    """Take one control interval; what fails is told, and the next one is tried."""
    try:
        await tick()
    except (WeirError, WeirPolicyError) as error:
        on_trouble(Trouble(Loop.TICK, str(error)))
    except Exception as error:  # a defect in deciding must not leave the job alone
        log.exception("unexpected error in a control interval")
        on_trouble(Trouble(Loop.TICK, describe_unexpected(error), unexpected=True))
    else:
        on_trouble(Trouble(Loop.TICK, ""))
