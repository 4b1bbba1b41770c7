"""The script that runs tests again that fail: which runs it tries again, and how they end."""

import json
import shutil
import sys

import pytest

MAKE = """#!/bin/sh
echo "$*" >> made
mkdir -p .pytest_cache/v/cache .pytest_cache/v/weir
cp failed .pytest_cache/v/cache/lastfailed
cp mark .pytest_cache/v/weir/may-run-again || rm -f .pytest_cache/v/weir/may-run-again
exit $(sed -n "$(wc -l < made)p" codes)
"""


@pytest.fixture
def twice(root, run, tmp_path):
    """Run the script, with a `make` whose runs end with these codes."""

    def run_script(codes, *, failed, mark):
        for folder in ("scripts", ".venv/bin", "programs"):
            (tmp_path / folder).mkdir(parents=True)
        shutil.copy(root / "scripts/test-twice", tmp_path / "scripts")
        (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
        make = tmp_path / "programs/make"
        make.write_text(MAKE)
        make.chmod(0o755)
        (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes))
        (tmp_path / "failed").write_text(json.dumps(dict.fromkeys(failed, True)))
        if mark is not None:
            (tmp_path / "mark").write_text(mark)
        path = f"{make.parent}:/usr/bin:/bin"
        ended = run([tmp_path / "scripts/test-twice", "test"], PATH=path)
        return ended.returncode, (tmp_path / "made").read_text().splitlines()

    return run_script


def test_a_run_that_passes_is_not_repeated(twice):
    code, made = twice([0], failed=[], mark="false")

    assert code == 0
    assert len(made) == 1


@pytest.mark.parametrize(("second", "ends"), [(0, 0), (2, 2)])
def test_tests_that_fail_run_once_more_by_themselves(twice, second, ends):
    code, made = twice([2, second], failed=["a.py::test[x y]@a", "b.py::test@b"], mark="true")

    assert code == ends
    assert len(made) == 2
    assert "PROCESSES=1" in made[1]
    assert "--last-failed " in made[1]
    assert "--last-failed" not in made[0]


@pytest.mark.parametrize(
    ("failed", "mark"),
    [
        ([f"{name}.py::test" for name in "abcd"], "true"),
        (["a.py::test"], "false"),  # with a test that was skipped
        (["a.py::test"], None),  # pytest did not come to its end
    ],
)
def test_another_failed_run_fails_at_once(twice, failed, mark):
    code, made = twice([2, 0], failed=failed, mark=mark)

    assert code == 1
    assert len(made) == 1
