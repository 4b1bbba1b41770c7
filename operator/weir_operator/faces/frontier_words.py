"""How the prices of objectives read, the same in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterator

from weir_operator.faces import wording
from weir_simulator.comparison import Interval
from weir_simulator.frontier import Frontier, Point

AS_IT_IS = "as it is"
IMPOSSIBLE, NOT_KEPT = "impossible", "not kept"
_NOTHING = 1e-9
"""Half-widths up to this are rounding."""


def price(point: Point) -> str:
    """Return the price per hour, or in a word why there is none."""
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
        words, most = wording.seconds(bound), max(point.allowed for point in missing)
        kept = 100 - missing[0].unavoidable
        if any(point.impossible for point in missing):
            often = f"in more than {kept:.2f} % of the slots" if kept > 0 else "at all"
            yield (
                f"No deployment keeps {words} {often}: "
                "even all replicas on the fastest node type do not."
            )
        if not all(point.impossible for point in missing):
            yield (
                f"{words} with at most {most:g} % missed was kept by nothing that was tried; "
                "another policy, or weights found by weir tune, might."
            )
    for refusal in found.refusals:
        yield f"Some candidates could not be run: {refusal}"
