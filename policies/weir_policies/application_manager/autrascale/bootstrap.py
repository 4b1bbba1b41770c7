"""The parallelisms that a model is first trained on.

M uniform ones, all operators at max(pi^t) + i (P_max - max(pi^t)) / (M - 1), show what replicas
bring at all; N with one operator at its most and the others at pi^t show what each brings.

Source: Zhang et al., IEEE TPDS 2024, section IV-C. Departure: operators may have different limits;
a uniform parallelism above one is cut there, and what coincides is kept once.
"""

from __future__ import annotations

from weir_policies.application_manager.autrascale.values import Parallelism, refuse_unlike


def choose_bootstrap(
    floor: Parallelism, most: Parallelism, uniform: int
) -> tuple[Parallelism, ...]:
    """Return the set S, without repetitions.

    Args:
        floor: pi^t.
        most: P_max of every operator.
        uniform: M, uniform parallelisms asked for.

    Raises:
        ParameterError: The floor exceeds the most.
    """
    refuse_unlike(floor, most)
    low, high = max(floor), max(most)
    steps = max(uniform - 1, 1)
    chosen = []
    for step in range(uniform):
        level = round(low + step * (high - low) / steps)
        chosen.append(
            tuple(max(min(level, top), least) for top, least in zip(most, floor, strict=True))
        )
    for place, top in enumerate(most):
        chosen.append(tuple(top if other == place else least for other, least in enumerate(floor)))
    return tuple(dict.fromkeys(chosen))
