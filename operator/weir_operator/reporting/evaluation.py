"""An evaluation for people and for programs: the terminal, an HTML page, JSON. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import TypeAdapter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from weir_operator.reporting.plain import replace_non_finite
from weir_simulator.reports import page, wording
from weir_simulator.reports.page import SERIES, Json, figure_layout
from weir_simulator.switchback import (
    CONFIDENCE,
    INTERVAL_PAIRS,
    MIN_PAIRS,
    BlockTotals,
    Comparison,
    Design,
    Effect,
    ExperimentResult,
    Side,
)

REFUSED = "baseline refused"
COLOURS = {Side.WEIR: SERIES[0], Side.BASELINE: SERIES[1], REFUSED: SERIES[2]}


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationTotals:
    """What the judged time of all blocks of one side comes to."""

    blocks: int
    """Those with judged time."""
    hours: float
    cost_per_hour: float
    """Currency; NaN without judged time, as the next."""
    late: float
    """Share of intervals over the bound."""
    restarts: int

    @property
    def restarts_per_hour(self) -> float:
        """NaN without judged time."""
        return self.restarts / self.hours if self.hours else math.nan


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationReport:
    """What an evaluation has come to so far."""

    app: str
    began: float
    """Unix time."""
    until: float
    """Unix time of its last interval."""
    policy: str
    """Weir's."""
    bound: float
    """The objective, seconds."""
    statistic: str
    design: Design
    ended: str
    """What its end was reported with; empty where no end is known."""
    standby: bool
    """Whether Weir keeps standby TaskManagers."""
    weir: EvaluationTotals
    baseline: EvaluationTotals
    estimate: ExperimentResult | None
    """`None` where too few pairs of blocks are over."""
    blocks: dict[int, BlockTotals]


_PLAIN = TypeAdapter(EvaluationReport)


def to_plain(report: EvaluationReport) -> object:
    """Return the evaluation as JSON values; unknown is null, unlimited is "Infinity"."""
    return replace_non_finite(_PLAIN.dump_python(report, mode="json"))


@dataclass(frozen=True, slots=True)
class _Figure:
    """What was compared, of both sides."""

    label: str
    weir: str
    baseline: str
    difference: str
    interval: str
    found: bool


def _figures(report: EvaluationReport) -> list[_Figure]:
    weir, baseline, found = report.weir, report.baseline, report.estimate

    def figure(
        label: str,
        of: Callable[[float], str],
        measured: tuple[float, float],
        effect: Comparison | None,
        *,
        difference: Callable[[float], str] | None = None,
    ) -> _Figure:
        # Of the pairs that count, so that the difference is that of the two columns.
        sides = measured if effect is None else (effect.weir, effect.baseline)
        left, right = (wording.UNKNOWN if math.isnan(side) else of(side) for side in sides)
        return _Figure(label, left, right, *_difference(effect, difference or of))

    return [
        _Figure(
            "cost, relative",
            wording.UNKNOWN,
            wording.UNKNOWN,
            *_difference(None if found is None else found.relative_cost, wording.share),
        ),
        figure(
            "cost per hour",
            wording.money,
            (weir.cost_per_hour, baseline.cost_per_hour),
            None if found is None else found.cost,
        ),
        figure(
            f"intervals over {wording.seconds(report.bound)}",
            wording.share,
            (weir.late, baseline.late),
            None if found is None else found.late,
            difference=lambda value: f"{100 * value:.1f} points",
        ),
        figure(
            "restarts per hour",
            lambda value: f"{value:.2f}",
            (weir.restarts_per_hour, baseline.restarts_per_hour),
            None if found is None else found.restarts,
        ),
    ]


def _difference(effect: Effect | None, of: Callable[[float], str]) -> tuple[str, str, bool]:
    """Return a difference, its interval, and whether one was found."""
    if effect is None:
        return wording.UNKNOWN, wording.UNKNOWN, False
    interval = (
        wording.UNKNOWN
        if math.isnan(effect.low)
        else f"{_signed(effect.low, of)} to {_signed(effect.high, of)}"
    )
    return _signed(effect.mean, of), interval, effect.found


def _signed(value: float, of: Callable[[float], str]) -> str:
    if not math.isfinite(value):
        return wording.UNKNOWN
    return f"{'-' if value < 0 else '+'}{of(abs(value))}"


def summarise(report: EvaluationReport) -> str:
    """Return what was found, one sentence."""
    found = report.estimate
    if found is None:
        return f"Nothing can be said before {MIN_PAIRS} pairs of blocks are measured"
    cost, over = found.relative_cost, wording.counted(found.pairs, "pair") + " of blocks"
    if found.pairs < INTERVAL_PAIRS:
        return f"Chance cannot be judged before {INTERVAL_PAIRS} pairs of blocks are measured"
    if math.isnan(cost.low):
        return f"The costs of {over} do not say how much is chance"
    low, high = (_signed(each, wording.share) for each in (cost.low, cost.high))
    if not cost.found:
        return f"No difference in cost was found over {over}: it is between {low} and {high}"
    word = "less" if cost.mean < 0 else "more"
    return (
        f"Weir costs {wording.share(abs(cost.mean))} {word} than the baseline over {over}; with "
        f"{wording.share(CONFIDENCE)} confidence between {low} and {high}"
    )


