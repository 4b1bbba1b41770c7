"""Each reason that Weir gives an event is declared to warn or not to."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weir_operator
from weir_operator.clock import SystemClock
from weir_operator.errors import UndeclaredReasonError
from weir_operator.loop.events import CAUSES, NORMAL, WARNINGS, Notices, severity_of

TELLING = ("report", "_report", "_emit", "report_while", "_reporting_failure", "post")


def reasons_in(tree):
    """Yield the reasons that stand in calls that report an event."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        reason = node.args[name == "post" :][:1] if name in TELLING else []
        yield from (each.value for each in reason if isinstance(each, ast.Constant))
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


def test_an_undeclared_reason_has_no_severity():
    with pytest.raises(UndeclaredReasonError, match="SomethingNew"):
        severity_of("SomethingNew")


@pytest.fixture
def told():
    return []


@pytest.fixture
def notices(told):
    return Notices(lambda event: told.append(event.message), SystemClock())


def test_another_cause_of_a_lasting_reason_is_told_too(notices, told):
    notices.report_while("JobDown", "The job is restarting")
    notices.report_while("JobDown", "The state of the job is unknown: no answer")

    assert told == ["The job is restarting", "The state of the job is unknown: no answer"]


def test_causes_that_take_turns_are_told_once_each(notices, told):
    for _ in range(3):
        notices.report_while("JobDown", "The job is restarting")
        notices.report_while("JobDown", "The state of the job is unknown: no answer")

    assert len(told) == 2


def test_figures_that_move_are_no_other_cause(notices, told):
    for speed, late in ((0.61, "12 ms"), (0.58, "1,250 ms")):
        notices.report_while("NodeSlow", f"node-2 has {speed} of the speed and is {late} late")

    assert told == ["node-2 has 0.61 of the speed and is 12 ms late"]


def test_a_number_within_a_name_is_another_cause(notices, told):
    notices.report_while("NodeSlow", "node-2 is slow")
    notices.report_while("NodeSlow", "node-3 is slow")

    assert told == ["node-2 is slow", "node-3 is slow"]


def test_a_lasting_fact_that_has_ended_is_told_again(notices, told):
    for message in ("node-2 is slow", "", "node-2 is slow"):
        notices.report_while("NodeSlow", message)

    assert told == ["node-2 is slow"] * 2


def test_only_so_many_causes_of_a_reason_are_remembered(notices, told):
    for number in range(CAUSES + 1):
        notices.report_while("NodeSlow", f"node-{number} is slow")
    told.clear()

    notices.report_while("NodeSlow", f"node-{CAUSES} is slow")
    notices.report_while("NodeSlow", "node-0 is slow")

    assert told == ["node-0 is slow"]
