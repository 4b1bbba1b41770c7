"""Values of a report for programs: JSON has neither NaN nor infinity."""

from __future__ import annotations

import math


def replace_non_finite(value: object) -> object:
    """Return JSON values in which what is unknown is null, and what is unlimited "Infinity".

    Args:
        value: Of dicts, lists, tuples, texts and numbers.
    """
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return None
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: replace_non_finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(each) for each in value]
    return value
