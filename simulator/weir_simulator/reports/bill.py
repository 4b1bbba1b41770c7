"""The words and the page of a bill: rates, deployments as they were and would have been, costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import numpy as np

from weir_policies.model.arrays import Floats
from weir_simulator.bill.bill import HOURS_A_MONTH, Bill, BillLine, Range
from weir_simulator.reports import wording
from weir_simulator.reports.page import (
    Block,
    ColumnKind,
    Fact,
    Facts,
    Heading,
    Line,
    LineChart,
    Table,
    Text,
    Tone,
    render_page,
)

COLUMNS: dict[str, ColumnKind] = {
    "Policy": "short",
    "Per hour": "number",
    "Per month": "number",
    "Over the objective": "number",
    "Restarts a day": "number",
    "Peak": "number",
}
LAYOUT = (
    "Peak is of TaskManagers. Every policy is simulated as Weir would run it, with a TaskManager "
    "for each replica; as it was, vertices may have shared slots. The JobManager, memory, network "
    "and storage are not in the bill."
)
MANIFOLD = 2.0
"""Part of what was paid from which on it is told as a multiple."""
POINTS = 1500
"""Of a line in a chart."""


def describe_time(bill: Bill) -> str:
    """Return which job, which time and which objective a bill is for."""
    begin = datetime.fromtimestamp(bill.begin, UTC)
    long = f"{bill.hours / 24:.1f} days" if bill.hours >= 48 else f"{bill.hours:.1f} hours"
    return (
        f"{bill.job}, {long} from {begin:%Y-%m-%d %H:%M} UTC, {bill.statistic} response time at "
        f"most {wording.seconds(bill.bound)}"
    )


def rows(bill: Bill, *, between: str = ", ") -> list[list[str]]:
    """Return the bill's lines as cells of the columns.

    Args:
        bill: The bill.
        between: Stands between a number and its range.
    """
    return [
        [
            each.name,
            _amount(each.cost, between),
            _amount(Range(*(HOURS_A_MONTH * value for value in each.cost)), between),
            _share(each.over, between),
            f"{each.restarts:.1f}",
            f"{each.peak}",
        ]
        for each in bill.lines
    ]


def sentences(bill: Bill) -> Iterator[str]:
    """Yield what a reader must know besides the lines."""
    yield _verdict(bill)
    yield (
        f"Ranges: in {bill.blocks} stretches that the fit had not seen, it missed the work by at "
        f"most {bill.error:.1%} in 95 % of them."
    )
    for policy, reason in bill.refusals.items():
        yield f"{policy} cannot scale this job: {reason}"
    for each in bill.assumptions:
        yield (
            f"Assumed: {each.assumed}. If {each.otherwise}: {wording.money(each.cost)} per hour, "
            f"{each.over:.1%} over the objective."
        )
    for other in bill.objectives:
        yield (
            f"With {wording.seconds(other.bound)} as the objective: {wording.money(other.cost)} "
            f"per hour, {other.over:.1%} over it."
        )
    for note in bill.notes:
        yield f"{note}."
    yield LAYOUT


def _verdict(bill: Bill) -> str:
    was, would = bill.lines[0], bill.lines[1]
    if was.cost.value <= 0:
        return "Nothing was paid for the job as it was."
    part = would.cost.value / was.cost.value
    if would.cost.low <= was.cost.value <= would.cost.high:
        money = "as much as it cost, within the error"
    elif part >= MANIFOLD:
        money = f"{part:.1f} times as much as it cost"
    else:
        money = f"{abs(1 - part):.0%} {'less' if part < 1 else 'more'} than it cost"
    return (
        f"By {would.name}, the job would have cost {money}, with {would.over.value:.1%} of the "
        f"time over the objective instead of {_percent(was.over.value)}."
    )


def render_bill(bill: Bill) -> str:
    """Return a page with the bill, the rate, and the deployments."""
    was, would = bill.lines[0], bill.lines[1]
    facts = [
        Fact(label="As it was, per month", value=wording.money(HOURS_A_MONTH * was.cost.value)),
        Fact(
            label=f"By {would.name}, per month",
            value=wording.money(HOURS_A_MONTH * would.cost.value),
            note=f"{wording.money(HOURS_A_MONTH * would.cost.low)} to "
            f"{wording.money(HOURS_A_MONTH * would.cost.high)}",
            tone=_tone(would.cost.value, was.cost.value),
        ),
        Fact(label="Over the objective, as it was", value=_percent(was.over.value)),
        Fact(
            label=f"By {would.name}",
            value=_percent(would.over.value),
            note=f"{_percent(would.over.low)} to {_percent(would.over.high)}",
            tone=_tone(would.over.value, was.over.value),
        ),
    ]
    begin, slot = bill.begin, bill.slot
    blocks: list[Block] = [
        Facts(facts),
        Text(_verdict(bill)),
        Heading("Bill"),
        Table(columns=COLUMNS, rows=rows(bill), empty="Nothing was simulated."),
        Heading("Over time"),
        LineChart(
            title="Arrivals",
            unit="records/s",
            lines=[_draw("arrivals", bill.rates, begin, slot, 0)],
        ),
        LineChart(
            title="Deployment",
            unit="TaskManagers",
            shape="steps",
            lines=_courses(bill, lambda line: line.replicas),
        ),
        LineChart(
            title="Cost",
            unit="per hour",
            shape="steps",
            lines=_courses(bill, lambda line: line.prices),
        ),
        LineChart(
            title="Response time",
            unit=f"seconds, {bill.statistic}",
            lines=_courses(bill, lambda line: line.responses),
            limit=bill.bound,
            is_wide=True,
        ),
        Heading("Assumed"),
        Table(
            columns={"Assumed": "wide", "If": "wide", "per hour": "number", "over": "number"},
            rows=[
                [a.assumed, a.otherwise, wording.money(a.cost), _percent(a.over)]
                for a in bill.assumptions
            ],
            empty="Nothing.",
        ),
        Heading("Other objectives"),
        Table(
            columns={"Response time": "short", "per hour": "number", "over": "number"},
            rows=[
                [wording.seconds(each.bound), wording.money(each.cost), _percent(each.over)]
                for each in bill.objectives
            ],
            empty="None was tried.",
        ),
        Heading("To know"),
        *[Text(f"{note}.") for note in bill.notes],
        Text(
            f"Ranges are of the work per record, which was missed by at most {bill.error:.1%} in "
            f"95 % of {bill.blocks} stretches that the fit had not seen. {LAYOUT}",
            "quiet",
        ),
    ]
    return render_page(f"Estimate for {bill.job}", blocks, subtitle=describe_time(bill))


def _courses(bill: Bill, take: Callable[[BillLine], Floats]) -> list[Line]:
    return [
        _draw(line.name, take(line), bill.begin, bill.slot, number)
        for number, line in enumerate(bill.lines)
    ]


def _draw(name: str, values: Floats, begin: float, slot: float, colour: int) -> Line:
    """Return a line of few points, each the largest of its stretch: peaks are what matters."""
    length = max(math.ceil(values.size / POINTS), 1)
    padded = np.append(values, np.full(-values.size % length, np.nan)).reshape(-1, length)
    known = np.where(np.isnan(padded), -np.inf, padded).max(axis=1)
    times = begin + slot * length * np.arange(known.size)
    return Line(
        name=name,
        x=times.tolist(),
        y=[value if math.isfinite(value) else math.nan for value in known.tolist()],
        colour=colour,
    )


def _tone(value: float, before: float) -> Tone:
    return "good" if value < before else "bad" if value > before else ""


def _amount(cost: Range, between: str) -> str:
    """Return what is paid, with its range where there is one: 1.20, 1.18 to 1.23."""
    value, low, high = (
        f"{each:,.0f}" if cost.value >= 100 else wording.money(each) for each in cost
    )
    return value if cost.low == cost.high else f"{value}{between}{low} to {high}"


def _share(over: Range, between: str) -> str:
    if over.low == over.high:
        return _percent(over.value)
    low, high = 100 * over.low, 100 * over.high
    return f"{_percent(over.value)}{between}{low:.1f} to {high:.1f}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if math.isfinite(share) else wording.UNKNOWN
