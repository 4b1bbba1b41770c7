"""How the keys of operators share their records, in words and for the terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from weir_operator.metrics.keys import KeyReport

WIDTH = 40
"""Characters of the longest bar."""
MOST_BARS = 20
"""Replicas that are drawn, the fullest of all among them."""


def describe_shares(report: KeyReport) -> str:
    """Return what the fullest replica and the heaviest keys get, one sentence."""
    size = len(report.replicas)
    sentence = "its only replica gets all of the records"
    if size > 1:
        sentence = (
            f"the fullest of {size} replicas gets {report.fullest:.1%} of the records, one part in "
            f"{size} is {1 / size:.1%}"
        )
    if report.work is not None and size > 1:
        sentence += f", and one replica has {report.work:.1%} of the work, by the time of records"
    sentence += f"; key group {report.heaviest} has {report.heaviest_share:.1%}"
    keys = ", ".join(f"{each.label} {each.share:.1%}" for each in report.heavy)
    return f"{sentence}; heaviest keys: {keys}" if keys else sentence


def draw_shares(report: KeyReport) -> Table:
    """Return a bar for each replica, by subtask, across a mark at the mean.

    Of many, they are the first and the fullest.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    fullest, mean = report.replicas.index(report.fullest), 1 / len(report.replicas)
    marked = round(WIDTH * mean / report.fullest)
    for place, share in enumerate(report.replicas):
        if place < MOST_BARS - 1 or place == fullest:
            length = max(1, round(WIDTH * share / report.fullest)) if share else 0
            bar = ("#" * length).ljust(marked)
            style = "bold" if place == fullest else ""
            table.add_row(
                str(place), f"{share:.1%}", Text(f"{bar[:marked]}|{bar[marked:]}"), style=style
            )
    table.add_row("mean", f"{mean:.1%}", Text("|".rjust(marked + 1)), style="dim")
    return table


def render_keys(reports: Mapping[str, KeyReport]) -> RenderableType:
    """Return the shares of every operator whose keys are counted."""
    parts: list[RenderableType] = []
    for name, report in reports.items():
        parts += [Text(f"{name}: {describe_shares(report)}"), draw_shares(report), Text()]
    return Group(*parts)
