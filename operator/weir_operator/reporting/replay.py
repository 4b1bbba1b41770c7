"""A replay for people in the terminal, and for programs as JSON. Pure.

The terminal shows the decisions where something changes: an operator's proposal or deployment,
recorded or replayed. JSON shows the intervals, too, as does the page (`replay_page`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from weir_operator.loop.replay import Choice, Replay, ReplayedDecision, ReplayedInterval
from weir_operator.reporting.plain import replace_non_finite
from weir_simulator.reports import wording

MAX_ROWS = 40
"""Decisions in the terminal, the newest; the page and JSON have them all."""
WIDE = 120
"""Columns from which on the two sides of a decision stand beside each other."""

_PLAIN = TypeAdapter(Replay)


def to_plain(replay: Replay) -> object:
    """Return the replay as JSON values; what is unknown is null, what is unlimited "Infinity"."""
    return replace_non_finite(_PLAIN.dump_python(replay, mode="json"))


Changed = tuple[ReplayedInterval, ReplayedDecision]


def find_changes(intervals: Iterable[ReplayedInterval]) -> list[Changed]:
    """Return the decisions that propose a change, without those that only repeat the last one."""
    last: dict[str, tuple[object, ...]] = {}
    found = []
    for interval in intervals:
        for each in interval.decisions:
            key = (
                dict(each.was.deployment),
                dict(each.was.target),
                each.was.granted,
                dict(each.would.deployment),
                dict(each.would.target),
                each.would.granted,
            )
            proposes = each.was.changes or each.would.changes
            if proposes and last.get(each.operator) != key:
                found.append((interval, each))
            last[each.operator] = key
    return found


def render_replay(replay: Replay) -> RenderableType:
    """Return the replay for the terminal."""
    heading = Text.assemble((f"{replay.app}: ", "bold"), describe_span(replay))
    changed = find_changes(replay.intervals)
    parts: list[RenderableType] = [heading, Text(), _totals(replay), Text()]
    if changed:
        parts.append(_Decisions(changed[-MAX_ROWS:]))
        if len(changed) > MAX_ROWS:
            parts.append(
                Text(
                    f"The newest {MAX_ROWS} of {len(changed):,} decisions that propose another "
                    "change than the one before; --report and --json have all",
                    style="dim",
                )
            )
    else:
        parts.append(Text("Neither side ever proposed another deployment."))
    parts.append(Text())
    notices = Table.grid(padding=(0, 1))
    notices.add_column()
    notices.add_column(overflow="fold")
    for notice in replay.notices:
        notices.add_row("-", notice)
    parts += [Text("What this replay does not know", style="bold"), notices]
    return Group(*parts)


def describe_span(replay: Replay) -> str:
    """Return the time and the intervals of a replay."""
    return (
        f"{wording.date_and_time(replay.since)} to {wording.date_and_time(replay.until)} UTC, "
        f"{wording.counted(replay.totals.intervals, 'interval')}"
    )


def name_sides(replay: Replay) -> tuple[str, str]:
    """Return the names of the two sides: policy and objective of each."""
    stat = "" if replay.statistic == "mean" else f" ({replay.statistic})"
    return (
        f"{replay.was_policy or 'nothing decided'}, {wording.seconds(replay.was_bound)}{stat}",
        f"{replay.policy}, {wording.seconds(replay.bound)}{stat}",
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """A total of both sides."""

    label: str
    was: str
    would: str
    change: str = ""
    """How much of a difference that is."""


def list_figures(replay: Replay) -> list[Figure]:
    """Return the totals of both sides."""
    totals, was, would = replay.totals, replay.totals.was, replay.totals.would
    bound = wording.seconds(replay.bound)
    change = f"{100 * (would.cost / was.cost - 1):+.1f} %" if was.cost else ""
    return [
        Figure("cost", wording.money(was.cost), wording.money(would.cost), change),
        Figure(
            f"intervals over {bound}, predicted",
            _part(was.late, totals.predicted),
            _part(would.late, totals.predicted),
        ),
        Figure(
            f"intervals over {bound}, measured",
            _part(totals.measured_late, totals.measured),
            wording.UNKNOWN,
        ),
        Figure("restarts", str(was.restarts), str(would.restarts)),
        Figure("resizes in place", str(was.resizes), str(would.resizes)),
        Figure("replicas on average", f"{was.replicas:.1f}", f"{would.replicas:.1f}"),
    ]


def count_equal(replay: Replay) -> str:
    """Return how many decisions are the same, one sentence."""
    totals = replay.totals
    if not totals.comparable:
        return "No decision was made in equal deployments"
    return (
        f"In equal deployments, {totals.equal:,} of "
        f"{wording.counted(totals.comparable, 'decision')} are the same"
    )


def _totals(replay: Replay) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    was, would = name_sides(replay)
    table.add_column(f"recorded\n{was}", justify="right", overflow="fold")
    table.add_column(f"replayed\n{would}", justify="right", overflow="fold")
    for each in list_figures(replay):
        change = f" ({each.change})" if each.change else ""
        table.add_row(each.label, each.was, f"{each.would}{change}")
    return Group(table, Text(count_equal(replay)))


def _part(count: int, of: int) -> str:
    return f"{count:,} of {of:,}"


class _Decisions:
    """The table of decisions, which stands in two lines a decision on a narrow terminal."""

    def __init__(self, changed: Sequence[Changed]) -> None:
        self._changed = changed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        days = {wording.date_and_time(interval.time)[:10] for interval, _ in self._changed}
        when: Callable[[float], str] = (
            wording.date_and_time if len(days) > 1 else wording.time_of_day
        )
        if options.max_width >= WIDE:
            yield self._wide(when)
        else:
            yield self._narrow(when)

    def _wide(self, when: Callable[[float], str]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("time", no_wrap=True)
        table.add_column("operator", overflow="fold")
        table.add_column("records/s", justify="right")
        table.add_column("recorded", ratio=1, overflow="fold")
        table.add_column("replayed", ratio=1, overflow="fold")
        for interval, each in self._changed:
            table.add_row(
                when(interval.time),
                each.operator,
                wording.rate(each.rate),
                describe_choice(each.was),
                describe_choice(each.would),
                style="" if differs(each) else "dim",
            )
        return table

    def _narrow(self, when: Callable[[float], str]) -> Group:
        lines: list[RenderableType] = []
        for interval, each in self._changed:
            style = "bold" if differs(each) else "dim"
            lines.append(
                Text(
                    f"{when(interval.time)} {each.operator}, {wording.rate(each.rate)} records/s",
                    style=style,
                )
            )
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=len("recorded"))
            grid.add_column(overflow="fold")
            grid.add_row("recorded", describe_choice(each.was))
            grid.add_row("replayed", describe_choice(each.would))
            lines.append(Padding(grid, (0, 0, 0, 2)))
        return Group(*lines)


def differs(each: ReplayedDecision) -> bool:
    """Return whether the two sides were in different deployments, or decided differently."""
    return (each.was.deployment, each.was.target, each.was.granted) != (
        each.would.deployment,
        each.would.target,
        each.would.granted,
    )


def describe_choice(choice: Choice) -> str:
    """Return a choice as people read it: 2 small/1 → 3 small/1, or why it was denied."""
    now = wording.replicas(choice.deployment)
    if not choice.changes:
        return f"{now}, stays"
    denied = "" if choice.granted else f"; {choice.verdict or 'not carried out'}"
    return f"{now} → {wording.replicas(choice.target)}{denied}"
