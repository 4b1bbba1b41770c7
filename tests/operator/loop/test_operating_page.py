"""The page on operating shows what Weir understands."""

import re

import pytest
import yaml

from tests.operator.streamapp.builders import a_manifest
from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.directives import PAUSES, directives_of
from weir_operator.streamapp.loading import parse_manifest


@pytest.fixture(scope="module")
def page():
    return (REPOSITORY / "docs/operating.md").read_text()


def test_the_manifest_on_the_page_asks_for_what_the_page_says(page):
    shown = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL))
    [asked] = [each for each in shown if "metadata" in each]
    manifest = a_manifest(**asked["spec"])
    manifest["metadata"] |= asked["metadata"]

    directives = directives_of(parse_manifest(manifest))

    [pause] = directives.pauses
    assert pause.remark == ""
    assert pause.until is not None
    assert [window.name for window in directives.windows] == ["peak"]
    assert directives.reset_nonce == 1


def test_the_page_names_every_pause(page):
    assert [name for name in PAUSES if f"`{name}`" not in page] == []
