"""Writes what of the chart is made from other files: its CRD, and its README from its values.

    python scripts/chart.py            write them
    python scripts/chart.py --check    fail where one is stale, write nothing

A value is documented by the comment above it in values.yaml. One without a comment is an error.
"""

# ruff: noqa: INP001  (a script, not a package)
from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "helm" / "weir"


def written_files() -> dict[Path, str]:
    """Return what the files should hold that are made here."""
    crds = {
        CHART / "files" / "crds" / path.name: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "crds").glob("*.yaml"))
    }
    return {**crds, CHART / "README.md": readme()}


def readme() -> str:
    """Return the chart's README: its introduction, and a table of all values."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    rows = [
        f"| `{name}` | {comment} | `{json.dumps(default)}` |"
        for name, comment, default in documented_values(text)
    ]
    introduction = (CHART / "README.head.md").read_text(encoding="utf-8")
    table = "\n".join(["| value | what | default |", "|---|---|---|", *rows])
    origin = "<!-- Written by `make chart` from README.head.md and values.yaml. -->"
    return f"{origin}\n{introduction}\n{table}\n"


def documented_values(text: str) -> Iterator[tuple[str, str, object]]:
    """Yield each value's dotted name, comment and default, in the order of the file.

    Raises:
        ValueError: A value has no comment, or there are no values.
    """
    tree = yaml.compose(text)
    if tree is None:
        raise ValueError("values.yaml: expected values, got an empty file")
    yield from _walk(tree, yaml.safe_load(text), text.splitlines(), prefix="")


def _walk(
    node: yaml.Node, values: Mapping[str, object], lines: list[str], *, prefix: str
) -> Iterator[tuple[str, str, object]]:
    for key, value in node.value:
        name, default = f"{prefix}{key.value}", values[key.value]
        comment = _comment_above(lines, key.start_mark.line)
        is_section = isinstance(value, yaml.MappingNode) and not value.flow_style
        if is_section and isinstance(default, Mapping):
            yield from _walk(value, default, lines, prefix=f"{name}.")
        elif not comment:
            raise ValueError(f"values.yaml: {name} has no comment above it, which documents it")
        else:
            yield name, comment, default


def _comment_above(lines: list[str], line: int) -> str:
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].lstrip("# "))
    return " ".join(found)


def main(arguments: list[str]) -> int:
    """Write or check the files; return the exit code."""
    stale = [
        path
        for path, text in written_files().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is stale: write it again with make chart")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written_files()[path], encoding="utf-8")
            print(path.relative_to(ROOT))
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
