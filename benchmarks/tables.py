"""Write the results as Markdown: `benchmarks/results/NAME.json` to `docs/results/NAME.md`.

    python -m benchmarks.tables            write them
    python -m benchmarks.tables --check    fail where one is stale or a result does not say how it
                                           came about, write nothing
    python -m benchmarks.tables --old      name results of older code, and fail where there is one

A page says how the code that its result measured had changed when it was written; `--check` does
not compare that, because it changes with every commit.

The pages in `docs` are written by hand and link to these.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import NOT_SHOWN
from benchmarks.registry import find_benchmarks
from benchmarks.results import FOLDER, REQUIRED, ROOT, describe_age

PAGES = ROOT / "docs" / "results"
OLD = "*Of older code"
"""Begins the line of a page that says so."""
VERDICTS = {True: "yes", False: "**no**", None: ""}


def main(arguments: Sequence[str], results: Path = FOLDER, pages: Path = PAGES) -> int:
    """Write or check the pages; return the exit status."""
    if "--old" in arguments:
        return print_old(results)
    incomplete = list(find_incomplete(results))
    for each in incomplete:
        print(each, file=sys.stderr)
    if incomplete:
        return 1
    wanted = {
        pages / f"{path.stem}.md": render_result(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(results.glob("*.json"))
    }
    kept = {path: path.read_text(encoding="utf-8") for path in pages.glob("*.md")}
    check = "--check" in arguments
    stale = [
        path
        for path in wanted.keys() | kept.keys()
        if _comparable(wanted.get(path), check) != _comparable(kept.get(path), check)
    ]
    if check:
        for path in sorted(stale):
            print(f"{path.name} is not what the results say: make pages", file=sys.stderr)
        return 1 if stale else 0
    pages.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return 0


def _comparable(page: str | None, without_age: bool) -> str | None:
    if page is None or not without_age:
        return page
    return "\n".join(line for line in page.splitlines() if not line.startswith(OLD))


def find_incomplete(results: Path) -> Iterator[str]:
    """Yield a sentence for each result that does not say how it came about."""
    for path in sorted(results.rglob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        missing = [each for each in REQUIRED if result.get(each) in (None, {})]
        if missing or result["commit"].endswith("-dirty"):
            wanted = ", ".join(missing) or "a commit without changes"
            yield f"{path.name} lacks {wanted}: run it again on committed code, or delete it"


def print_old(results: Path) -> int:
    """Print which results are of older code than this; return the exit status."""
    benchmarks = find_benchmarks()
    status = 0
    for path in sorted(results.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        # A benchmark may keep one of each seed or form: chaos-1, live-policies.
        is_gone = not any(path.stem.startswith(each) for each in benchmarks)
        age = "of a benchmark that is gone" if is_gone else describe_age(result)
        if age:
            print(f"{path.name}: {age}", file=sys.stderr)
            status = 1
    return status


def render_result(result: Mapping[str, Any]) -> str:
    """Return the page of a result: its circumstances, its figures, its rows by table."""
    parts = [f"# Results: {result['benchmark']}", _describe_circumstances(result)]
    if result["figures"]:
        columns = ("figure", "value", "goal", "holds")
        parts.append(_render_table(columns, map(_cells_of_figure, result["figures"])))
    for title, rows in _group(result["rows"]):
        parts.append(f"## {title}\n\n{_render_rows(rows)}")
    for table in result.get("tables", {}).values():
        parts.append(_render_table(table["columns"], table["cells"]))
    return "\n\n".join(["---\norphan: true\n---", *parts]) + "\n"


def _describe_circumstances(result: Mapping[str, Any]) -> str:
    begin, end = result["load"]
    age = describe_age(result)
    return (
        f"*Taken {result['date'][:10]} at commit {result['commit'][:9]}, load {begin:g} at the "
        f"beginning and {end:g} at the end on {result['processors']} processors.*"
    ) + (f"\n{OLD}{age.removeprefix('of older code')}.*" if age else "")


def _cells_of_figure(figure: Mapping[str, Any]) -> tuple[str, ...]:
    value, goal = figure["value"], figure["goal"] or ""
    shown = "not measured" if value is None else f"{_format_number(value)} {figure['unit']}"
    is_open = bool(goal) and figure["holds"] is None
    return (
        figure["figure"],
        shown.rstrip(),
        goal,
        NOT_SHOWN if is_open else VERDICTS[figure["holds"]],
    )


def _format_number(value: float) -> str:
    """Return whole and large numbers in full, others with four digits."""
    whole = float(value).is_integer() or abs(value) >= 1000
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def _render_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of one table; a verdict has a column where any row has one."""
    columns = ["", rows[0]["beside_what"], "ours", "seeds"]
    cells = [[row["row"], row["beside"], row["ours"], str(row["seeds"])] for row in rows]
    verdicts = [row["match"] or VERDICTS[row["holds"]] for row in rows]
    if any(verdicts):
        columns.append(rows[0]["claim"])
        cells = [[*cell, verdict] for cell, verdict in zip(cells, verdicts, strict=True)]
    return _render_table(columns, cells)


def _group(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the rows by table, in order."""
    for title in dict.fromkeys(row["table"] for row in rows):
        yield title, [row for row in rows if row["table"] == title]


def _render_table(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(columns), *(" | ".join(each) for each in cells)]
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join([first, "|" + "---|" * len(columns), *others])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
