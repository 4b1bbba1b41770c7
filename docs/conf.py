"""How the site of the documentation is made: `make docs`, into build/site.

The pages stay plain Markdown that is readable where they lie, and link to each other by path. So
the source of the site is the whole repository, of which only the pages below are taken; a link to
any other file makes a copy of it part of the site. Nothing is fetched, neither by the build nor by
who reads the site.
"""

# ruff: noqa: INP001, A001  (Sphinx reads this file by its name, and its settings by theirs)
from __future__ import annotations

from sphinx.application import Sphinx

project = "Weir"
author = "Weir's authors"
copyright = "Weir's authors, Apache-2.0"

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**.md",
    "helm/weir/README.md",
    "examples/policy/README.md",
    "examples/rivals/README.md",
]
exclude_patterns = ["docs/decisions/0000-template.md"]
"""The template is a form, not a page."""

myst_heading_anchors = 4
"""Levels of headings that a link may name, as `page.md#heading`."""

smartquotes = False
"""An option within a sentence keeps its two hyphens."""

html_theme = "furo"
html_title = "Weir"
html_static_path = ["site/static"]
html_css_files = ["weir.css"]
html_additional_pages = {"index": "front.html"}
templates_path = ["site/templates"]
html_copy_source = False
html_show_sphinx = False

NAVIGATION = {
    "Begin": ["/README", "concepts", "first-steps", "install"],
    "Use": [
        "estimate",
        "tuning",
        "policies",
        "operating",
        "adopting",
        "moving",
        "experiments",
        "pipelines",
    ],
    "Look up": [
        "reference/streamapp",
        "reference/weir",
        "/helm/weir/README",
        "metrics",
        "versions",
    ],
    "Run": ["dashboards", "runbooks", "security", "/SECURITY"],
    "Judge": [
        "evidence",
        "results/taas2023",
        "results/fgcs2018-edf",
        "results/zeus2018-mdp",
        "results/tpds2024-autrascale",
    ],
    "Change": [
        "architecture",
        "/CONTRIBUTING",
        "/AGENTS",
        "/examples/policy/README",
        "/examples/rivals/README",
        "/CHANGELOG",
        "/CODE_OF_CONDUCT",
    ],
    "Decisions": ["decisions/*"],
}
"""Every page, in the order of the site's contents. A page that is missing here fails the build."""


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the contents to the first page, which a reader of the plain file does not need."""
    if page != app.config.root_doc:
        return
    for caption, pages in NAVIGATION.items():
        listed = "\n".join(pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{listed}\n```\n"


def setup(app: Sphinx) -> None:
    """Connect the above to the build."""
    app.connect("source-read", add_navigation)
