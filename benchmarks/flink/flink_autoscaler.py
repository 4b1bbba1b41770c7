"""Flink's own autoscaler, as published, beside a job on a Flink with the adaptive scheduler.

The library comes from Maven's repository, once, with the client of the Flink that it was made for.
Its standalone form is not published, so a small main of ours runs it (`jobs/autoscaler`): the same
parts, with the same defaults.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from benchmarks.flink.maven import package
from weir_operator.flink.commands import job_manager_options, render_log4j
from weir_operator.flink.jars import REPOSITORY, find_java, flink_home
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.processes import LOOPBACK

SOURCES = REPOSITORY / "benchmarks/jobs/autoscaler"
ENTRY_CLASS = "Autoscaler"
ADAPTIVE: Mapping[str, float] = MappingProxyType(
    {
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": 30.0,
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": 60.0,
        "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": 10.0,
    }
)
"""Flink's defaults of the adaptive scheduler that are periods, seconds."""
GRACE = 5.0
"""Seconds for the autoscaler to end by itself."""


def build_autoscaler() -> Path:
    """Build the autoscaler with its main; return the jar, which holds all but a logger."""
    return package(SOURCES, "autoscaler", properties={})


def adaptive_scheduler(faster: float) -> dict[str, str]:
    """Return Flink's keys for the adaptive scheduler where time passes so many times faster."""
    periods = {key: f"{round(1000 * seconds / faster)} ms" for key, seconds in ADAPTIVE.items()}
    return {"jobmanager.scheduler": "adaptive", **periods}


@asynccontextmanager
async def run_autoscaler(
    jar: Path,
    folder: Path,
    *,
    port: int,
    job_id: str,
    faster: float,
    settings: Mapping[str, str],
) -> AsyncIterator[Callable[[], None]]:
    """Run the autoscaler beside a job until the block is left.

    Yields a check, which raises `RuntimeError` where the autoscaler has ended before.
    """
    folder.mkdir(parents=True)
    log4j = folder / "log4j.properties"
    log4j.write_text(render_log4j(folder / "autoscaler.log"))
    logger = sorted((flink_home() / "lib").glob("log4j-*.jar"))
    command = [
        str(find_java()),
        *job_manager_options(("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")),
        f"-Dlog4j.configurationFile={log4j}",
        *("-cp", ":".join(map(str, (jar, *logger))), ENTRY_CLASS),
        *(LOOPBACK, str(port), job_id, str(faster)),
        *(f"{key}={value}" for key, value in settings.items()),
    ]
    identity = processes.spawn(
        [*command, "--configDir", str(folder)], environment={}, output=folder / "output.txt"
    )

    def check() -> None:
        if not processes.is_alive(identity, folder):
            raise RuntimeError(f"Expected the autoscaler to run on, it ended: see {folder}")

    try:
        yield check
    finally:
        await processes.end({folder: identity}, grace=GRACE)
