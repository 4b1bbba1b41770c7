"""The live view of a run in the terminal, redrawn after every record.

`render` draws a run and knows nothing of terminals but their size: if it is wide enough, each
operator's decision is in its row; otherwise, below the table. `LiveView` redraws in place on a
terminal, and prints one plain line per record anywhere else, so that a log file stays readable.
Colour never carries a meaning alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from weir_operator.loop.run_record import (
    EventRecord,
    OperatorTick,
    Record,
    RecordedRun,
    RescaleRecord,
    RunSummary,
    TickRecord,
)
from weir_simulator.reports import wording

_BARS = "▁▂▃▄▅▆▇█"
_DECISION_WIDTH = 34
"""Columns that a decision needs at least to stand beside its operator."""
_FOOTER_LINES = 5
_FIGURE = re.compile(r"\d[\d.,:]*")
"""A number: a proposal in which only these change is the same."""
_LEVEL_STYLES = {"info": "", "warning": "yellow", "error": "red"}


def render(run: RecordedRun) -> RenderableType:
    """Draw the run after its last record."""
    return _Picture(run)


def render_line(record: Record) -> str:
    """Return a record as one line for people, without colours."""
    match record:
        case TickRecord():
            return _tick_line(record)
        case RescaleRecord():
            return f"{wording.time_of_day(_last_time(record))} {_change_sentence(record)}"
        case EventRecord():
            return f"{wording.time_of_day(record.time)} {record.level}: {record.message}"
        case RunSummary():
            return _summary_line(record)


class LiveView:
    """Shows a run on a console while it runs; a context manager.

    What is not a terminal gets one line per record.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._run = RecordedRun()
        self._asked = ""
        # Drawn only when something changed: a picture that is the same twice cannot flicker.
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> LiveView:
        """Begin to show."""
        if self._live is not None:
            self._live.start()
            self._live.update(render(self._run), refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last picture where it is."""
        if self._live is not None:
            self._live.stop()

    def show(self, record: Record) -> None:
        """Show one more record."""
        self._run = self._run.with_record(record)
        if self._live is not None:
            self._live.update(render(self._run), refresh=True)
        else:
            self._console.print(self._line(record), markup=False, highlight=False, soft_wrap=True)

    def _line(self, record: Record) -> str:
        """Return a record's line; a proposal that stays as it was is in the first one only."""
        if isinstance(record, TickRecord):
            asked = _FIGURE.sub("#", " ".join(_asked(record)))
            again, self._asked = asked == self._asked, asked
            if again:
                record = replace(
                    record, operators=tuple(replace(each, target=None) for each in record.operators)
                )
        return render_line(record)


@dataclass(frozen=True)
class _Picture:
    run: RecordedRun

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.run.ticks:
            yield Text("Waiting for the first control interval to end.", style="dim")
            yield _footer(self.run)
            return
        tick = self.run.ticks[-1]
        yield _header(self.run, tick, options.max_width)
        for problem in tick.problems:
            yield Text(f"! {problem}", style="yellow")
        yield Text()
        rows = _most_pressed(tick.operators, room=max(4, options.size.height - 16))
        yield _operators_table(rows, options.max_width)
        hidden = len(tick.operators) - len(rows)
        if hidden:
            yield Text(
                f"further from the budget: {wording.counted(hidden, 'operator')}", style="dim"
            )
        yield _footer(self.run)


def _header(run: RecordedRun, tick: TickRecord, width: int) -> RenderableType:
    bound = tick.objective.bound
    now = tick.response_time.of(tick.objective.statistic)
    style, verdict = {
        None: ("dim", "not judged"),
        True: ("bold red", "over"),
        False: ("green", "ok"),
    }[tick.violated]
    points = min(24, max(8, width // 5))
    recent = run.ticks[-points:]
    title = Text.assemble(
        (tick.app, "bold"), f"  {tick.mode}  {wording.clock(tick.elapsed)}", style=""
    )
    money = Text(
        f"{wording.money(tick.cost_per_hour)} per hour,"
        f" {wording.money(tick.cost)} paid  restarts {tick.restarts}"
    )
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_row(title, money)

    gauges = Table.grid(padding=(0, 1))
    gauges.add_column(style="dim")
    gauges.add_column(justify="right", min_width=9)  # `unbounded`: nothing moves when values do
    gauges.add_column()
    gauges.add_column()
    gauges.add_row(
        "rate",
        f"{wording.rate(tick.rate)} /s",
        Text(_sparkline(each.rate for each in recent), style="blue"),
        Text(f"backlog {wording.rate(tick.backlog)}", style="dim"),
    )
    gauges.add_row(
        "response",
        Text(wording.seconds(now), style=style),
        Text(
            _sparkline(each.response_time.of(each.objective.statistic) for each in recent),
            style=style,
        ),
        Text.assemble(
            (f"{verdict} ", style),
            (f"{tick.objective.statistic} at most {wording.seconds(bound)}", "dim"),
        ),
    )
    return Group(grid, gauges)


def _operators_table(operators: tuple[OperatorTick, ...], width: int) -> RenderableType:
    names = sorted({name for each in operators for name in each.replicas})
    # Operator, rate, busy and response with their spacing, then a column per node type.
    fixed = 2 + max(len(each.name) for each in operators) + 9 + 8 + 20
    by_type = fixed + sum(2 + _header_width(name) for name in names) <= width
    taken = fixed + (sum(2 + _header_width(name) for name in names) if by_type else 26)
    beside = width - taken >= _DECISION_WIDTH

    table = Table(box=None, expand=beside, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("operator", no_wrap=True)
    for name in names if by_type else ():
        table.add_column(name.replace("/", "\n"), justify="right", no_wrap=True)
    if not by_type:
        table.add_column("replicas")
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("busy", justify="right", no_wrap=True)
    table.add_column("response of budget", justify="right", no_wrap=True)
    if beside:
        table.add_column("last decision", ratio=1)
    for each in operators:
        counts = (
            [str(each.replicas.get(name, "") or "") for name in names]
            if by_type
            else [wording.replicas(each.replicas)]
        )
        table.add_row(
            Text(each.name),
            *counts,
            wording.rate(each.rate),
            wording.share(each.utilisation),
            _response_of_budget(each),
            *([_decision(each)] if beside else []),
        )
    if beside:
        return table
    decisions = Table.grid(padding=(0, 2, 0, 0))
    decisions.add_column(no_wrap=True)
    decisions.add_column()
    for each in operators:
        decisions.add_row(Text(each.name), _decision(each))
    return Group(table, Text(), decisions)


def _header_width(name: str) -> int:
    return max(len(part) for part in name.split("/"))


def _response_of_budget(operator: OperatorTick) -> Text:
    style = "red" if operator.response_time > operator.budget else ""
    return Text.assemble(
        (wording.seconds(operator.response_time), style),
        (f" / {wording.seconds(operator.budget):>7}", "dim"),
    )


def _decision(operator: OperatorTick) -> Text:
    if operator.target is None:
        return Text(operator.reason, style="dim")
    return Text(f"→ {wording.replicas(operator.target)}. {_say_what_became(operator)}")


def _say_what_became(operator: OperatorTick) -> str:
    if not operator.verdict:
        return operator.reason
    return f"{operator.reason.rstrip('.')}. {operator.verdict}"


def _most_pressed(operators: tuple[OperatorTick, ...], *, room: int) -> tuple[OperatorTick, ...]:
    """Return those nearest to their budgets, as many as fit, in the given order."""

    def pressure(operator: OperatorTick) -> float:
        used = operator.response_time / operator.budget if operator.budget else math.nan
        return math.inf if math.isnan(used) else used  # unknown is worth seeing

    shown = {each.name for each in sorted(operators, key=pressure, reverse=True)[:room]}
    return tuple(each for each in operators if each.name in shown)


def _footer(run: RecordedRun) -> RenderableType:
    happened = [
        (event.time, Text(event.message, style=_LEVEL_STYLES[event.level])) for event in run.events
    ]
    happened += [
        (
            change.started,
            Text(
                _change_sentence(change),
                style="" if change.outcome in ("done", "running") else "yellow",
            ),
        )
        for change in run.rescales
    ]
    happened.sort(key=lambda entry: entry[0])
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for time, sentence in happened[-_FOOTER_LINES:]:
        grid.add_row(wording.time_of_day(time), sentence)
    return Group(Text(), grid) if happened else Group()


def _last_time(change: RescaleRecord) -> float:
    """Return when the last thing of a change happened: lines are in the order of time."""
    return max((each.time for each in change.steps), default=change.started)


def _change_sentence(change: RescaleRecord) -> str:
    what = wording.difference(change.before, change.after) or change.reason
    if change.finished is None:
        step = f": {change.steps[-1].name}" if change.steps else ""
        return f"{change.kind} in progress{step}; {what}"
    gap = "" if change.gap is None else f", no output for {wording.seconds(change.gap)}"
    return f"{change.kind} {wording.outcome(change.outcome)}{gap}; {what}"


def _sparkline(values: Iterable[float]) -> str:
    """Return the values as bars between zero and the highest; a blank where one is unknown."""
    series = list(values)
    finite = [value for value in series if math.isfinite(value)]
    highest = max(finite, default=0.0)
    if highest <= 0:
        return "".join(_BARS[0] if math.isfinite(value) else " " for value in series)
    return "".join(_bar(value, highest) for value in series)


def _bar(value: float, highest: float) -> str:
    if math.isnan(value):
        return " "
    share = min(1.0, value / highest)  # what is unbounded is as high as a bar can be
    return _BARS[round(share * (len(_BARS) - 1))]


def _tick_line(tick: TickRecord) -> str:
    line = (
        f"{wording.time_of_day(tick.time)} {_measured(tick)}, "
        f"{wording.money(tick.cost_per_hour)} per hour, restarts {tick.restarts}"
    )
    return " | ".join([line, *tick.problems, *_asked(tick)])


def _measured(tick: TickRecord) -> str:
    now = tick.response_time.of(tick.objective.statistic)
    bound = wording.seconds(tick.objective.bound)
    if math.isnan(now) and math.isnan(tick.rate):
        counts = {
            None: "the interval does not count",
            True: f"the interval counts as over {bound}",
            False: f"the interval counts as within {bound}",
        }
        return f"no measurement: {counts[tick.violated]}"
    verdict = {None: "not judged", True: "over", False: "ok"}[tick.violated]
    return (
        f"rate {wording.rate(tick.rate)}/s, {tick.objective.statistic} response "
        f"{wording.seconds(now)} of {bound} {verdict}, backlog {wording.rate(tick.backlog)}"
    )


def _asked(tick: TickRecord) -> list[str]:
    return [
        f"{each.name} → {wording.replicas(each.target)}: {_say_what_became(each)}"
        for each in tick.operators
        if each.target is not None
    ]


def _summary_line(summary: RunSummary) -> str:
    kept = summary.intervals - summary.violations
    proof = (
        ""
        if summary.lost is None or summary.doubled is None
        else f", {wording.counted(summary.lost, 'record')} lost, {summary.doubled:,} doubled"
    )
    return (
        f"{summary.app}: {kept} of {summary.intervals} intervals within the bound, "
        f"mean response {wording.seconds(summary.response_mean)}, "
        f"p95 {wording.seconds(summary.response_p95)}, cost {wording.money(summary.cost)}, "
        f"{wording.counted(summary.restarts, 'restart')}, "
        f"{wording.counted(summary.resizes, 'resize')}{proof}"
    )
