"""A real Flink cluster of local processes, and a job for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import build_jar, build_programs, find_java, flink_home
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.settings import LocalSettings

SPEEDS = {"small/250m": 0.5, "small/500m": 1.0, "large/1": 2.0}


@pytest.fixture(scope="module")
def pinned_jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test's own small job, compiled."""
    return build_jar(
        [Path(__file__).with_name("PinnedJob.java")],
        tmp_path_factory.mktemp("jar") / "pinned.jar",
        entry_class="PinnedJob",
    )


@pytest.fixture(scope="session")
def jvm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def settings_of(
    tmp_path_factory: pytest.TempPathFactory, pinned_jar: Path, jvm_cache: Path
) -> Callable[[str], LocalSettings]:
    """Make the settings of a StreamApp by its name."""
    root = tmp_path_factory.mktemp("state")

    def settings(name: str) -> LocalSettings:
        return LocalSettings(
            root=root,
            namespace="streams",
            name=name,
            installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
            job_jar=pinned_jar,
            cache=jvm_cache,
            speeds=SPEEDS,
            config={"env.java.opts.all": "-XX:TieredStopAtLevel=1"},  # many short-lived JVMs
        )

    return settings


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lone_job_manager(settings_of: Callable[[str], LocalSettings]) -> AsyncIterator[FlinkRest]:
    """The client of a JobManager that has Weir's programs and no TaskManager."""
    build_programs()
    runtime = await LocalRuntime.open(settings_of("alone"))
    try:
        await runtime.ensure_job_manager()
        async with FlinkRest(runtime.rest_url) as rest:
            yield rest
    finally:
        await runtime.close()
