"""How fast a backlog must be worked off, and how well a throughput does it.

    l_w = l_e - l_p,   R_s = lambda (L_e - l_p),   R_t = R_c - R_s         (Eq. 9-11, Little's law)
    V_t = lambda + R_t / T_limit                                           (Eq. 12)
    F_tp = beta / (|v - V_t| + beta)                                       (Eq. 13)

Source: Zhang et al., IEEE TPDS 2024, section IV-E.
"""

from __future__ import annotations


def find_target_throughput(
    *, rate: float, lag: float, latency: float, age_bound: float, limit: float
) -> float:
    """Return V_t, records/s; the rate where what waits is allowed to.

    Args:
        rate: lambda, records/s.
        lag: Records that wait now, R_c.
        latency: l_p of the steady state, seconds.
        age_bound: L_e, seconds.
        limit: T_limit, seconds, restarts taken off.
    """
    allowed = rate * max(age_bound - latency, 0.0)
    return rate + max(lag - allowed, 0.0) / limit


def score_throughput(throughput: float, target: float, beta: float) -> float:
    """Return F_tp, in (0, 1]: 1 where the throughput is the target, all three in records/s."""
    return beta / (abs(throughput - target) + beta)
