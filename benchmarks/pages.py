"""Write what the results show: `docs/evidence.md`, its pictures, and a page behind it for each.

    python -m benchmarks.pages            write them
    python -m benchmarks.pages --check    fail where one is stale or a result does not say how it
                                          came about, write nothing
    python -m benchmarks.pages --old      name results of older code, and fail where there is one

`docs/evidence.md` and a page for each paper come from `templates`, where every number is quoted
from a result. A page for each other benchmark has what its module says of it. All show what has a
goal, or stands beside what a paper prints; the rest is in the results themselves.

A page says how the code that its result measured had changed when it was written; `--check` does
not compare that, because it changes with every commit.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from benchmarks.evidence import count_cheaper_fixed, draw_pictures
from benchmarks.figures import EQUAL, NOT_SHOWN
from benchmarks.registry import find_benchmarks
from benchmarks.results import FOLDER, REQUIRED, ROOT, count_changed_lines, describe_age

DOCS = ROOT / "docs"
TEMPLATES = FOLDER.parent / "templates"
PAPERS: Mapping[str, Sequence[str]] = {
    "taas2023": (
        "reproduce-tables",
        "reproduce-deep",
        "reproduce-figures",
        "reproduce-am",
        "reproduce-am-beside",
    ),
    "fgcs2018-edf": ("edf",),
    "zeus2018-mdp": ("reproduce-mdp18",),
    "tpds2024-autrascale": ("autrascale",),
}
"""Results that each paper's page shows."""
OLD = "*Of older code"
"""Begins the line of a page that says so."""
VERDICTS = {True: "yes", False: "**no**", None: ""}
Result = Mapping[str, Any]
Results = Mapping[str, Result]


