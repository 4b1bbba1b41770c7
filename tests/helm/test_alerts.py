"""Each alert fires where it should, is silent where it nearly would, and tells what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.helm.program import CHART
from tests.helm.samples import of_kind

DOCS = CHART.parents[1] / "docs"
STORIES = sorted((Path(__file__).parent / "alerts").glob("*_test.yaml"))


def read_rules():
    page = yaml.safe_load((CHART / "files/alerts/weir.yaml").read_text())
    return {rule["alert"]: rule for group in page["groups"] for rule in group["rules"]}


RULES = read_rules()


@pytest.fixture(scope="module")
def told():
    """What the stories expect of each alert: whether it fires, by alert."""
    found: dict[str, set[bool]] = {}
    for story in STORIES:
        for test in yaml.safe_load(story.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                found.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    return found


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_alerts_fire_in_their_stories_and_are_silent_in_the_others(story):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: install Prometheus (Debian: apt-get install prometheus)")

    tested = subprocess.run(
        [promtool, "test", "rules", story], capture_output=True, text=True, check=False
    )

    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", RULES)
def test_every_alert_has_a_story_and_a_counter_example(alert, told):
    assert told[alert] == {True, False}


@pytest.mark.parametrize("alert", RULES)
def test_every_alert_leads_to_a_runbook_that_says_what_it_means_and_what_to_do(alert):
    page = (DOCS / "runbooks.md").read_text()

    sections = dict(re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))

    assert RULES[alert]["annotations"]["runbook_url"] == f"docs/runbooks.md#{alert.lower()}"
    assert "**Means:**" in sections[alert]
    assert "**Do:**" in sections[alert] or "**Check, do:**" in sections[alert]


def test_no_runbook_is_left_of_an_alert_that_is_gone():
    page = (DOCS / "runbooks.md").read_text()

    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(RULES)


def test_the_runbooks_are_where_the_values_say(render):
    values = {"prometheusRule": {"enabled": True, "runbookUrl": "https://docs.example.org/run"}}

    [rule] = of_kind(render({"monitoring": values}), "PrometheusRule")

    for group in rule["spec"]["groups"]:
        for alert in group["rules"]:
            url = f"https://docs.example.org/run#{alert['alert'].lower()}"
            assert alert["annotations"]["runbook_url"] == url
