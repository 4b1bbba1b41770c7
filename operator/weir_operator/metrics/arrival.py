"""How many records would reach each operator if nothing upstream were blocked.

Under back-pressure an operator takes in what it can, not what there is, and Flink throttles
everything upstream of it, so no processed rate tells the demand. The demand shows only at the
sources: what they took in plus what their backlog grew by. It is passed down the dataflow with the
selectivities measured in the same window.

Along an edge from an operator that feeds several others, the share is measured at the receiver
where that is its only feeder (it may get a side output); a receiver with several feeders is taken
to get everything that each of them gives out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from weir_operator.metrics.layout import JobLayout
from weir_operator.metrics.rates import ratio

MOST_NEGATIVE = 0.1
"""Part of what a source took in by which its demand may come out below zero: samples of backlog
and intake are not of one instant."""


def arrival_rates(
    layout: JobLayout,
    *,
    processed: Mapping[str, float],
    emitted: Mapping[str, float],
    backlog_growth: Mapping[str, float],
) -> dict[str, float]:
    """Return records/s that arrive at each operator, NaN where that cannot be told.

    Args:
        layout: The dataflow.
        processed: Records/s that each operator took in.
        emitted: Records/s that each operator gave out.
        backlog_growth: Records/s by which the backlog of each source grew; NaN where a source
            reports no backlog, which takes what it took in for what there was.
    """
    downstream = layout.downstream()
    arrivals: dict[str, float] = {}
    for name in layout.downstream_order():
        upstream = layout.operators[name].upstream
        if not upstream:
            arrivals[name] = source_demand(processed[name], backlog_growth[name])
            continue
        arrivals[name] = sum(
            _along(
                arrivals[feeder],
                processed[feeder],
                received=processed[name]
                if len(upstream) == 1 and len(downstream[feeder]) > 1
                else emitted[feeder],
            )
            for feeder in upstream
        )
    return arrivals


def source_demand(processed: float, backlog_growth: float) -> float:
    """Return records/s that arrive at a source, NaN where that cannot be told.

    A backlog that falls by much more than the source takes in was not worked off: records were
    deleted, offsets reset, or the gauge is stale. What arrived meanwhile is unknown then, not zero.

    Args:
        processed: Records/s that it took in.
        backlog_growth: Records/s by which its backlog grew; NaN where it reports none.
    """
    if math.isnan(backlog_growth):
        return processed
    demand = processed + backlog_growth
    if demand < -MOST_NEGATIVE * processed:
        return math.nan
    return 0.0 if demand < 0 else demand


def _along(arriving: float, processed: float, *, received: float) -> float:
    """Scale what passed an edge from what the feeder processed up to what arrives at it."""
    if arriving == 0 and received == 0:
        return 0.0
    return arriving * ratio(received, processed)
