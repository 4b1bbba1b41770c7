"""How full the volume is on which the controller keeps records and what was learned."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import structlog

from weir_operator.clock import Clock
from weir_operator.cluster.telemetry import Telemetry

log = structlog.get_logger()

LOOK_EVERY = 60.0
"""Seconds between two looks."""


async def watch_state_volume(folder: Path, telemetry: Telemetry, *, clock: Clock) -> None:
    """Show size and free space for ever; a volume that hangs holds up no reader of metrics."""
    while True:
        try:
            telemetry.see_state_volume(await asyncio.to_thread(measure_volume, folder))
        except OSError as error:
            log.warning("the state's volume cannot be looked at", failure=str(error))
            telemetry.see_state_volume(None)
        await clock.sleep(LOOK_EVERY)


def measure_volume(folder: Path) -> tuple[int, int]:
    """Return size and free space, bytes, of the volume on which `folder` is, or is to be made.

    Raises:
        OSError: It cannot be looked at.
    """
    there = next(each for each in (folder, *folder.parents) if each.exists())
    usage = shutil.disk_usage(there)
    return usage.total, usage.free
