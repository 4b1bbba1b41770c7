"""The first manifest of the page on adopting is right."""

import re
from pathlib import Path

import yaml

from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import Mode

PAGE = Path(__file__).parents[3] / "docs/adopting.md"


def test_the_first_manifest_asks_for_advice_on_a_foreign_job():
    shown, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)

    app = parse_manifest(yaml.safe_load(shown))

    assert app.spec.mode is Mode.ADVISE
    assert app.spec.flink.ref is not None
