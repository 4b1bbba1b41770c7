"""How often `weir evaluate` finds a known saving, against a baseline that is fixed or is not.

Evaluations are made up: of each block, what a deployment that follows the load costs, in whole
replicas, and the rate at the sources. The load has days, noise that lasts (an autoregression from
block to block) and a trend. The baseline costs the same in every block, so that Weir's cost over
all blocks is less by exactly the saving; in a second world, it follows the load as Weir does.
"""

from __future__ import annotations

import math

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, at_least, at_most
from weir_policies.model.arrays import Floats
from weir_simulator.switchback import BlockTotals, Design, Effect, Side, estimate

ABOUT = "how often weir evaluate finds a saving that is there, and one that is not"
DURATION = "a minute"
SEED = 2_000_000
EVALUATIONS = 2_000
HOUR = 3600.0
JUDGED = 0.75 * HOUR
REPLICAS = 8.0
"""Of a job under its mean load."""
DAY, NOISE, LASTING, TREND, OTHER = 0.4, 0.1, 0.8, 0.02, 0.03
"""Of the load's logarithm: amplitude of a day, standard deviation of the noise of a block and its
correlation with the next one, standard deviation of the trend per block; and of what a block costs
apart from its load."""


def run() -> list[Figure]:
    """Measure it."""
    table = Table("baseline", "pairs", "saving", "within its interval", "found", "median width")
    figures: list[Figure] = []
    for fixed in (True, False):
        for pairs in (4, 12, 24):
            for saving in (0.0, 0.2):
                found = [
                    evaluate(SEED + number, saving=saving, pairs=pairs, fixed=fixed)
                    for number in range(EVALUATIONS)
                ]
                inside = float(np.mean([each.low <= -saving <= each.high for each in found]))
                share = float(np.mean([each.found for each in found]))
                width = float(np.median([each.high - each.low for each in found]))
                what = "a fixed baseline" if fixed else "a baseline that follows the load"
                table.add_row(
                    what,
                    f"{pairs}",
                    f"{saving:.0%}",
                    f"{inside:.1%}",
                    f"{share:.1%}",
                    f"{100 * width:.1f} points",
                )
                figures += _figures(f"{saving:.0%}, {pairs} pairs, {what}", inside, share, saving)
    Console().print(table)
    return figures


def _figures(case: str, inside: float, found: float, saving: float) -> list[Figure]:
    held = at_least(
        figure=f"saving of {case}: within its 95 % interval",
        value=100 * inside,
        unit="%",
        limit=93.0,
    )
    name = f"saving of {case}: found"
    if saving == 0:
        return [held, at_most(figure=name, value=100 * found, unit="%", limit=7.0)]
    if "4 pairs" in case and "24 pairs" not in case:  # so few promise nothing
        return [held, Figure(figure=name, value=100 * found, unit="%")]
    return [held, at_least(figure=name, value=100 * found, unit="%", limit=95.0)]


def evaluate(seed: int, *, saving: float, pairs: int, fixed: bool) -> Effect:
    """Return the relative cost that one made-up evaluation finds."""
    rng = np.random.default_rng(seed)
    design = Design(block=HOUR, pairs=pairs, seed=seed)
    load = _load(rng, 2 * pairs)
    following = np.ceil(REPLICAS * load / load.mean())
    other = np.full_like(following, following.mean()) if fixed else following
    costs = {Side.WEIR: (1 - saving) * following, Side.BASELINE: other}
    found = estimate(
        {
            block: BlockTotals(
                side=side,
                seconds=JUDGED,
                cost=float(costs[side][block]) * math.exp(rng.normal(0, OTHER)),
                measured=45,
                measured_seconds=JUDGED,
                rate=100 * float(load[block]),
            )
            for block, side in enumerate(design.sides)
        },
        design,
    )
    assert found is not None
    return found.relative_cost


def _load(rng: np.random.Generator, blocks: int) -> Floats:
    noise = np.zeros(blocks)
    for block in range(1, blocks):
        noise[block] = LASTING * noise[block - 1] + rng.normal(0, NOISE)
    hours = np.arange(blocks)
    day = DAY * np.sin(2 * math.pi * (hours + rng.uniform(0, 24)) / 24)
    loads: Floats = np.exp(day + noise + rng.normal(0, TREND) * hours)
    return loads
