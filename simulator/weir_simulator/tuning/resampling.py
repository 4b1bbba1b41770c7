"""Makes up traffic like what was measured, for a comparison where the trace itself is too short.

Traffic that moves slowly does not show in a short trace how its mean may differ another time: the
trace has no two stretches that are nearly independent. What it does show is how the rate changes
from one slot to the next. Here, those changes are drawn again in blocks of random length, the
stationary bootstrap (Politis, Romano, Journal of the American Statistical Association 89, 1994),
and added up, within the lowest and the highest rate that were measured. Each such trace is as long
as the measured one and begins where it ends.
"""

from __future__ import annotations

import numpy as np

from weir_policies.model.arrays import Floats
from weir_simulator.traces import Trace

FLOOR = 0.01
"""Part of the mean rate that is added before logarithms are taken: a rate may be 0."""


def resample(rates: Trace, rng: np.random.Generator) -> Trace:
    """Return a trace with the changes of another one, in another order.

    Blocks of changes last the square root of the slots on average, so that most ramps and bursts
    stay whole.

    Args:
        rates: Records/s by slot, `(n,)`.
        rng: What is drawn from.

    Returns:
        Records/s, `(n,)`, none lower or higher than those of `rates`.
    """
    floor = FLOOR * float(rates.mean())
    if floor == 0 or rates.size < 2:  # nothing changes
        return rates.copy()
    heights = np.log(rates + floor)
    changes = np.diff(heights)
    count = changes.size
    begins = rng.random(rates.size) < 1 / np.sqrt(rates.size)
    begins[0] = True
    drawn = rng.integers(count, size=rates.size)
    first = np.maximum.accumulate(np.where(begins, np.arange(rates.size), 0))
    places = (drawn[first] + np.arange(rates.size) - first) % count
    path = heights[-1] + np.cumsum(changes[places])
    made = np.exp(_reflect(path, float(heights.min()), float(heights.max()))) - floor
    return np.clip(made, rates.min(), rates.max())


def _reflect(path: Floats, low: float, high: float) -> Floats:
    """Return a path that turns back at its limits instead of leaving them."""
    width = high - low
    if width == 0:
        return np.full_like(path, low)
    beyond = np.mod(path - low, 2 * width)
    reflected: Floats = low + np.minimum(beyond, 2 * width - beyond)
    return reflected
