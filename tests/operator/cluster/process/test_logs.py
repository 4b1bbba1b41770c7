"""The controller's log is JSON lines that carry what they speak of."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging, structlog
from weir_operator.cluster.process.logs import send_logs
send_logs(as_json=True)
structlog.contextvars.bind_contextvars(app="streams/trips")
structlog.get_logger().info("decision", operator="match", decision="d1")
logging.getLogger("somebody").warning("told by a library")
logging.getLogger("kopf.objects").info("of no use to anybody")
try:
    1 / 0
except ZeroDivisionError:
    structlog.get_logger().exception("defect")
"""


def test_each_line_is_json_with_app_operator_and_decision():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)

    decision, library, defect = [json.loads(line) for line in run.stderr.splitlines()]
    assert (decision["app"], decision["operator"], decision["decision"]) == (
        "streams/trips",
        "match",
        "d1",
    )
    assert (library["event"], library["level"]) == ("told by a library", "warning")
    assert "ZeroDivisionError" in defect["exception"]


def test_lines_for_people_have_no_colours_where_nobody_watches_a_terminal():
    script = SCRIPT.replace("as_json=True", "as_json=False")

    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "streams/trips" in run.stderr
    assert "\x1b" not in run.stderr


@pytest.mark.parametrize("as_json", [True, False])
def test_no_line_has_the_values_of_variables(as_json):
    """They hold what users keep secret: each StreamApp's configuration and environment."""
    script = SCRIPT.replace("as_json=True", f"as_json={as_json}").replace(
        "try:\n    1 / 0",
        "def read(app, /):\n    1 / len({})\ntry:\n    read(''.join(['hun', 'ter2']))",
    )

    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "ZeroDivisionError" in run.stderr
    assert "hunter2" not in run.stderr
