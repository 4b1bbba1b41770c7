"""The HTML page of a frontier: which objectives can be had, and at which price."""

from __future__ import annotations

from collections.abc import Mapping

from weir_operator.faces import frontier_charts, frontier_words, wording
from weir_operator.faces.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Key,
    Prose,
    Section,
    Table,
    Tile,
    Tiles,
    render_page,
)
from weir_simulator.frontier import Frontier, Point

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
        subtitle += " · ± is the 95 % confidence interval over seeds, where chance has a part"
    return render_page("What an objective costs", sections, subtitle=subtitle)


def _overview(worlds: Mapping[str, Frontier]) -> list[Block]:
    last = list(worlds.values())[-1]
    blocks: list[Block] = [Tiles(_tiles(last))]
    if len(worlds) > 1:
        *before, world = worlds
        blocks.append(Prose(f"Dotted: {', '.join(before)}. Whole lines: {world}.", "quiet"))
    blocks += [
        Key(frontier_charts.key_of_shares(last)),
        Charts(
            [
                Chart(
                    title="Price of a response time",
                    figure=frontier_charts.price_by_bound(worlds),
                    height=_HEIGHT,
                )
            ]
        ),
        Key(frontier_charts.key_of_bounds(last)),
        Charts(
            [
                Chart(
                    title="Price of keeping it more often",
                    figure=frontier_charts.price_by_share(worlds),
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


def _tile(label: str, point: Point, other: Point | None) -> Tile:
    promise = f"{wording.seconds(point.bound)}, {point.allowed:g} % missed"
    if point.chosen is None:
        return Tile(label=label, value=frontier_words.price(point), note=promise, tone="warn")
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
    return [table, *(Prose(sentence, "warn") for sentence in frontier_words.explain_gaps(found))]


def _price_cell(point: Point) -> Cell:
    return Cell(frontier_words.price(point), "" if point.chosen is not None else "warn")


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


def _relative(before: Point, after: Point) -> str:
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


def _detail(point: Point) -> list[Cell]:
    chosen, missed = point.chosen, point.missed
    if chosen is None or missed is None:
        raise TypeError("Expected an objective that is kept, got one without a price")
    return [
        Cell(f"at most {wording.seconds(point.bound)}"),
        Cell(f"{point.allowed:g} %"),
        Cell(frontier_words.price(point)),
        Cell(f"{frontier_words.interval(missed, 2)} %"),
        Cell(frontier_words.interval(chosen.restarts, 1)),
        Cell(", ".join(f"{mean:.2f} {name}" for name, mean in chosen.replicas.items())),
        Cell(wording.seconds(chosen.planned)),
        Cell(f"{chosen.emphasis:g}"),
    ]


def _reading(found: Frontier) -> Prose:
    return Prose(
        f"Each price is the least of {len(found.candidates)} ways to run that keep the objective "
        "with every seed: the policy plans for the bound in the last column but one, with the "
        "weight of violations multiplied by the factor in the last. It is an upper limit: a finer "
        "search (weir tune) can only lower it.",
        "quiet",
    )
