"""What holds for every test: how Hypothesis draws, and what a skipped test means."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code. Under CI=true,
# Hypothesis draws the same examples each time on its own account.
settings.register_profile("weir", deadline=None)
settings.load_profile("weir")

# No JVM of a test lives long enough for its second compiler to pay off.
os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1"


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """Take back the limit that a controller raises in its process, which here is that of all."""
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


TOGETHER = {
    "spark": "spark",
    "control_plane": "API server",
    "folder": "pages",
    "chromium": "chromium",
}
"""Fixtures of a session that take long to start, by the name of the group that shares one."""
LONGEST = (
    "Flink end to end",
    "API server",
    "Flink",
    "tests/cluster/test_weir_on_kubernetes.py",
    "tests/cluster/test_kubernetes_runtime.py",
    "tests/cluster/test_sql_on_kubernetes.py",
    "tests/cluster/test_unmodified_on_kubernetes.py",
)
"""Groups that take minutes. They begin first, so that none is left over at the end."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep in one process what shares a fixture, and what starts Flink: at most two at a time.

    Whatever else is in a file stays together, too.
    """
    ranks: dict[str, int] = {}
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        shared = [group for fixture, group in TOGETHER.items() if fixture in fixtures]
        if item.get_closest_marker("flink") and not shared:
            end_to_end = item.nodeid.startswith("tests/e2e/")
            shared = ["Flink end to end" if end_to_end else "Flink"]
        group = shared[0] if shared else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))
        ranks[item.nodeid] = LONGEST.index(group) if group in LONGEST else len(LONGEST)
    items.sort(key=lambda item: ranks[item.nodeid])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a pytest-xdist that ignores the groups: fixtures of a module would start in turn."""
    if getattr(session.config.option, "loadgroup", False):
        apart = [each.nodeid for each in session.items if "@" not in each.nodeid]
        if apart:
            message = f"expected pytest-xdist to group all tests, got {apart[0]} without a group"
            raise pytest.UsageError(f"{message}; install the versions of constraints.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fail-on-skip`."""
    parser.addoption(
        "--fail-on-skip",
        action="store_true",
        help="fail the run when a test was skipped: for machines that lack nothing",
    )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a run that passed with skipped tests into a failed one, where asked to.

    Note for `scripts/test-twice` whether failed tests are all that is wrong.
    """
    config = session.config
    if hasattr(config, "cache") and not hasattr(config, "workerinput"):  # -p no:cacheprovider
        only_failures = exitstatus == pytest.ExitCode.TESTS_FAILED and not count_skipped(config)
        config.cache.set("weir/may-run-again", only_failures)
    must_fail = config.getoption("--fail-on-skip") and count_skipped(config) > 0
    if must_fail and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say loudly that tests did not run, in front of the closing line."""
    skipped = count_skipped(config)
    if skipped:
        verdict = "the run fails" if config.getoption("--fail-on-skip") else "see -rs for why"
        terminalreporter.section(f"{skipped} tests were skipped: {verdict}", red=True, bold=True)


def count_skipped(config: pytest.Config) -> int:
    """Return how many tests were skipped so far."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", ())) if reporter else 0
