import re

from weir_policies import registry


def test_the_page_on_policies_lists_exactly_those_that_are_registered(root):
    page = (root / "docs" / "policies.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)]

    assert sorted(listed) == sorted(registry.names())
