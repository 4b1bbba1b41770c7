"""The prices of a frontier, and why some objectives have none, in words."""

from __future__ import annotations

from collections.abc import Iterator

from weir_simulator.frontier import Frontier, FrontierPoint
from weir_simulator.reports import wording

_NOTHING = 1e-9
"""Half-widths up to this are rounding."""


def price(point: FrontierPoint) -> str:
    """Return the price per hour, or a word why there is none."""
    if point.chosen is not None:
        mean, half_width = point.chosen.price.mean, point.chosen.price.half_width
        # Where chance had no part, an interval of 0.00 would say nothing.
        by_chance = half_width is not None and half_width > _NOTHING
        return wording.plus_minus(mean, half_width if by_chance else None, 2)
    return "impossible" if point.impossible else "not kept"


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