def main(arguments: Sequence[str], results: Path = FOLDER, docs: Path = DOCS) -> int:
    """Write or check the pages; return the exit status."""
    incomplete = list(find_incomplete(results))
    for each in incomplete:
        print(each, file=sys.stderr)
    if incomplete:
        return 1
    found = load_results(results)
    if "--old" in arguments:
        return print_old(found)
    wanted = render_all(found)
    kept = {
        path.relative_to(docs).as_posix(): path.read_text(encoding="utf-8")
        for path in (*docs.glob("results/*.md"), *docs.glob("pictures/evidence-*.svg"))
    }
    for name in wanted.keys() - kept.keys():
        if (docs / name).exists():
            kept[name] = (docs / name).read_text(encoding="utf-8")
    check = "--check" in arguments
    stale = [
        name
        for name in sorted(wanted.keys() | kept.keys())
        if _comparable(wanted.get(name), check) != _comparable(kept.get(name), check)
    ]
    if check:
        for name in stale:
            print(f"{name} is not what the results say: make pages", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        if name in wanted:
            (docs / name).parent.mkdir(parents=True, exist_ok=True)
            (docs / name).write_text(wanted[name], encoding="utf-8")
        else:
            (docs / name).unlink()
    return 0


def load_results(folder: Path) -> Results:
    """Return the results by name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"))
    }


def _comparable(page: str | None, without_age: bool) -> str | None:
    if page is None or not without_age:
        return page
    lines = (line for line in page.splitlines() if not line.startswith(OLD))
    return re.sub(r"\| ([\d,]+|unknown) \|", "| |", "\n".join(lines))


def find_incomplete(results: Path) -> Iterator[str]:
    """Yield a sentence for each result that does not say how it came about."""
    for path in sorted(results.rglob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        missing = [each for each in REQUIRED if result.get(each) in (None, {})]
        if missing or result["commit"].endswith("-dirty"):
            wanted = ", ".join(missing) or "a commit without changes"
            yield f"{path.name} lacks {wanted}: run it again on committed code, or delete it"


def print_old(results: Results) -> int:
    """Print which results are of older code than this; return the exit status."""
    status = 0
    for name, result in results.items():
        age = describe_age(result) if _benchmark_of(name) else "of a benchmark that is gone"
        if age:
            print(f"{name}.json: {age}", file=sys.stderr)
            status = 1
    return status


def _benchmark_of(result: str) -> str:
    """Return the benchmark of a result, which may keep one of each seed or form; else ''."""
    return max((each for each in find_benchmarks() if result.startswith(each)), key=len, default="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What the list of pages says of one."""

    name: str
    title: str
    results: Sequence[str]


def render_all(results: Results) -> dict[str, str]:
    """Return every page and picture that the results make, by its path below `docs`."""
    pages = [*_paper_pages(results), *_benchmark_pages(results)]
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw_pictures(results, Path(folder))
        files = {
            f"pictures/{path.name}": path.read_text(encoding="utf-8")
            for path in Path(folder).iterdir()
        }
    quotes = Quotes(results)
    if "planner" in results:  # else these are some results alone, as in tests
        files["evidence.md"] = quotes.render(
            "evidence",
            drawn=drawn,
            pages=pages,
            page_of={result: page.name for page in pages for result in page.results},
        )
        for name in PAPERS:
            files[f"results/{name}.md"] = quotes.render(name)
    for page in pages:
        if page.name not in PAPERS:
            files[f"results/{page.name}.md"] = _render_benchmark(page, quotes)
    return files


def _paper_pages(results: Results) -> Iterator[Page]:
    titles = {
        "taas2023": "Russo Russo, Cardellini, Lo Presti, TAAS 2023",
        "fgcs2018-edf": "Cardellini et al., FGCS 2018 (EDF)",
        "zeus2018-mdp": "Russo Russo, ZEUS 2018 (MDP)",
        "tpds2024-autrascale": "Zhang et al., TPDS 2024 (AuTraScale+)",
    }
    for name, shown in PAPERS.items():
        if there := [each for each in shown if each in results]:
            yield Page(name=name, title=titles[name], results=there)


def _benchmark_pages(results: Results) -> Iterator[Page]:
    shown = {each for names in PAPERS.values() for each in names}
    of_benchmarks: dict[str, list[str]] = {}
    for name in results:
        if name not in shown:
            of_benchmarks.setdefault(_benchmark_of(name) or name, []).append(name)
    known = find_benchmarks()
    for name, there in of_benchmarks.items():
        about = known[name].about if name in known else "by a benchmark that is gone"
        yield Page(name=name, title=about, results=there)


def _render_benchmark(page: Page, quotes: Quotes) -> str:
    benchmarks = find_benchmarks()
    parts = [f"# Results: {page.name}"]
    if page.name in benchmarks:
        module = sys.modules[benchmarks[page.name].run.__module__]
        parts += [inspect.getdoc(module) or "", f"Measured by `make bench NAME={page.name}`."]
    for name in page.results:
        alone = page.results == [page.name]
        if not alone:
            parts.append(f"## {name}")
        parts.append(quotes.goals(name))
        rows = [
            each
            for each in quotes.results[name]["rows"]
            if each["holds"] is not None or each["match"] is not None
        ]
        level = "##" if alone else "###"
        parts += [
            f"{level} {title}\n\n{_render_rows(of_title)}" for title, of_title in _group(rows)
        ]
    return "\n\n".join(["---\norphan: true\n---", *parts]) + "\n"


@dataclass(frozen=True, slots=True)
class Quotes:
    """What a template may quote."""

    results: Results

    def render(self, template: str, **more: object) -> str:
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        names = (each for each in dir(self) if not each.startswith("_"))
        quoted = {each: getattr(self, each) for each in names}
        return environment.get_template(f"{template}.md.jinja").render(**quoted, **more)

    def value(self, result: str, figure: str, digits: int = 3) -> str:
        """Return a figure with its unit, rounded to so many digits."""
        found = self.number(result, figure)
        (unit,) = {
            each["unit"] for each in self.results[result]["figures"] if each["figure"] == figure
        }
        return f"{format_number(found, digits)} {unit}".rstrip()

    def number(self, result: str, figure: str) -> float:
        """Return the value of a figure."""
        found = [each for each in self.results[result]["figures"] if each["figure"] == figure]
        if len(found) != 1 or found[0]["value"] is None:
            raise KeyError(f"Expected {result} to have the figure {figure!r}")
        return float(found[0]["value"])

    def goal(self, result: str, beginning: str) -> str:
        """Return the one figure with a goal whose name begins so, which may name how many pairs."""
        (found,) = [
            each["figure"]
            for each in self.results[result]["figures"]
            if each["goal"] and each["figure"].startswith(beginning)
        ]
        return self.value(result, found)

    def total(self, results: Sequence[str], figure: str) -> str:
        """Return the sum of a figure over several results."""
        return format_number(sum(self.number(each, figure) for each in results))

    def date(self, *results: str) -> str:
        """Return when results were taken, the oldest of them."""
        return str(min(self.results[each]["date"] for each in results)[:10])

    def old(self) -> str:
        """Return a line that says how many results are of older code; empty where none is."""
        count = sum(count_changed_lines(each) != 0 for each in self.results.values())
        if not count:
            return ""
        return (
            f"{OLD}: {count} of {len(self.results)} results. The last table says how many lines of "
            "the folders that a result measured have changed since.*"
        )

    def changed(self, *results: str) -> str:
        """Return the most lines of code changed since any of some results was taken."""
        lines = [count_changed_lines(self.results[each]) for each in results]
        return "unknown" if None in lines else f"{max(filter(None, lines), default=0):,}"

    def counted(self, *results: str) -> tuple[int, int, int]:
        """Return how many goals hold, are missed, and are open; of all results by default."""
        figures = [
            each
            for name in results or self.results
            for each in self.results[name]["figures"]
            if each["goal"]
        ]
        held = [each["holds"] for each in figures]
        return held.count(True), held.count(False), held.count(None)

    def missed(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return each result's goals that are missed, as cells."""
        return [
            (name, _cells_of_figure(each))
            for name, result in self.results.items()
            for each in result["figures"]
            if each["goal"] and each["holds"] is False
        ]

    def cheaper_fixed(self) -> str:
        """Return in how many settings of Figure 21 a fixed deployment costs less than a tuned."""
        return "{} of {}".format(*count_cheaper_fixed(self.results))

    def goals(self, result: str) -> str:
        """Return the circumstances of a result, and its figures that have a goal."""
        found = self.results[result]
        with_goals = [each for each in found["figures"] if each["goal"]]
        begin, end = found["load"]
        age = describe_age(found)
        parts = [
            f"*Taken {found['date'][:10]} at commit {found['commit'][:9]}, load {begin:g} at the "
            f"beginning and {end:g} at the end on {found['processors']} processors. "
            f"[All figures](../../benchmarks/results/{result}.json).*"
        ]
        if age:
            parts.append(f"{OLD}{age.removeprefix('of older code')}.*")
        columns: Sequence[str] = ("holds", "value", "goal", "figure")
        cells: Sequence[Sequence[str]] = [*map(_cells_of_figure, with_goals)]
        if len(cells) > 1 and len({goal for _, _, goal, _ in cells}) == 1:
            parts.append(f"Goal of each: {cells[0][2]}.")
            # The goal is stated above the table.
            columns, *cells = [[*each[:2], each[3]] for each in (columns, *cells)]
        if cells:
            parts.append(_render_table(columns, cells))
        return "\n\n".join(parts)

    def rows(self, result: str, *, without_equal: Sequence[str] = ()) -> str:
        """Return a result's tables, each under its title.

        Tables in `without_equal` leave out rows that equal the paper's rerun.
        """
        found = [
            each
            for each in self.results[result]["rows"]
            if not (each["table"] in without_equal and each["match"] == EQUAL)
        ]
        return "\n\n".join(f"### {title}\n\n{_render_rows(rows)}" for title, rows in _group(found))


def _cells_of_figure(figure: Mapping[str, Any]) -> tuple[str, ...]:
    value, goal = figure["value"], figure["goal"] or ""
    shown = "not measured" if value is None else f"{format_number(value, 4)} {figure['unit']}"
    is_open = bool(goal) and figure["holds"] is None
    return (
        NOT_SHOWN if is_open else VERDICTS[figure["holds"]],
        shown.rstrip(),
        goal,
        figure["figure"],
    )


def format_number(value: float, digits: int = 3) -> str:
    """Return whole and large numbers in full, others with so many digits."""
    whole = float(value).is_integer() or abs(value) >= 1000
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def _render_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of one table; a verdict has a column where any row has one."""
    verdicts = [row["match"] or VERDICTS[row["holds"]] for row in rows]
    columns = ["", rows[0]["claim"], "seeds", rows[0]["beside_what"], "ours"]
    cells = [
        [row["row"], verdict, str(row["seeds"]), row["beside"], row["ours"]]
        for row, verdict in zip(rows, verdicts, strict=True)
    ]
    if any(row.get("printed") for row in rows):
        columns.append("with the settings as printed")
        cells = [[*cell, row["printed"] or ""] for cell, row in zip(cells, rows, strict=True)]
    if not any(verdicts):
        columns, *cells = [[each[0], *each[2:]] for each in (columns, *cells)]
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
