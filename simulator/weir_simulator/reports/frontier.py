"""The HTML page of a frontier: which objectives are possible, and at which price.

Charts are Plotly figures of the price over the bound, and over the share of misses. Lines are
steps: what meets a bound meets every looser one, so a price holds until the next bound that was
asked for. The last world is drawn as whole lines; one before it, for comparison, is dotted. The
texts are the same in the terminal and in the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weir_policies.model.objective import Statistic
from weir_simulator.comparison import Interval
from weir_simulator.frontier import Frontier, FrontierPoint
from weir_simulator.reports import wording
from weir_simulator.reports.page import (
    SERIES,
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Figure,
    Json,
    Key,
    Prose,
    Section,
    Table,
    Tile,
    Tiles,
    figure_layout,
    render_page,
)

KeyEntries = Sequence[tuple[str, str]]
"""(colour, what it stands for)."""


def key_of_shares(found: Frontier) -> KeyEntries:
    """Return the colours of `price_by_bound`."""
    return [
        (_colour(place), f"missed in at most {share:g} %")
        for place, share in enumerate(found.order.allowed)
    ]


def key_of_bounds(found: Frontier) -> KeyEntries:
    """Return the colours of `price_by_share`."""
    return [
        (_colour(place), f"at most {wording.seconds(bound)}")
        for place, bound in enumerate(found.order.bounds)
    ]


def price_by_bound(worlds: Mapping[str, Frontier]) -> Figure:
    """Return the price per hour over the response-time bound, a line per allowed share."""
    lines: list[Json] = []
    for world, found in worlds.items():
        for place, share in enumerate(found.order.allowed):
            points = [found.at(bound, share) for bound in found.order.bounds]
            lines.append(
                _line(
                    points,
                    [1000 * point.bound for point in points],
                    name=f"{share:g} %, {world}" if len(worlds) > 1 else f"{share:g} %",
                    colour=_colour(place),
                    dotted=world != list(worlds)[-1],
                )
            )
    return {"data": lines, "layout": _layout("price per hour, by bound in ms", "")}


def price_by_share(worlds: Mapping[str, Frontier]) -> Figure:
    """Return the price per hour over the allowed share of misses, a line per bound."""
    lines: list[Json] = []
    for world, found in worlds.items():
        for place, bound in enumerate(found.order.bounds):
            points = [found.at(bound, share) for share in found.order.allowed]
            words = wording.seconds(bound)
            lines.append(
                _line(
                    points,
                    [point.allowed for point in points],
                    name=f"{words}, {world}" if len(worlds) > 1 else words,
                    colour=_colour(place),
                    dotted=world != list(worlds)[-1],
                )
            )
    return {"data": lines, "layout": _layout("price per hour, by % of slots that may miss", " %")}


def _line(
    points: Sequence[FrontierPoint],
    places: Sequence[float],
    *,
    name: str,
    colour: str,
    dotted: bool,
) -> dict[str, Json]:
    """Return a stair with intervals; it begins where the objective is kept for the first time."""
    prices = [None if point.chosen is None else point.chosen.price for point in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(places),
        "y": [None if price is None else round(price.mean, 6) for price in prices],
        "line": {
            "color": colour, "width": 1.5 if dotted else 2, "shape": "hv",
            "dash": "dot" if dotted else "solid",
        },
        "marker": {"color": colour, "size": 5 if dotted else 7},
        "error_y": {
            "type": "data",
            "array": [None if price is None else price.half_width for price in prices],
            "color": colour,
            "thickness": 1,
            "width": 3,
        },
        "hovertemplate": "%{y:.3f}",
    }  # fmt: skip


def _colour(place: int) -> str:
    return SERIES[place % len(SERIES)]


def _layout(unit: str, suffix: str) -> dict[str, Json]:
    return figure_layout(
        unit=unit,
        xaxis={"ticksuffix": suffix, "rangemode": "tozero"},
        # From the least price, not from zero: what is read off is a difference.
        yaxis={"rangemode": "normal"},
    )


AS_IT_IS = "as it is"
IMPOSSIBLE, NOT_KEPT = "impossible", "not kept"
_NOTHING = 1e-9
"""Half-widths up to this are rounding."""


def price(point: FrontierPoint) -> str:
    """Return the price per hour, or a word why there is none."""
    if point.chosen is not None:
        return interval(point.chosen.price, 2)
    return IMPOSSIBLE if point.impossible else NOT_KEPT


def interval(value: Interval, digits: int) -> str:
    """Return a mean with its interval, which is left out where chance had no part: ± 0.00."""
    by_chance = value.half_width is not None and value.half_width > _NOTHING
    return wording.plus_minus(value.mean, value.half_width if by_chance else None, digits)


def explain_gaps(found: Frontier) -> Iterator[str]:
    """Yield a sentence for each bound that has no price somewhere, and for each refusal."""
    for bound in found.order.bounds:
        missing = [p for p in found.points if p.bound == bound and p.chosen is None]
        if not missing:
            continue
        words, maximum = wording.seconds(bound), max(point.allowed for point in missing)
        kept = 100 - missing[0].unavoidable
        if any(point.impossible for point in missing):
            often = f"in more than {kept:.2f} % of the slots" if kept > 0 else "at all"
            yield (
                f"No deployment meets {words} {often}: even all replicas on the fastest "
                "node type do not."
            )
        if not all(point.impossible for point in missing):
            yield (
                f"No simulated settings meet {words} with at most {maximum:g} % missed; "
                "another policy, or weights found by weir tune, might."
            )
    for refusal in found.refusals:
        yield f"Some candidates could not be run: {refusal}"


_HEIGHT = 340
"""Pixels of a chart."""


def render_frontier_page(name: str, worlds: Mapping[str, Frontier]) -> str:
    """Return a page on the prices of objectives.

    Args:
        name: What the experiment is called.
        worlds: Frontiers by what they assume: as it is, and perhaps what if.
    """
    last = list(worlds.values())[-1]
    sections = [Section(title="", blocks=_overview(worlds))]
    for world, found in worlds.items():
        title = "Prices" if len(worlds) == 1 else f"Prices, {world}"
        sections.append(Section(title=title, blocks=_prices(found)))
    if len(worlds) > 1:
        sections.insert(1, Section(title="What it changes", blocks=[_differences(worlds)]))
    sections.append(Section(title="How each is kept", blocks=[_details(last), _reading(last)]))
    seeds = wording.counted(len(last.order.seeds), "seed")
    subtitle = f"{name} · policy {last.order.policy} · {last.order.runs} simulations, {seeds} each"
    if len(last.order.seeds) > 1:
        subtitle += " · ± is the 95 % confidence interval over seeds"
    bounded = last.order.experiment.objective.statistic
    if bounded is not Statistic.MEAN:
        subtitle += f" · bounds are of the {bounded}"
    return render_page("What an objective costs", sections, subtitle=subtitle)


def _overview(worlds: Mapping[str, Frontier]) -> list[Block]:
    last = list(worlds.values())[-1]
    blocks: list[Block] = [Tiles(_tiles(last))]
    if len(worlds) > 1:
        *before, world = worlds
        blocks.append(Prose(f"Dotted: {', '.join(before)}. Whole lines: {world}.", "quiet"))
    blocks += [
        Key(key_of_shares(last)),
        Charts(
            [
                Chart(
                    title="Price of a response time",
                    figure=price_by_bound(worlds),
                    height=_HEIGHT,
                )
            ]
        ),
        Key(key_of_bounds(last)),
        Charts(
            [
                Chart(
                    title="Price of keeping it more often",
                    figure=price_by_share(worlds),
                    height=_HEIGHT,
                )
            ]
        ),
    ]
    return blocks


def _tiles(found: Frontier) -> list[Tile]:
    """Return the objective nearest to the experiment's own, and what its neighbours save."""
    order = found.order
    own = min(order.bounds, key=lambda bound: abs(bound - order.experiment.objective.response_time))
    middle = order.allowed[len(order.allowed) // 2]
    here = found.at(own, middle)
    tiles = [_tile("This objective", here, None)]
    if own != order.bounds[0]:
        tighter = order.bounds[order.bounds.index(own) - 1]
        tiles.append(_tile("A tighter bound", found.at(tighter, middle), here))
    if own != order.bounds[-1]:
        looser = order.bounds[order.bounds.index(own) + 1]
        tiles.append(_tile("A looser bound", found.at(looser, middle), here))
    if middle != order.allowed[0]:
        tiles.append(_tile("Kept more often", found.at(own, order.allowed[0]), here))
    if middle != order.allowed[-1]:
        tiles.append(_tile("Missed more often", found.at(own, order.allowed[-1]), here))
    return tiles


def _tile(label: str, point: FrontierPoint, other: FrontierPoint | None) -> Tile:
    promise = f"{wording.seconds(point.bound)}, {point.allowed:g} % missed"
    if point.chosen is None:
        return Tile(label=label, value=price(point), note=promise, tone="warn")
    value = wording.money(point.chosen.price.mean)
    if other is not None and other.chosen is not None:
        promise += f"; {_relative(other, point)}"
    return Tile(label=label, value=value, note=promise)


def _prices(found: Frontier) -> list[Block]:
    table = Table(
        columns=[
            Column("Response time", "short"),
            *(Column(f"{share:g} % missed", "number") for share in found.order.allowed),
        ],
        rows=[
            [
                Cell(f"at most {wording.seconds(bound)}"),
                *(_price_cell(found.at(bound, share)) for share in found.order.allowed),
            ]
            for bound in found.order.bounds
        ],
        empty="No bound was asked about.",
    )
    return [table, *(Prose(sentence, "warn") for sentence in explain_gaps(found))]


def _price_cell(point: FrontierPoint) -> Cell:
    return Cell(price(point), "" if point.chosen is not None else "warn")


def _differences(worlds: Mapping[str, Frontier]) -> Table:
    """Return by how much the last world's prices differ from the first's."""
    first, *_, last = worlds.values()
    return Table(
        columns=[
            Column("Response time", "short"),
            *(Column(f"{share:g} % missed", "number") for share in last.order.allowed),
        ],
        rows=[
            [
                Cell(f"at most {wording.seconds(bound)}"),
                *(
                    Cell(_relative(first.at(bound, share), last.at(bound, share)))
                    for share in last.order.allowed
                ),
            ]
            for bound in last.order.bounds
        ],
        empty="No bound was asked about.",
    )


def _relative(before: FrontierPoint, after: FrontierPoint) -> str:
    """Return the difference of two prices in percent, or in words where one is missing."""
    if before.chosen is None or after.chosen is None:
        if before.chosen is after.chosen:
            return wording.UNKNOWN
        return "no longer kept" if after.chosen is None else "now kept"
    if before.chosen.price.mean == 0:
        return wording.UNKNOWN
    return f"{100 * (after.chosen.price.mean / before.chosen.price.mean - 1):+.1f} %"


def _details(found: Frontier) -> Table:
    return Table(
        columns=[
            Column("Response time", "short"),
            Column("May be missed", "number"),
            Column("Price per hour", "number"),
            Column("Missed", "number"),
            Column("Restarts a day", "number"),
            Column("Replicas", "wide"),
            Column("Planned for", "number"),
            Column("Weight factor", "number"),
        ],
        rows=[_detail(point) for point in found.points if point.chosen is not None],
        empty="No objective that was asked about is kept.",
    )


def _detail(point: FrontierPoint) -> list[Cell]:
    chosen, missed = point.chosen, point.missed
    if chosen is None or missed is None:
        raise TypeError("Expected an objective that is kept, got one without a price")
    return [
        Cell(f"at most {wording.seconds(point.bound)}"),
        Cell(f"{point.allowed:g} %"),
        Cell(price(point)),
        Cell(f"{interval(missed, 2)} %"),
        Cell(interval(chosen.restarts, 1)),
        Cell(", ".join(f"{mean:.2f} {name}" for name, mean in chosen.replicas.items())),
        Cell(wording.seconds(chosen.planned)),
        Cell(f"{chosen.emphasis:g}"),
    ]


def _reading(found: Frontier) -> Prose:
    return Prose(
        f"Each price is the lowest of {len(found.candidates)} settings that meet "
        "the objective with every seed: the policy plans for the bound in the "
        "last column but one, with the weight of violations multiplied by the "
        "factor in the last. It is an upper limit: a finer search (weir tune) "
        "can only lower it.",
        "quiet",
    )