def _notices(report: EvaluationReport) -> list[str]:
    """Return what to know of the figures, a sentence each."""
    said = [
        "The first quarter of each block is not judged; neither are restarts into the baseline",
        "What a policy had not finished by then still counts against its side",
    ]
    if report.estimate is not None:
        said.append(
            "Costs per hour are those at the mean rate of the pairs that count, the other figures "
            "are means over these pairs"
        )
    if report.standby:
        said.append(
            "Standby TaskManagers count on Weir's side alone: a deployment that stays as it is "
            "needs none"
        )
    refused = [number + 1 for number, each in sorted(report.blocks.items()) if each.refused]
    if refused:
        said.insert(
            0,
            f"The baseline was refused in {wording.counted(len(refused), 'block')} "
            f"({', '.join(map(str, refused))}): Weir decided there, so their pairs do not count. "
            "The event EvaluationHeld says why",
        )
    found = report.estimate
    unmeasured = 0 if found is None else found.left_out - len(refused)
    if unmeasured > 0:
        said.append(
            f"{wording.counted(unmeasured, 'pair')} of blocks do not count, because less than "
            "half of the judged time of a block was measured"
        )
    if report.ended:
        said.insert(0, report.ended)
    return said


def _span(report: EvaluationReport) -> str:
    design = report.design
    began, until = wording.date_and_time(report.began), wording.date_and_time(report.until)
    return (
        f"{began} to {until} UTC, policy {report.policy}, "
        f"{wording.counted(report.weir.blocks + report.baseline.blocks, 'block')} of "
        f"{2 * design.pairs} measured, {wording.clock(design.block)} each"
    )


def render_evaluation(report: EvaluationReport) -> RenderableType:
    """Return the evaluation for the terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name == "" else "right", overflow="fold")
    for each in _figures(report):
        cells = (each.label, each.weir, each.baseline, each.difference, each.interval)
        table.add_row(*cells, style="bold" if each.found else "")
    return Group(
        Text.assemble((f"{report.app}: ", "bold"), _span(report)),
        Text(),
        Text(summarise(report), style="bold"),
        Text(),
        table,
        Text(),
        *(Text(f"- {notice}") for notice in _notices(report)),
    )


_COLUMNS = ("", "Weir", "baseline", "difference", f"{CONFIDENCE:.0%} interval")


def render_evaluation_page(report: EvaluationReport) -> str:
    """Return the evaluation as one self-contained HTML page."""
    figures = _figures(report)
    sections = [
        page.Section(
            title="",
            blocks=[
                page.Tiles(
                    [
                        page.Tile(
                            label=each.label[0].upper() + each.label[1:],
                            value=each.difference,
                            note=each.interval,
                        )
                        for each in figures
                    ]
                ),
                page.Prose(summarise(report) + "."),
            ],
        ),
        page.Section(
            title="Blocks",
            blocks=[
                page.Key([(COLOURS[name], name) for name in _by_label(report)]),
                page.Charts(
                    [
                        page.Chart(title="Cost per hour", figure=_blocks(report, _hourly_cost)),
                        page.Chart(
                            title="Share of intervals over the bound",
                            figure=_blocks(report, _share_late),
                        ),
                    ]
                ),
            ],
        ),
        page.Section(
            title="Totals",
            blocks=[
                page.Table(
                    columns=[page.Column(name, "number" if name else "wide") for name in _COLUMNS],
                    rows=[
                        [
                            page.Cell(text)
                            for text in (
                                each.label,
                                each.weir,
                                each.baseline,
                                each.difference,
                                each.interval,
                            )
                        ]
                        for each in figures
                    ],
                    empty="",
                )
            ],
        ),
        page.Section(
            title="What to know of these figures",
            blocks=[page.Prose(f"{notice.removesuffix('.')}.") for notice in _notices(report)],
        ),
    ]
    return page.render_page(f"{report.app}, evaluated", sections, subtitle=_span(report))


def _by_label(report: EvaluationReport) -> dict[str, dict[int, BlockTotals]]:
    """Return the blocks of each side, and apart from them those with a refused baseline."""
    found: dict[str, dict[int, BlockTotals]] = {side: {} for side in Side}
    for number, each in report.blocks.items():
        found.setdefault(REFUSED if each.refused else each.side, {})[number] = each
    return found


def _hourly_cost(block: BlockTotals) -> float:
    return 3600 * block.cost / block.seconds


def _share_late(block: BlockTotals) -> float | None:
    return block.late / block.measured if block.measured else None


def _blocks(report: EvaluationReport, of: Callable[[BlockTotals], float | None]) -> dict[str, Json]:
    """Return a bar for each block, in order of time."""
    bars: list[Json] = [
        {
            "type": "bar",
            "name": label,
            "x": [number + 1 for number in blocks],
            "y": [of(each) for each in blocks.values()],
            "marker": {"color": COLOURS[label]},
            "hovertemplate": "%{y:.4~g}",
        }
        for label, blocks in _by_label(report).items()
    ]
    xaxis: dict[str, Json] = {
        "title": {"text": "block"},
        "range": [0.5, 2 * report.design.pairs + 0.5],
    }
    return {"data": bars, "layout": figure_layout(unit="", xaxis=xaxis)}
