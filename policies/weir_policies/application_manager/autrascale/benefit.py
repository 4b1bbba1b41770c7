"""The benefit score of a parallelism, and the score from which it is good enough.

    F   = alpha min(1, L_p / l_p) + (1 - alpha) mean_i(pi^t_i / p_i)      (Eq. 4)
    s_l = alpha + (1 - alpha) / (1 + w)                                   (Eq. 7, 8)

Source: Zhang et al., IEEE TPDS 2024, section IV-C. It prints neither alpha nor w: alpha = 0.8 gives
all three scores of its Table IV to the digit, and then w = 1 gives its threshold of 0.9.
"""

from __future__ import annotations

from weir_policies.application_manager.autrascale.values import Parallelism


def score_benefit(
    parallelism: Parallelism,
    floor: Parallelism,
    *,
    latency: float,
    latency_bound: float,
    alpha: float,
) -> float:
    """Return F, in (0, 1] for a parallelism of at least the floor.

    Args:
        parallelism: p.
        floor: pi^t.
        latency: l_p, seconds; `inf` scores 0 for its part.
        latency_bound: L_p, seconds.
        alpha: Weight of the latency.
    """
    in_time = 1.0 if latency <= latency_bound else latency_bound / latency
    lean = sum(a / b for a, b in zip(floor, parallelism, strict=True)) / len(parallelism)
    return alpha * in_time + (1 - alpha) * lean


def find_threshold(alpha: float, overallocation: float) -> float:
    """Return s_l: in time, with so many times more replicas than needed, on average."""
    return alpha + (1 - alpha) / (1 + overallocation)
