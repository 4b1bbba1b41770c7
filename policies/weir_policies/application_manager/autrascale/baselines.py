"""What AuTraScale+ is compared with where a backlog is to be worked off: Max, Proportion, Exponent.

Source: Zhang et al., IEEE TPDS 2024, section V-A. Each answers with the next parallelism to run.
"""

from __future__ import annotations

import math

from weir_policies.application_manager.autrascale.values import Parallelism


def scale_in_proportion(
    parallelism: Parallelism, *, throughput: float, wanted: float, most: Parallelism
) -> Parallelism:
    """Return every operator times what the throughput falls short by, rounded up.

    Args:
        parallelism: What was measured.
        throughput: What it got through, records/s, above zero.
        wanted: V_t, records/s.
        most: P_max of every operator; which is also all there is to `Max`.
    """
    factor = wanted / throughput
    return tuple(
        min(math.ceil(count * factor), top) for count, top in zip(parallelism, most, strict=True)
    )


def double(parallelism: Parallelism, most: Parallelism) -> Parallelism:
    """Return every operator doubled; `Exponent` does so until the throughput is reached."""
    return tuple(min(2 * count, top) for count, top in zip(parallelism, most, strict=True))
