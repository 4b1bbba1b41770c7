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


def test_a_skipped_test_is_announced_where_it_may_be_skipped(guarded):
    guarded.makepyfile(ONE_SKIPPED)

    result = guarded.runpytest_subprocess()

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*1 tests were skipped: see -rs for why*"])


@pytest.mark.parametrize(
    ("tests", "code", "told"),
    [
        (ONE_SKIPPED, pytest.ExitCode.TESTS_FAILED, "false"),
        ("def test_fails():\n    assert False\n", pytest.ExitCode.TESTS_FAILED, "true"),
        (
            f"{ONE_SKIPPED}\ndef test_fails():\n    assert False\n",
            pytest.ExitCode.TESTS_FAILED,
            "false",
        ),
        ("def test_runs():\n    assert True\n", pytest.ExitCode.OK, "false"),
        ("def test_ends():\n    raise KeyboardInterrupt\n", pytest.ExitCode.INTERRUPTED, "false"),
    ],
    ids=["skipped", "failed", "skipped and failed", "passed", "ended"],
)
def test_where_nothing_may_be_missing_it_is_noted_whether_failed_tests_are_all_that_is_wrong(
    guarded, tests, code, told
):
    guarded.makepyfile(tests)

    result = guarded.runpytest_subprocess("--fail-on-skip")

    noted = guarded.path / ".pytest_cache/v/weir/may-run-again"
    assert (result.ret, noted.read_text()) == (code, told)
