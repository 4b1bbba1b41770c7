"""Helm itself, and what it makes of the chart."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.assets import MissingProgramError

# The fixtures of a real API server serve here too.
from tests.api.conftest import control_plane, kube  # noqa: F401
from tests.helm.program import CHART, KUBERNETES, find_or_build_helm

Objects = list[dict[str, Any]]


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Helm, which shows in the fixtures that a test asks for."""
    for item in items:
        if isinstance(item, pytest.Function) and "helm" in item.fixturenames:
            item.add_marker("helm")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build Helm before the first test: a build takes longer than a test may."""
    needed = any(item.get_closest_marker("helm") for item in session.items)
    if needed and not session.config.option.collectonly:
        with suppress(MissingProgramError):  # said again by each test that needs it
            find_or_build_helm()


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    try:
        program = find_or_build_helm()
    except MissingProgramError as error:
        pytest.skip(str(error))

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(each) for each in (program, *arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def try_to_render(helm, tmp_path):
    """Let Helm render the chart with values; it may refuse."""

    def run(
        values: Mapping[str, Any] | None = None,
        *,
        chart: Path = CHART,
        namespace: str = "weir",
        release: str = "release",
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values or {})))
        rendered: subprocess.CompletedProcess[str] = helm(
            "template", release, chart, "--namespace", namespace, "--values", file,
            "--kube-version", KUBERNETES,
        )  # fmt: skip
        return rendered

    return run


@pytest.fixture
def render(try_to_render):
    def run(values: Mapping[str, Any] | None = None, **options: Any) -> Objects:
        rendered = try_to_render(values, **options)
        assert rendered.returncode == 0, rendered.stderr
        return [each for each in yaml.safe_load_all(rendered.stdout) if each is not None]

    return run
