"""The manifests of the page on adopting are right, and its diff leads from the one to the other."""

import re
from pathlib import Path

import pytest
import yaml

from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import Mode

PAGE = Path(__file__).parents[3] / "docs/adopting.md"


@pytest.fixture(scope="module")
def advised():
    shown, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return yaml.safe_load(shown)


@pytest.fixture(scope="module")
def diff():
    [shown] = re.findall(r"```diff\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return [line.removeprefix("   ") for line in shown.splitlines() if line.strip()]


def side(diff, sign):
    return yaml.safe_load("\n".join(line[1:] for line in diff if line[0] in (" ", sign)))


def test_the_first_manifest_asks_for_advice_on_a_foreign_job(advised):
    app = parse_manifest(advised)

    assert app.spec.mode is Mode.ADVISE
    assert app.spec.flink.ref is not None


def test_the_diff_begins_at_the_first_manifest(advised, diff):
    assert side(diff, "-")["spec"] == advised["spec"]


def test_the_diff_ends_at_a_manifest_that_is_scaled(advised, diff):
    app = parse_manifest(advised | side(diff, "+"))

    assert app.spec.mode is Mode.AUTO
    assert app.spec.flink.ref is None
    assert app.spec.flink.job is not None
    assert app.spec.flink.job.initial_savepoint
    assert app.spec.flink.max_parallelism == advised["spec"]["flink"]["maxParallelism"]
