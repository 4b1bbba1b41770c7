import pytest

pytest_plugins = ["pytester"]

ONE_SKIPPED = """
import pytest

def test_runs():
    assert True

@pytest.mark.skip(reason="no such program")
def test_does_not_run():
    assert False
"""


@pytest.fixture
def guarded(pytester, root):
    """A project of its own with the real `tests/conftest.py`."""
    pytester.makeconftest((root / "tests" / "conftest.py").read_text())
    return pytester


def test_a_skipped_test_fails_the_run_where_nothing_may_be_missing(guarded):
    guarded.makepyfile(ONE_SKIPPED)

    result = guarded.runpytest_subprocess("--fail-on-skip")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*1 tests were skipped: the run fails*"])


def test_a_skipped_test_is_announced_where_it_may_be_skipped(guarded):
    guarded.makepyfile(ONE_SKIPPED)

    result = guarded.runpytest_subprocess()

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*1 tests were skipped: see -rs for why*"])


def test_a_run_without_skipped_tests_passes(guarded):
    guarded.makepyfile("def test_runs():\n    assert True\n")

    result = guarded.runpytest_subprocess("--fail-on-skip")

    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*tests were skipped*")


@pytest.mark.parametrize(
    ("tests", "told"),
    [
        ("def test_fails():\n    assert False\n", "true"),
        (f"{ONE_SKIPPED}\ndef test_fails():\n    assert False\n", "false"),
        ("def test_runs():\n    assert True\n", "false"),
        ("def test_ends():\n    raise KeyboardInterrupt\n", "false"),
    ],
)
def test_it_is_noted_whether_failed_tests_are_all_that_is_wrong(guarded, tests, told):
    guarded.makepyfile(tests)

    guarded.runpytest_subprocess("--fail-on-skip")

    noted = guarded.path / ".pytest_cache/v/weir/may-run-again"
    assert noted.read_text() == told
