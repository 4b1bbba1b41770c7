"""Numbers with a unit are quoted in the templates of the pages, not typed."""

import re

import pytest

from benchmarks.pages import DOCS, TEMPLATES

QUOTED = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|`[^`]*`", re.DOTALL)
UNITS = (
    "%|ms|s|min|h|hours?|days?|KiB|MiB|GiB|kB|MB|GB|cores|records(?:/s)?|currency|points|times|"
    "slots?|seeds?|replicas|restarts|intervals|runs|iterations|evaluations"
)
TYPED = re.compile(rf"\d[\d.,]*\s?(?:{UNITS})(?!\w)")


def find_typed(template):
    return [found[0] for found in TYPED.finditer(QUOTED.sub("", template))]


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.jinja")), ids=lambda path: path.name)
def test_no_template_has_a_typed_number_with_a_unit(path):
    assert find_typed(path.read_text()) == []


@pytest.mark.parametrize("typed", ["saves 37 %", "in 1.5 s", "1,000 records/s", "at 40ms"])
def test_a_typed_number_is_found(typed):
    assert find_typed(f"{typed}, {{{{ value('a', '5 s') }}}} and `7 s`") != []


def test_the_page_of_evidence_can_be_read_in_ten_minutes():
    assert len((DOCS / "evidence.md").read_text().splitlines()) <= 150
