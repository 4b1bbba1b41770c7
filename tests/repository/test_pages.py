"""The pages are true: links lead somewhere, the short manifest is accepted, decisions are whole."""

import re

import pytest

SECTIONS = ["Summary", "Motivation", "Proposal", "Drawbacks", "Alternatives"]


@pytest.fixture(scope="module")
def pages(root, own_files):
    return {path: (root / path).read_text() for path in own_files if path.suffix == ".md"}


def test_every_link_between_pages_leads_to_a_file(root, pages):
    broken = [
        f"{page}: {target}"
        for page, text in pages.items()
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text)
        if "://" not in target and not (root / page.parent / target).exists()
    ]

    assert broken == []


def test_every_decision_has_its_five_parts_and_is_in_the_index(root, pages):
    index = pages[(root / "docs" / "index.md").relative_to(root)]
    decisions = {path: text for path, text in pages.items() if path.parent.match("docs/decisions")}

    assert decisions
    for path, text in decisions.items():
        assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == SECTIONS, path
        assert path.name.startswith("0000-") or f"(decisions/{path.name})" in index, path


def test_the_folders_of_the_map_exist(root, pages):
    page = pages[(root / "docs" / "architecture.md").relative_to(root)]

    named = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)

    assert [place for place in named if not (root / place).exists()] == []
    assert "operator/weir_operator/rescale/" in named
