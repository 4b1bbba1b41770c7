"""The tunings of a StreamApp for people: what each set and forecast, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.panel import Panel
from rich.table import Table

from weir_operator.tuning.store import Standing, Version


def render_tunings(app: str, versions: Sequence[Version]) -> Panel:
    """Return a panel of versions, which are given with the newest first."""
    lines = Table.grid(padding=(0, 1))
    lines.add_column(width=9, style="bold")
    lines.add_column(overflow="fold")
    for version in versions:
        moment = datetime.fromtimestamp(version.since, UTC)
        lines.add_row("tuning", f"version {version.number} of {moment:%Y-%m-%d %H:%M} UTC")
        lines.add_row("weights", describe_weights(version))
        lines.add_row("budgets", describe_budgets(version))
        lines.add_row("effect", version.sentence)
        lines.add_row("result", describe_standing(version))
        lines.add_row()
    return Panel(lines, title=f"{app} · tunings, the newest first", title_align="left")


def describe_weights(version: Version) -> str:
    """Return how much each part of the cost matters, as parts of one."""
    weights = version.point.weights.normalised()
    return (
        f"violations {weights.violation:.2f}, resources {weights.resources:.2f}, "
        f"restarts {weights.reconfiguration:.2f}"
    )


def describe_budgets(version: Version) -> str:
    """Return what of the bound each operator may use."""
    return ", ".join(f"{name} {1000 * each:.0f} ms" for name, each in version.budgets.items())


def describe_standing(version: Version) -> str:
    """Return whether measurements have confirmed a version, and why not where it has not."""
    trial = version.trial
    if version.standing is Standing.ON_TRIAL:
        beyond = (
            f"; {trial.beyond} more do not count, because more arrived than the tuning has seen"
            if trial.beyond
            else ""
        )
        return (
            f"on trial, interval {trial.intervals} of {version.forecast.intervals}, "
            f"{trial.late} of them over the bound{beyond}"
        )
    words = {
        Standing.KEPT: "kept",
        Standing.ROLLED_BACK: "rolled back",
        Standing.REPLACED: "replaced by a later one",
        Standing.OVERGROWN: "kept without a verdict",
    }
    return words[version.standing] + (f": {version.reason}" if version.reason else "")
