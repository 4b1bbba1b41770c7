"""What the pages show: their blocks of code, and the commands within their sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "helm/weir/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
"""What a user reads; the generated references and the decisions show no commands to be typed."""

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_COMMAND = re.compile(r"(weir|make) \S|(kubectl|helm) \S+ \S")
"""What is worth asking for; `kubectl apply` alone is a word, and no command."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of code on a page."""

    page: str
    """Path below the repository."""
    line: int
    language: str
    """As written after the fence; empty where nothing is."""
    text: str

    def __str__(self) -> str:
        """Return where it is."""
        return f"{self.page}:{self.line}"


def read_blocks() -> tuple[Block, ...]:
    """Return every fenced block, page by page."""
    return tuple(block for page in PAGES for block in _blocks_of(page))


def read_spans() -> tuple[Block, ...]:
    """Return every command that stands within a sentence, as a block of its own."""
    return tuple(span for page in PAGES for span in _spans_of(page))


def _blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        indent = re.compile(rf"^{found['indent']}", re.M)
        yield Block(
            page=str(page.relative_to(ROOT)),
            line=text.count("\n", 0, found.start()) + 1,
            language=found["language"],
            text=indent.sub("", found["text"]),
        )


def _spans_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    # Blank the blocks, so that what is left keeps its lines.
    prose = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in _SPAN.finditer(prose):
        command = " ".join(found[1].split())
        if _COMMAND.match(command):
            yield Block(
                page=str(page.relative_to(ROOT)),
                line=prose.count("\n", 0, found.start()) + 1,
                language="bash",
                text=command + "\n",
            )
