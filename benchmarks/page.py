"""Write the pages of figures from the kept results: `python -m benchmarks.page`.

    python -m benchmarks.page            write them
    python -m benchmarks.page --check    fail where one is stale, write nothing

`docs/reproduction.md` and `docs/figures.md` are rendered from the templates in `benchmarks/pages`.
Tables come from the results; some sentences of the templates hold measured numbers, which are to be
corrected by hand when a benchmark runs again. `quotes.py` names the numbers in sentences of other
pages, which are written from the results, and so is the table of jobs in `docs/adopting.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from benchmarks.cluster.chaos.verdict import compare_recoveries, compare_seeds
from benchmarks.figures import NOT_SHOWN, format_number
from benchmarks.flink import any_job
from benchmarks.papers import (
    autrascale,
    edf,
    edf_routes,
    reproduce_am,
    reproduce_deep,
    reproduce_encodings,
    reproduce_figures,
    reproduce_mdp18,
    reproduce_tables,
)
from benchmarks.papers.departures import Departure
from benchmarks.pictures import FOLDER as PICTURES
from benchmarks.policies import live_policies, planner
from benchmarks.quotes import QUOTES, quote
from benchmarks.raw_results import FOLDER, Result, ResultError, Table, read_result
from benchmarks.rows import Row

ROOT = PICTURES.parents[1]
TEMPLATES = Path(__file__).parent / "pages"
VERDICTS = {True: "yes", False: "**no**", None: ""}
REPRODUCTIONS = {
    "reproduce-tables": reproduce_tables,
    "reproduce-deep": reproduce_deep,
    "reproduce-encodings": reproduce_encodings,
    "reproduce-figures": reproduce_figures,
    "reproduce-am": reproduce_am,
    "reproduce-mdp18": reproduce_mdp18,
    "edf": edf,
    "edf-routes": edf_routes,
    "autrascale": autrascale,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A result as the templates ask for it."""

    result: Result

    def say(self, figure: str) -> str:
        """Return a figure with its unit."""
        found = self.result.find(figure)
        if found.value is None:
            return "not measured"
        return f"{format_number(found.value)} {found.unit}".rstrip()

    def ours(self, table: str, row: str) -> str:
        """Return what a row says of ours.

        Raises:
            ResultError: There is no such row.
        """
        for each in self.result.rows:
            if (each.table, each.row) == (table, row):
                return each.ours
        raise ResultError(
            f"Expected a row {row!r} in the table {table!r} of the result of "
            f"{self.result.benchmark}, got none: correct the page's template"
        )

    def table(self, title: str) -> str:
        """Return a table of a recorded result.

        Raises:
            ResultError: It has none of that title, as after a run.
        """
        if title not in self.result.tables:
            raise ResultError(
                f"Expected the table {title!r} in the result of {self.result.benchmark}, got none: "
                "let its section in benchmarks/pages show r.figures() instead"
            )
        return render_table(self.result.tables[title])

    def figures(self, *, without: Sequence[str] = ()) -> str:
        """Return all figures as a table, but for those whose names begin so."""
        shown = [
            (
                figure.figure,
                self.say(figure.figure),
                figure.goal or "",
                NOT_SHOWN if figure.is_open else VERDICTS[figure.holds],
            )
            for figure in self.result.figures
            if not figure.figure.startswith(tuple(without))
        ]
        return render_table(Table(columns=("figure", "value", "goal", "holds"), cells=tuple(shown)))

    def rows(self) -> str:
        """Return the rows, a table for each part under a heading."""
        return "\n\n".join(
            f"### {title}\n\n{render_rows(rows)}" for title, rows in group(self.result.rows)
        )

    def departures(self) -> str:
        """Return the settings that are not the paper's."""
        listed: list[Departure] = REPRODUCTIONS[self.result.benchmark].list_departures()
        return render_table(
            Table(
                columns=("setting", "the paper", "here", "why"),
                cells=tuple((each.what, each.paper, each.here, each.why) for each in listed),
            )
        )

    def taken(self) -> str:
        """Return when, of which code and on how busy a machine it was taken."""
        result = self.result
        if result.recorded is not None or result.load is None:
            return f"*Recorded: {result.recorded}.*"
        day = (result.date or "")[:10]
        commit = (result.commit or "unknown")[:9]
        dirty = " and uncommitted changes" if (result.commit or "").endswith("-dirty") else ""
        begin, end = result.load
        return (
            f"*Taken {day} at commit {commit}{dirty}, load {begin:g} at the beginning and {end:g} "
            f"at the end on {result.processors} processors.*"
        )


