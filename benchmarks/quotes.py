"""Numbers in the sentences of other pages, and where they come from.

Each is found by the words around it: a pattern with one group, which the number fills.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.raw_results import ResultError, read_result
from weir_policies import registry

OVER_LIMIT = "planner / clairvoyant, geometric mean of 12 columns"
EVERY_MINUTE = "deciding every minute"
WORST_MINUTE = "worst error of a complete minute"
VIOLATIONS = 5
"""Place of the violations in a row of EDF's table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """One number on a page."""

    page: str
    """Path below the repository."""
    pattern: str
    """The number, a group, and enough words around it to be there once; a space is any gap."""
    say: Callable[[Path], str]
    """Returns the number, given the folder of the results."""


def quote(text: str, page: str, results: Path) -> str:
    """Return a page with its quoted numbers as the results have them.

    Raises:
        ResultError: A quoted sentence is not there, or more than once.
    """
    for each in QUOTES:
        if each.page == page:
            found = list(re.finditer(each.pattern.replace(" ", r"\s+"), text))
            if len(found) != 1:
                raise ResultError(
                    f"Expected the words {each.pattern!r} once in {page}, got them {len(found)} "
                    "times: correct the page or benchmarks/quotes.py"
                )
            begin, end = found[0].span(1)
            text = text[:begin] + each.say(results) + text[end:]
    return text


def _figure(benchmark: str, figure: str, form: str = "{:g}") -> Callable[[Path], str]:
    def say(results: Path) -> str:
        value = read_result(benchmark, results).find(figure).value
        return "not measured" if value is None else form.format(value)

    return say


def _count_policies(_: Path) -> str:
    return str(len(registry.names()) - 1)


def _cell(benchmark: str, table: str, row: str, place: int) -> Callable[[Path], str]:
    """Return what says one of the numbers of a row, those of ours between slashes."""

    def say(results: Path) -> str:
        for each in read_result(benchmark, results).rows:
            if each.table.startswith(table) and each.row == row:
                return each.ours.split(" / ")[place]
        raise ResultError(
            f"Expected a row {row!r} in a table {table!r} of the result of {benchmark}, got none: "
            "correct benchmarks/quotes.py, or run the benchmark again"
        )

    return say


def _saving_with_bursts(choose: Callable[[Iterable[float]], float]) -> Callable[[Path], str]:
    """Return what says how much less QL+PDS+ costs than the better threshold, tweets on A."""

    def say(results: Path) -> str:
        cost = {
            (row.table, *row.row.split(", ")): float(row.ours.split(" ")[0])
            for row in read_result("reproduce-tables", results).rows
            if row.table in ("Table 4", "Table 5")
        }
        savings = [
            1 - ours / min(cost[table, each, "A", types] for each in ("TB-C", "TB-S"))
            for (table, policy, infrastructure, types), ours in cost.items()
            if (policy, infrastructure) == ("QL+PDS+", "A")
        ]
        return f"{100 * choose(savings):.0f}"

    return say


EDF_SETTLED = "Table 1, without 2 min after each reconfiguration"
EDF_ALL = "Table 1, ours on all slots: "
QUOTES = (
    Quote(page="README.md", pattern=r"There are \[(\d+) others\]", say=_count_policies),
    Quote(
        page="README.md",
        pattern=r"kept the bound of 500 ms in (\S+) % of the intervals",
        say=_figure("demo-policies", "queueing: intervals within the bound", "{:.0f}"),
    ),
    Quote(
        page="README.md",
        pattern=r"(\S+) % of the cost of a deployment sized for the peak",
        say=_figure("demo-policies", "queueing: cost against static", "{:.0f}"),
    ),
    Quote(
        page="README.md",
        pattern=r"for the peak, with (\d+) restarts",
        say=_figure("demo-policies", "queueing: restarts"),
    ),
    Quote(
        page="README.md",
        pattern=r"was (\S+) times the optimum on taxi",
        say=_figure("planner", f"taxi: {OVER_LIMIT}", "{:.2f}"),
    ),
    Quote(
        page="README.md",
        pattern=r"on taxi traffic and (\S+) times on tweets",
        say=_figure("planner", f"tweets: {OVER_LIMIT}", "{:.2f}"),
    ),
    Quote(
        page="README.md",
        pattern=r"`planner` costs least in (\d+) of the 24 settings",
        say=_figure("planner", "columns in which the planner costs least, moves of one replica"),
    ),
    Quote(
        page="docs/operating.md",
        pattern=r"KiB a decision: (\d+) to \d+ MiB a month",
        say=_figure("records", f"an operator's month of planner, {EVERY_MINUTE}", "{:.0f}"),
    ),
    Quote(
        page="docs/operating.md",
        pattern=r"KiB a decision: \d+ to (\d+) MiB a month",
        say=_figure("records", f"an operator's month of queueing, {EVERY_MINUTE}", "{:.0f}"),
    ),
    Quote(
        page="docs/pipelines.md",
        pattern=r"at most (\S+) % off at scrapes of 5 s",
        say=_figure("pipelines-roundtrip", f"{WORST_MINUTE}, scraped every 5 s", "{:.1f}"),
    ),
    Quote(
        page="docs/pipelines.md",
        pattern=r"at scrapes of 5 s, (\S+) % at 15 s",
        say=_figure("pipelines-roundtrip", f"{WORST_MINUTE}, scraped every 15 s", "{:.0f}"),
    ),
    Quote(
        page="docs/policies.md",
        pattern=r"one exception, and (\d+) to \d+ % less with bursts",
        say=_saving_with_bursts(min),
    ),
    Quote(
        page="docs/policies.md",
        pattern=r"one exception, and \d+ to (\d+) % less with bursts",
        say=_saving_with_bursts(max),
    ),
    Quote(
        page="docs/policies.md",
        pattern=r"broke the bound in (\S+) % of the slots, and `ql-edf`",
        say=_cell("edf", EDF_ALL, "ql perf=res, token bucket", VIOLATIONS),
    ),
    Quote(
        page="docs/policies.md",
        pattern=r"of the slots, and `ql-edf` in (\S+) %",
        say=_cell("edf", EDF_ALL, "QL perf=res, token bucket", VIOLATIONS),
    ),
    Quote(
        page="docs/policies.md",
        pattern=r"after each reconfiguration, `ql` in (\S+) % and",
        say=_cell("edf", EDF_SETTLED, "ql perf=res, token bucket", VIOLATIONS),
    ),
    Quote(
        page="docs/policies.md",
        pattern=r"after each reconfiguration, `ql` in \S+ % and `ql-edf` in (\S+) %",
        say=_cell("edf", EDF_SETTLED, "QL perf=res, token bucket", VIOLATIONS),
    ),
)
