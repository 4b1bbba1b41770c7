"""Flink's own autoscaler, as published, beside a job on a Flink with the adaptive scheduler.

The library comes from Maven's repository, once, with the client of the Flink that it was made for.
Its standalone form is not published, so a small main of ours runs it (`jobs/autoscaler`): the same
parts, with the same defaults.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from benchmarks.flink.maven import package
from weir_operator.flink.commands import job_manager_options, render_log4j
from weir_operator.flink.jars import REPOSITORY, find_java, flink_home
from weir_operator.runtime.local.processes import LOOPBACK

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


def build_autoscaler() -> Path:
    """Build the autoscaler with its main; return the jar, which holds all but a logger.

    Raises:
        RuntimeError: Maven is missing, or the build fails.
    """
    return package(SOURCES, "autoscaler", properties={})


def adaptive_scheduler(faster: float) -> dict[str, str]:
    """Return Flink's keys for the adaptive scheduler where time passes so many times faster."""
    periods = {key: f"{round(1000 * seconds / faster)} ms" for key, seconds in ADAPTIVE.items()}
    return {"jobmanager.scheduler": "adaptive", **periods}


@contextmanager
def run_autoscaler(
    jar: Path,
    folder: Path,
    *,
    port: int,
    job_id: str,
    faster: float,
    settings: Mapping[str, str],
) -> Iterator[None]:
    """Run the autoscaler beside a job until the block is left.

    Args:
        jar: From `build_autoscaler`.
        folder: Where its log goes, and what it says.
        port: Of the REST interface, on this machine.
        job_id: The job.
        faster: How many times faster than usual time passes: its periods are as much shorter.
        settings: The autoscaler's options, by key; they stay as they are given.
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
    with (folder / "output.txt").open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        try:
            yield
            if process.poll() is not None:
                raise RuntimeError(f"Expected the autoscaler to run on, it ended: see {folder}")
        finally:
            process.terminate()
            process.wait()