def main(arguments: Sequence[str], results: Path = FOLDER) -> int:
    """Write or check the pages; return the exit status."""
    try:
        pages = render_pages(results)
    except ResultError as error:
        print(error, file=sys.stderr)
        return 1
    stale = {path: text for path, text in pages.items() if _read(path) != text}
    for path, text in stale.items():
        name = path.relative_to(ROOT)
        if "--check" in arguments:
            print(f"{name} is not what the results say: write it with make pages", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(name)
    return 1 if stale and "--check" in arguments else 0


def render_pages(results: Path = FOLDER) -> dict[Path, str]:
    """Return what each page should hold.

    Raises:
        ResultError: A result that a page quotes is not there, or lacks what is quoted.
    """

    def show(name: str) -> Shown:
        return Shown(result=read_result(name, results))

    environment = jinja2.Environment(
        autoescape=False,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FileSystemLoader(TEMPLATES),
    )
    pages = {
        ROOT / "docs" / name: environment.get_template(f"{name}.j2").render(
            result=show,
            has_result=lambda name: (results / f"{name}.json").exists(),
            pictures=list_pictures,
            chaos_seeds=lambda *seeds: render_table(
                compare_seeds([read_result(f"chaos-{seed}", results) for seed in seeds])
            ),
            planner=lambda: render_table(planner.table_of(read_result("planner", results))),
            live_policies=lambda: render_table(
                live_policies.table_of(read_result("live-policies", results))
            ),
            chaos_recoveries=lambda *seeds: render_table(
                compare_recoveries([read_result(f"chaos-{seed}", results) for seed in seeds])
            ),
        )
        for name in ("reproduction.md", "figures.md")
    }
    for page in dict.fromkeys(each.page for each in QUOTES):
        path = ROOT / page
        pages[path] = quote(pages.get(path, _read(path)), page, results)
    adopting = ROOT / "docs/adopting.md"
    pages[adopting] = replace_table(
        pages.get(adopting, _read(adopting)),
        "any-job",
        any_job.table_of(read_result("any-job", results)),
    )
    return pages


def replace_table(text: str, name: str, table: Table) -> str:
    """Return a page with this table between the two comments of its name.

    Raises:
        ResultError: The comments are not there.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ResultError(f"Expected {begin.strip()!r} and {end!r} around a table, got neither")
    return f"{before}{begin}{render_table(table)}\n{end}{after}"


def render_table(table: Table) -> str:
    """Return a table in Markdown."""
    lines = [table.columns, ("---",) * len(table.columns), *table.cells]
    first, dashes, *others = lines
    return "\n".join(
        [
            f"| {' | '.join(first)} |",
            f"|{'|'.join(dashes)}|",
            *(f"| {' | '.join(cells)} |" for cells in others),
        ]
    )


def render_rows(rows: Sequence[Row]) -> str:
    """Return the rows of one table in Markdown; a verdict has a column where any row has one."""
    columns = ["", rows[0].beside_what, "ours", "seeds"]
    cells = [[row.row, row.beside, row.ours, str(row.seeds)] for row in rows]
    verdicts = [row.match or VERDICTS[row.holds] for row in rows]
    if any(verdicts):
        columns.append(rows[0].claim)
        cells = [[*cell, verdict] for cell, verdict in zip(cells, verdicts, strict=True)]
    return render_table(Table(columns=tuple(columns), cells=tuple(map(tuple, cells))))


def group(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows by table, in order."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(row.table, []).append(row)
    yield from tables.items()


def list_pictures(*prefixes: str) -> str:
    """Return the pictures whose names begin so, in order."""
    return "\n\n".join(
        f"![{path.stem}](pictures/{path.name})"
        for prefix in prefixes
        for path in sorted(PICTURES.glob(f"{prefix}*.svg"))
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
