"""The script for new users takes an unmodified SQL job to a change of its replicas, for real."""

import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(900)
def test_a_new_user_sees_an_sql_job_scaled_by_one_command():
    done = subprocess.run(
        ["scripts/quick-start"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=870,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Weir scaled the job; restarts: " in done.stdout
    assert (REPOSITORY / "build/quick-start/default.query/report.html").exists()
