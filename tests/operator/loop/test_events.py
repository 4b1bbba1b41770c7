"""Each reason that Weir gives an event is declared to warn or not to."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weir_operator
from weir_operator.loop.events import NORMAL, WARNINGS, Event

TELLING = ("report", "_report", "report_while", "survived")


def reasons_in(tree):
    """Yield the reasons that stand in calls that report an event."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in TELLING and node.args and isinstance(node.args[0], ast.Constant):
            yield node.args[0].value
        if isinstance(node.func, ast.Name) and node.func.id == "Event":
            yield from (
                each.value.value
                for each in node.keywords
                if each.arg == "reason" and isinstance(each.value, ast.Constant)
            )


def test_every_reason_in_the_code_is_declared():
    sources = Path(weir_operator.__path__[0]).rglob("*.py")
    found = {reason for path in sources for reason in reasons_in(ast.parse(path.read_text()))}

    assert len(found) > 40
    assert found - WARNINGS - NORMAL == set()
    assert set() == WARNINGS & NORMAL


@pytest.mark.parametrize(
    ("reason", "severity"),
    [("StateMissing", "Warning"), ("UpgradeFailed", "Warning"), ("RescaleDone", "Normal")],
)
def test_what_was_lost_or_failed_warns(reason, severity):
    assert Event(time=0.0, reason=reason, message="").severity == severity
